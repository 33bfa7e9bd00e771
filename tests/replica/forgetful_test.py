"""A receiver that recognises a repeat only for a while: later, a repeat is as doubtful as anywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.core.desk import START, Desk, at, only_flight, put

from tocsin.clock import SystemClock
from tocsin.model.cluster import Asked
from tocsin.model.command import ResolveLaunch
from tocsin.model.launch import LaunchState
from tocsin.model.target import TargetSpec
from tocsin.observe.metrics import Metrics
from tocsin.replica.conclusion import Concluder
from tocsin.replica.elsewhere import Elsewhere
from tocsin.replica.flight import Flight, flight_of_row
from tocsin.replica.kept_answers import KeptAnswers
from tocsin.replica.launcher import Launcher
from tocsin.replica.office import SoleOffice
from tocsin.replica.outcomes import changes_of, settlement_of
from tocsin.replica.peers import Fate
from tocsin.replica.reports import Reports
from tocsin.replica.terms import OwnTerms
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import SUCCEEDED, Order, Outcome, Verdict
from tocsin.targets.null import NullTarget

UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer")
FAILED = Outcome(Verdict.FAILED, "full")
_SPECS = {
    policy: msgspec.msgpack.encode({"target": {"kind": "null"}, "on_doubt": policy})
    for policy in ("skip", "relaunch")
}


class _Forgetful(NullTarget):
    """Remembers names for a minute, once it was asked to recall."""

    def __init__(self, remembered_s: float = 60.0, *, knows: bool = True) -> None:
        super().__init__()
        self._remembered_s = remembered_s
        self._knows = knows
        self.called: list[Order] = []

    def idempotent(self, spec: TargetSpec) -> bool:
        return self.remembers_s(spec) > 0

    def remembers_s(self, spec: TargetSpec) -> float:
        return self._remembered_s if self._knows else 0.0

    async def recall(self, specs: Iterable[TargetSpec]) -> None:
        self._knows = True

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        self.called += orders
        return [SUCCEEDED] * len(orders)


def _row(started_ms: int, on_doubt: str = "skip") -> OrderRow:
    return OrderRow(1, "s", 60, 0, 1, 1, started_ms, None, _SPECS[on_doubt], 1, "a")


def _flight(started_ms: int, on_doubt: str = "skip") -> Flight:
    return flight_of_row(_row(started_ms, on_doubt), 2)


@pytest.mark.parametrize(
    ("age_s", "on_doubt", "remembered_s", "state"),
    [
        (59, "skip", 60.0, LaunchState.RETRYING),
        (-1, "skip", 60.0, LaunchState.IN_DOUBT),
        (-1, "relaunch", 60.0, LaunchState.RETRYING),
        (60, "skip", 60.0, LaunchState.IN_DOUBT),
        (0, "skip", 0.0, LaunchState.IN_DOUBT),
        (60, "relaunch", 60.0, LaunchState.RETRYING),
    ],
)
def an_unknown_end_is_repeated_only_while_it_is_remembered(
    age_s: int, on_doubt: str, remembered_s: float, state: LaunchState
) -> None:
    target = _Forgetful(remembered_s)
    settled = settlement_of(_flight(START * 1000, on_doubt), UNKNOWN, target, (START + age_s) * 1000)
    assert settled.state is state


class _Scene:
    """One who takes office, and what he calls."""

    def __init__(self, target: _Forgetful, counted_since_ms: int = 0) -> None:
        clock, office = SystemClock(), SoleOffice()
        office.renewed(0.0)
        self.target = target
        self.launcher = Launcher({"null": target}, office, clock, lambda: None, lambda: counted_since_ms)
        elsewhere = Elsewhere(_nobody_answers, _nobody_stops, self.launcher, clock, lambda: None)
        own = OwnTerms(Path("unused"), Path("unused"))
        answers = KeptAnswers(Path("unused"), own)
        self.concluder = Concluder("a", self.launcher, elsewhere, Metrics(()), own, answers)


async def _nobody_stops(host: str, asked: Asked, reason: str) -> None:
    return


async def _nobody_answers(host: str, asked: Sequence[Asked]) -> list[Fate]:
    return []


def what_was_left_open_is_repeated_only_while_it_is_remembered() -> None:
    async def tried() -> None:
        now_ms = SystemClock().wall_ms()
        scene = _Scene(_Forgetful(knows=False))
        (again,) = await scene.concluder.conclude([_row(now_ms - 5_000)], 2, set())
        assert again.doubtful
        scene.launcher.hand_over([again.flight], doubtful=True)
        await scene.launcher.settled()
        assert [order.is_repeat for order in scene.target.called] == [True]

        scene = _Scene(_Forgetful(knows=False))
        assert await scene.concluder.conclude([_row(now_ms - 61_000)], 2, set()) == []
        ((_, outcome),) = scene.launcher.take().ended
        assert outcome.verdict is Verdict.UNKNOWN

    asyncio.run(tried())


@pytest.mark.parametrize(
    ("on_doubt", "state"), [("skip", LaunchState.IN_DOUBT), ("relaunch", LaunchState.RETRYING)]
)
def of_what_was_called_before_an_uncounted_time_the_owner_decides(on_doubt: str, state: LaunchState) -> None:
    """However young it seems by the clock: the machine was off, or the clock was put back."""

    async def tried() -> None:
        now_ms = SystemClock().wall_ms()
        target = _Forgetful()
        scene = _Scene(target, now_ms)
        assert await scene.concluder.conclude([_row(now_ms, on_doubt)], 2, set()) == []
        ((flight, outcome),) = scene.launcher.take().ended
        assert settlement_of(flight, outcome, target, now_ms).state is state
        scene = _Scene(target, now_ms - 1)
        assert len(await scene.concluder.conclude([_row(now_ms, on_doubt)], 2, set())) == 1

    asyncio.run(tried())


def a_further_attempt_after_an_uncounted_time_says_that_its_age_is_not_known() -> None:
    async def tried() -> None:
        now_ms = SystemClock().wall_ms()
        scene = _Scene(_Forgetful(), now_ms - 1_000)
        old, young = _row(now_ms - 2_000)._replace(doubt=1), _row(now_ms)._replace(doubt=1)
        scene.launcher.hand_over([flight_of_row(row, 2) for row in (old, young)])
        await scene.launcher.settled()
        assert [order.is_uncounted for order in scene.target.called] == [True, False]

    asyncio.run(tried())


def whoever_would_rather_have_it_twice_has_it_repeated_at_any_age() -> None:
    async def tried() -> None:
        scene = _Scene(_Forgetful())
        scene.launcher.hand_over([_flight(0, "relaunch")], doubtful=True)
        await scene.launcher.settled()
        assert [order.is_repeat for order in scene.target.called] == [False]

    asyncio.run(tried())


def a_doubt_that_could_not_be_repeated_is_not_forgotten() -> None:
    """It is withdrawn, and its row says that a call before it may have gone out."""

    async def tried() -> None:
        scene = _Scene(_Forgetful())
        scene.launcher.close()
        scene.launcher.hand_over([_flight(0)], doubtful=True)
        await scene.launcher.settled()
        (flight,) = scene.launcher.take().withdrawn
        assert flight.doubted

    asyncio.run(tried())


def a_repeat_that_did_not_go_out_leaves_the_doubt_as_it_was() -> None:
    class Absent(_Forgetful):
        async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
            return [Outcome(Verdict.NOT_STARTED, "not connected")] * len(orders)

    async def tried() -> None:
        scene = _Scene(Absent())
        for doubt, state in ((1, LaunchState.IN_DOUBT), (None, LaunchState.FAILED)):
            flight = flight_of_row(_row(0)._replace(attempt=20, doubt=doubt), 2)
            scene.launcher.hand_over([flight])
            await scene.launcher.settled()
            ((_, outcome),) = scene.launcher.take().ended
            assert settlement_of(flight, outcome, scene.target, 0).state is state

    asyncio.run(tried())


def _only(desk: Desk) -> Flight:
    return desk.flights[only_flight(desk)]


def _end(desk: Desk, outcome: Outcome, *, remembered_s: float = 600.0) -> None:
    flight = desk.flights.pop(only_flight(desk))
    changes = changes_of(Reports({}, [(flight, outcome)]), {"null": _Forgetful(remembered_s)}, desk.now_ms)
    desk.commit(*changes)


def a_further_attempt_knows_whether_one_before_it_may_have_gone_out() -> None:
    desk = Desk(START)
    put(desk, cron="@at 2023-11-14T22:14:00Z", retry={"limit": 5, "backoff": "10s", "jitter": 0})
    at(desk, 40)
    assert not _only(desk).doubted
    _end(desk, FAILED)
    at(desk, 60)
    assert not _only(desk).doubted
    _end(desk, UNKNOWN)
    at(desk, 120)
    assert _only(desk).doubted
    _end(desk, FAILED)
    at(desk, 200)
    flight = _only(desk)
    assert flight.doubted
    assert flight.order.generated_at_ms == (START + 40) * 1000
    desk.close()


def what_a_person_has_looked_at_is_called_again_at_any_age() -> None:
    desk = Desk(START)
    put(desk, cron="@at 2023-11-14T22:14:00Z", retry={"limit": 5, "backoff": "10s", "jitter": 0})
    at(desk, 40)
    _end(desk, UNKNOWN)
    at(desk, 60)
    assert _only(desk).doubted
    _end(desk, UNKNOWN, remembered_s=0.0)
    assert desk.states_of("s") == {START + 40: "in_doubt"}
    lid = desk.command(ResolveLaunch(f"s-{START + 40}", "relaunch", "", "ann"))
    desk.hand_over([lid])
    assert _only(desk).is_relaunch
    desk.close()
