"""What a launcher knows of its calls, when somebody asks: never less than what may have happened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.core.desk import START, Desk, at, only_flight, put
from tests.replica.several import Receiver, Workshop, World

from tocsin.clock import SystemClock
from tocsin.errors import Refused, Unreachable
from tocsin.model import change as c
from tocsin.model.cluster import Asked
from tocsin.model.command import ResolveLaunch
from tocsin.model.entry import Position
from tocsin.observe.metrics import Metrics
from tocsin.replica.afterlife import Afterlife
from tocsin.replica.conclusion import Concluder
from tocsin.replica.elsewhere import Elsewhere
from tocsin.replica.flight import Again, Flight, flight_of_row
from tocsin.replica.kept_answers import KEPT_MS, KeptAnswer, KeptAnswers
from tocsin.replica.lanes import ROOM_FOR_ALL
from tocsin.replica.launcher import Launcher
from tocsin.replica.office import SoleOffice
from tocsin.replica.outcomes import resolutions
from tocsin.replica.peers import Fate
from tocsin.replica.terms import BegunTerm, OwnTerms
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import SUCCEEDED, TOO_LATE, Order, Outcome, Target, Verdict
from tocsin.targets.null import NullTarget

UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer")
_HTTP = msgspec.msgpack.encode({"target": {"kind": "http", "url": "http://receiver/"}})
_EXEC = msgspec.msgpack.encode({"target": {"kind": "exec", "shell": "true"}})
_NULL = msgspec.msgpack.encode({"target": {"kind": "null"}})


def _flight(number: int = 1, spec: bytes = _HTTP) -> Flight:
    return flight_of_row(OrderRow(number, "s", number, 0, 1, 1, 0, None, spec, 1, "a"), 1)


def _asked(flight: Flight) -> Asked:
    return Asked(flight.order.name, flight.order.attempt, flight.kind, 0, 1)


class _Quick(SystemClock):
    """Nobody waits for longer than a moment."""

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        await asyncio.sleep(0)

    def elapsed_s(self) -> float:
        return super().elapsed_s() * 10_000


class _Batches(NullTarget):
    """One that can be held up, or broken."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.broken: Exception | None = None

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        await self.gate.wait()
        if self.broken is not None:
            raise self.broken
        return [SUCCEEDED for _ in orders]


class _Scene:
    """One term of one process, with everything that it may call."""

    def __init__(self) -> None:
        clock, office = SystemClock(), SoleOffice()
        office.renewed(0.0)
        self.world = World()
        self.world.is_held = True
        self.batches = _Batches()
        self.receiver, self.workshop = Receiver(self.world, "a", clock), Workshop(self.world, "a", clock)
        targets: dict[str, Target] = {"http": self.receiver, "exec": self.workshop, "null": self.batches}
        self.launcher = Launcher(targets, office, clock, lambda: None)
        own = OwnTerms(Path("unused"), Path("unused"))
        self.afterlife = Afterlife(targets, clock, own, KeptAnswers(Path("unused"), own))
        self.afterlife.add(1, self.launcher)

    async def fate(self, flight: Flight) -> Fate:
        (found,) = await self.afterlife.fates([_asked(flight)])
        return found

    async def settle(self) -> None:
        await self.launcher.settled()


async def _nobody_stops(host: str, asked: Asked, reason: str) -> None:
    raise AssertionError("nothing is to be stopped")


def _in_scene(work: Callable[[_Scene], Awaitable[None]]) -> None:
    async def whole() -> None:
        scene = _Scene()
        await work(scene)
        for call in scene.world.calls:
            call.ends()
        await scene.launcher.drain(grace_s=0)

    asyncio.run(whole())


def a_call_is_known_from_the_moment_it_is_made_until_its_end_is_written() -> None:
    async def work(scene: _Scene) -> None:
        flight = _flight()
        assert (await scene.fate(flight)).how == "never"
        scene.launcher.hand_over([flight])
        await scene.settle()
        assert (await scene.fate(flight)).how == "flying"
        scene.world.calls[0].ends()
        await scene.settle()
        ended = await scene.fate(flight)
        assert (ended.how, ended.outcome and ended.outcome.verdict) == ("ended", Verdict.SUCCEEDED)
        assert ended.outcome.called_ms == flight.called_ms is not None
        reports = scene.launcher.take()  # the entry is on its way
        assert await scene.fate(flight) == ended
        scene.launcher.give_back(reports)
        assert await scene.fate(flight) == ended
        scene.launcher.written(scene.launcher.take())
        assert scene.launcher.unwritten() == {}

    _in_scene(work)


def what_was_not_called_before_the_end_is_never_called_after_it() -> None:
    async def work(scene: _Scene) -> None:
        flights = [_flight(1), _flight(2, _NULL), _flight(3, _EXEC)]
        scene.launcher.hand_over(flights)
        scene.afterlife.end_before(2)
        assert [fate.how for fate in await scene.afterlife.fates([_asked(f) for f in flights])][1] == "never"
        await scene.settle()
        assert [(await scene.fate(flight)).how for flight in flights] == ["never"] * 3
        assert scene.world.calls == []

    _in_scene(work)


def a_batch_under_way_is_flying_also_when_its_process_lets_go() -> None:
    async def work(scene: _Scene) -> None:
        flight = _flight(1, _NULL)
        scene.launcher.hand_over([flight])
        await scene.settle()
        assert (await scene.fate(flight)).how == "flying"
        await scene.launcher.drain(grace_s=0)
        assert (await scene.fate(flight)).how == "flying"

    _in_scene(work)


def a_target_that_breaks_leaves_doubt_and_no_launch_that_is_open_for_ever() -> None:
    async def work(scene: _Scene) -> None:
        scene.batches.broken = OSError("broken")
        scene.batches.gate.set()

        async def breaks(order: Order) -> Outcome:
            raise OSError("broken")

        scene.receiver.launch = breaks  # type: ignore[method-assign]  # why: broken on purpose
        scene.workshop.watch = breaks  # type: ignore[method-assign]  # why: the same
        flights = [_flight(1), _flight(2, _NULL), _flight(3, _EXEC)]
        scene.launcher.hand_over(flights)
        await scene.settle()
        ended = scene.launcher.take().ended
        assert {flight.lid for flight, _ in ended} == {1, 2, 3}
        assert {outcome.verdict for _, outcome in ended} == {Verdict.UNKNOWN}

    _in_scene(work)


def what_came_too_late_after_all_is_not_recorded_as_running() -> None:
    """Its target had accepted it, and then found that there was no authority any more."""

    async def work(scene: _Scene) -> None:
        flight = _flight(1, _EXEC)
        scene.launcher.hand_over([flight])
        await scene.settle()
        scene.world.calls[0].ends(TOO_LATE)
        await scene.settle()
        reports = scene.launcher.take()
        assert (reports.accepted, reports.withdrawn) == ({}, [flight])

    _in_scene(work)


@pytest.mark.parametrize(("term", "how"), [(1, "unknown"), (2, "never")])
def no_record_proves_something_only_of_terms_in_which_this_disk_led(
    term: int, how: str, tmp_path: Path
) -> None:
    """Another one of the same name, with another disk, may have made the calls."""

    async def work(scene: _Scene) -> None:
        own = OwnTerms(tmp_path / "terms", tmp_path / "offered")
        own.claim(2, b"i" * 16)
        own.won(2)
        afterlife = Afterlife(
            {"exec": scene.workshop}, SystemClock(), own, KeptAnswers(tmp_path / "answers", own)
        )
        (fate,) = await afterlife.fates([Asked("s-1", 1, "exec", 0, term)])
        assert fate.how == how

    _in_scene(work)


@pytest.mark.parametrize(("term", "how"), [(1, "ended"), (2, "unknown")])
def an_answer_that_nobody_asked_for_is_known_after_a_restart(term: int, how: str, tmp_path: Path) -> None:
    """But only of a term in which this disk led."""

    async def work(scene: _Scene) -> None:
        flight = _flight()
        scene.launcher.hand_over([flight])
        await scene.settle()
        scene.world.calls[0].ends()
        await scene.settle()
        own = OwnTerms(tmp_path / "terms", tmp_path / "offered")
        own.claim(term, b"i" * 16)
        own.won(term)
        answers = scene.afterlife._answers = KeptAnswers(tmp_path / "answers", own)
        await scene.afterlife.finish(0.0)
        for _ in range(2):
            answers = KeptAnswers(tmp_path / "answers", own)
            answers.load()
            afterlife = Afterlife({"http": scene.receiver}, SystemClock(), own, answers)
            await afterlife.finish(0.0)  # nobody has asked yet
        (fate,) = await afterlife.fates([_asked(flight)])
        assert fate.how == how
        if how == "ended":
            assert fate.outcome is not None
            assert fate.outcome.verdict is Verdict.SUCCEEDED
            await afterlife.finish(0.0)  # whoever asked may have ended before it wrote that down
            answers.load()
            assert answers.of(flight.order.name, flight.order.attempt, term) == fate.outcome
            answers.save([], SystemClock().wall_ms() + KEPT_MS)
            assert not (tmp_path / "answers").exists()

    _in_scene(work)


def a_call_that_was_never_made_is_known_as_that_after_a_restart_unless_a_record_was_lost(
    tmp_path: Path,
) -> None:
    """Nobody could write down that it was taken back: there was no majority any more."""

    async def work(scene: _Scene) -> None:
        scene.world.is_held = True
        flights = [_flight(1), _flight(2)]
        scene.launcher.hand_over(flights)
        scene.launcher.close()
        await scene.settle()
        assert scene.world.calls == []
        reports = scene.launcher.take()  # the last entry, of which nobody heard
        assert [flight.lid for flight in reports.withdrawn] == [1, 2]
        own = OwnTerms(tmp_path / "terms", tmp_path / "offered")
        own.claim(1, b"i" * 16)
        own.won(1)
        scene.afterlife._answers = KeptAnswers(tmp_path / "answers", own)
        await scene.afterlife.finish(0.0)
        answers = KeptAnswers(tmp_path / "answers", own)
        answers.load()
        afterlife = Afterlife({"http": scene.receiver}, SystemClock(), own, answers)
        assert [fate.how for fate in await afterlife.fates([_asked(f) for f in flights])] == ["never"] * 2
        begun = [BegunTerm(1, Position(7, b"i" * 16), b"")]
        later = OwnTerms(tmp_path / "terms", tmp_path / "offered")
        later.offer(Position(9, b"e" * 16))
        later.load()
        later.settle(begun, Position(9, b"e" * 16))
        answers._own = afterlife._own = later
        for lost_after, how in ((0, "never"), (6, "never"), (7, "unknown"), (9, "unknown")):
            later.lost_after = lambda seq=lost_after: seq  # type: ignore[misc]  # why: bound to this round
            fates = await afterlife.fates([_asked(f) for f in flights])
            assert [fate.how for fate in fates] == [how] * 2

    _in_scene(work)


@pytest.mark.parametrize("cancel", [None, "cancelled by hand"])
def what_is_known_never_to_have_been_called_is_called_unless_it_was_cancelled(
    cancel: str | None, tmp_path: Path
) -> None:
    async def work(scene: _Scene) -> None:
        own = OwnTerms(tmp_path / "terms", tmp_path / "offered")
        own.claim(1, b"i" * 16)
        own.won(1)
        KeptAnswers(tmp_path / "answers", own).save([KeptAnswer("s-1", 1, 1, TOO_LATE, 0)], 0)
        answers = KeptAnswers(tmp_path / "answers", own)
        answers.load()

        async def nobody(host: str, asked: Sequence[Asked]) -> list[Fate]:
            raise AssertionError("it is known here")

        elsewhere = Elsewhere(nobody, _nobody_stops, scene.launcher, SystemClock(), lambda: None)
        concluder = Concluder("a", scene.launcher, elsewhere, Metrics(()), own, answers)
        row = OrderRow(1, "s", 1, 0, 1, 1, 0, cancel, _HTTP, 1, "a")
        again = await concluder.conclude([row], 2, set())
        withdrawn = scene.launcher.take().withdrawn
        assert [each.flight.lid for each in again] == ([1] if cancel is None else [])
        assert [flight.lid for flight in withdrawn] == ([] if cancel is None else [1])

    _in_scene(work)


def what_was_cancelled_before_its_batch_is_handed_over_is_not_in_it() -> None:
    async def work(scene: _Scene) -> None:
        flights = [_flight(number, _NULL) for number in (1, 2, 3)]
        flights[1].cancel = "cancelled by hand"
        scene.batches.gate.set()
        scene.launcher.hand_over(flights)
        await scene.settle()
        reports = scene.launcher.take()
        assert [flight.lid for flight, _ in reports.ended] == [1, 3]
        assert [flight.lid for flight in reports.withdrawn] == [2]

    _in_scene(work)


def what_was_taken_back_and_written_down_is_not_kept() -> None:
    async def work(scene: _Scene) -> None:
        scene.launcher.hand_over([_flight(1)])
        scene.launcher.close()
        await scene.settle()
        assert scene.launcher.uncalled() == {("s-1", 1)}
        reports = scene.launcher.take()
        assert scene.launcher.uncalled() == {("s-1", 1)}
        scene.launcher.give_back(reports)
        assert scene.launcher.uncalled() == {("s-1", 1)}
        scene.launcher.written(scene.launcher.take())
        assert scene.launcher.uncalled() == set()

    _in_scene(work)


def answers_that_cannot_be_read_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "answers").write_bytes(b"\xc1nonsense")
    own = OwnTerms(tmp_path / "terms", tmp_path / "offered")
    answers = KeptAnswers(tmp_path / "answers", own)
    answers.load()
    assert answers.of("s-1", 1, 1) is None
    kept = KeptAnswer("s-1", 1, 1, Outcome(Verdict.SUCCEEDED), 0)
    KeptAnswers(tmp_path / "no" / "folder", own).save([kept], 0)


def a_cancel_reaches_what_is_about_to_be_called_again() -> None:
    """Its former caller has told that it never was; the entry that says who calls it now is not written yet."""

    async def work(scene: _Scene) -> None:
        async def ask(host: str, asked: Sequence[Asked]) -> list[Fate]:
            return [Fate("never") for _ in asked]

        told = asyncio.Event()
        elsewhere = Elsewhere(ask, _nobody_stops, scene.launcher, SystemClock(), told.set)
        flight = _flight()
        elsewhere.add(flight, "b", 1)
        asking = asyncio.create_task(elsewhere.run())
        await told.wait()
        elsewhere.cancelled(flight.lid, "not wanted")
        again = elsewhere.take_again(ROOM_FOR_ALL, may_call=True)
        assert again == [Again(flight, doubtful=False)]
        scene.launcher.hand_over([flight])
        await scene.settle()
        assert scene.world.calls == []
        reports = scene.launcher.take()
        assert (reports.withdrawn, reports.ended) == ([flight], [])
        asking.cancel()

    _in_scene(work)


@pytest.mark.parametrize("cancel", ["not wanted", None])
@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Verdict.CANCELLED, "cancelled before it started", is_uncalled=True),
        Outcome(Verdict.NOT_STARTED, "the order could not be handed over"),
    ],
)
def a_call_that_was_stopped_before_it_is_taken_back_only_while_it_is_to_be_cancelled(
    cancel: str | None, outcome: Outcome
) -> None:
    """A record of a command tells the same whenever it is asked, also after a backfill: that must not go round."""

    async def work(scene: _Scene) -> None:
        flight = _flight()
        flight.cancel = cancel
        scene.launcher.report(flight, outcome)
        reports = scene.launcher.take()
        assert (len(reports.withdrawn), len(reports.ended)) == ((1, 0) if cancel else (0, 1))

    _in_scene(work)


@pytest.mark.parametrize("cancel", ["not wanted", None])
def what_was_cancelled_is_not_told_as_too_late(cancel: str | None) -> None:
    """Its deadline passed while it waited, and a person had said before that it is not wanted."""

    async def work(scene: _Scene) -> None:
        flight = _flight()
        flight.deadline_ms, flight.cancel = 1, cancel
        scene.launcher.withdraw([flight])
        reports = scene.launcher.take()
        assert (len(reports.withdrawn), len(reports.expired)) == ((1, 0) if cancel else (0, 1))

    _in_scene(work)


def an_answer_that_cannot_be_understood_does_not_end_the_asking() -> None:
    async def work(scene: _Scene) -> None:
        answers: list[list[Fate] | Exception] = [ValueError("nonsense"), [Fate("ended", SUCCEEDED)]]
        reported = asyncio.Event()

        async def ask(host: str, asked: Sequence[Asked]) -> list[Fate]:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            reported.set()
            return answer

        elsewhere = Elsewhere(ask, _nobody_stops, scene.launcher, SystemClock(), lambda: None)
        elsewhere.add(_flight(), "b", 1)
        asking = asyncio.create_task(elsewhere.run())
        await asyncio.wait_for(reported.wait(), 5)
        await scene.settle()
        assert [outcome for _, outcome in scene.launcher.take().ended] == [SUCCEEDED]
        asking.cancel()

    _in_scene(work)


def an_answer_that_comes_after_a_person_ended_the_doubt_changes_nothing() -> None:
    async def work(scene: _Scene) -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def ask(host: str, some: Sequence[Asked]) -> list[Fate]:
            asked.set()
            await may_answer.wait()
            return [Fate("ended", Outcome(Verdict.FAILED, "HTTP 500")) for _ in some]

        elsewhere = Elsewhere(ask, _nobody_stops, scene.launcher, SystemClock(), lambda: None)
        flight = _flight()
        elsewhere.add(flight, "b", 1, is_doubted=True)
        asking = asyncio.create_task(elsewhere.run())
        await asked.wait()
        elsewhere.forget(flight.lid)
        may_answer.set()
        await scene.settle()
        assert elsewhere.take_resolved() == []
        asking.cancel()

    _in_scene(work)


def a_replica_that_tells_that_a_cancelled_launch_in_doubt_runs_is_told_to_stop_it_until_it_has_heard() -> (
    None
):
    async def work(scene: _Scene) -> None:
        told: list[tuple[str, str, int, str]] = []
        resolved = asyncio.Event()

        async def ask(host: str, asked: Sequence[Asked]) -> list[Fate]:
            if len(told) < 2:
                return [Fate("flying") for _ in asked]
            return [Fate("ended", Outcome(Verdict.CANCELLED, "stopped")) for _ in asked]

        async def stop(host: str, asked: Asked, reason: str) -> None:
            told.append((host, asked.name, asked.attempt, reason))
            if len(told) == 1:
                raise Unreachable("b does not answer")

        clock = _Quick()
        elsewhere = Elsewhere(ask, stop, scene.launcher, clock, resolved.set)
        flight, other = _flight(1), _flight(2)
        elsewhere.add(flight, "b", 1, is_doubted=True)
        elsewhere.add(other, "b", 1, is_doubted=True)
        elsewhere.cancelled(flight.lid, "not wanted")
        asking = asyncio.create_task(elsewhere.run())
        await asyncio.wait_for(resolved.wait(), 5)
        assert told == [("b", flight.order.name, 1, "not wanted")] * 2
        assert elsewhere.take_resolved()[0][0] is flight
        asking.cancel()

    _in_scene(work)


def a_launch_in_doubt_that_was_told_to_stop_is_not_told_again_while_its_replica_answers() -> None:
    async def work(scene: _Scene) -> None:
        told: list[str] = []
        rounds = 0
        enough = asyncio.Event()

        async def ask(host: str, asked: Sequence[Asked]) -> list[Fate]:
            nonlocal rounds
            rounds += 1
            if rounds == 20:
                raise Unreachable("b does not answer")
            if rounds == 40:
                enough.set()
            return [Fate("flying") for _ in asked]

        async def stop(host: str, asked: Asked, reason: str) -> None:
            told.append(f"{reason} in round {rounds}")

        elsewhere = Elsewhere(ask, stop, scene.launcher, _Quick(), lambda: None)
        flight = _flight()
        flight.cancel = "not wanted"
        elsewhere.add(flight, "b", 1, is_doubted=True)
        asking = asyncio.create_task(elsewhere.run())
        await asyncio.wait_for(enough.wait(), 5)
        assert told == ["not wanted in round 1", "not wanted in round 21"]
        asking.cancel()

    _in_scene(work)


def a_cancel_that_comes_after_the_end_was_told_and_before_it_is_written_keeps_it_from_being_tried_again() -> (
    None
):
    async def work(scene: _Scene) -> None:
        told = asyncio.Event()

        async def ask(host: str, asked: Sequence[Asked]) -> list[Fate]:
            return [Fate("ended", Outcome(Verdict.FAILED, "HTTP 500")) for _ in asked]

        elsewhere = Elsewhere(ask, _nobody_stops, scene.launcher, SystemClock(), told.set)
        flight = _flight()
        elsewhere.add(flight, "b", 1, is_doubted=True)
        asking = asyncio.create_task(elsewhere.run())
        await asyncio.wait_for(told.wait(), 5)
        elsewhere.cancelled(flight.lid, "not wanted")
        assert flight.cancel == "not wanted"
        asking.cancel()

    _in_scene(work)


def an_answer_about_an_earlier_attempt_ends_no_doubt_about_a_later_one() -> None:
    with contextlib.closing(Desk(START)) as desk:
        put(desk, cron="@at 2023-11-14T22:14:20Z")
        at(desk, 60)
        first = desk.flights[only_flight(desk)]
        desk.end(first.lid, Outcome(Verdict.UNKNOWN, "no answer"))
        lid = desk.command(ResolveLaunch(f"s-{START + 60}", "relaunch", "", "ann"))
        desk.hand_over([lid])
        desk.end(lid, Outcome(Verdict.UNKNOWN, "no answer"))
        failed = Outcome(Verdict.FAILED, "HTTP 500")
        told = resolutions([(first, failed, "b")], {"null": NullTarget()}, desk.now_ms)
        (answer,) = desk.commit(*told)
        assert isinstance(answer, Refused)
        assert desk.states_of("s") == {START + 60: "in_doubt"}


def what_was_recorded_as_running_can_be_withdrawn() -> None:
    with contextlib.closing(Desk(START)) as desk:
        put(desk)
        at(desk, 60)
        lid = only_flight(desk)
        desk.commit(c.LaunchesAccepted([lid], [1]))
        desk.commit(c.HandOversWithdrawn([lid], [1]))
        plan = desk.turn()
        assert (plan.attempts.lids, plan.attempts.attempts) == ([lid], [1])
