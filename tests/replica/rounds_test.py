"""What a replica concludes from a look at the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.replica.ledger import Handle, Ledger
from tests.replica.several import Town, in_town, put

from tocsin.clock import SystemClock
from tocsin.decide.clock import AGREE_MS, Verdict
from tocsin.errors import Diverged
from tocsin.model.cluster import ClockState, PeerStatus, SnapshotMark, Voters
from tocsin.observe.metrics import Metrics
from tocsin.replica.applying import DIGEST_EVERY
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.peers import NoPeers
from tocsin.replica.recovery import check_not_diverged, diverged_mark, remedy_of_divergence
from tocsin.replica.rounds import HELD_BACK_S, STAND_AGAIN_S, YIELDED_S, Rounds, compare, trimmable
from tocsin.state import snapshot

_FAR = AGREE_MS + 1_000


def _status(*seqs: int, lent: int | None = None, **fields: object) -> PeerStatus:
    marks = [SnapshotMark(seq, f"digest of {seq}", 0) for seq in seqs]
    given: dict[str, object] = {"name": "x", "version": "1", "role": "follower", "snapshots": marks}
    return PeerStatus(**{**given, "lent_seq": lent, **fields})  # type: ignore[arg-type]  # why: built from pieces


@pytest.mark.parametrize(
    ("own", "others", "upto"),
    [
        (_status(30, 20), [], 20),
        (_status(30), [], 0),
        (_status(30, 20), [_status(30, 20), _status(30, 20)], 20),
        (_status(30, 20), [_status(20, 10), _status(10, 5)], 10),
        (_status(30, 20), [_status(30), _status(30)], 0),
        (_status(30, 20), [_status(), _status()], 0),
        (_status(30, 20), [None, None], 0),
        (_status(30, 20), [_status(20, 10), None], 10),
        (_status(), [_status(30, 20), _status(30, 20)], 20),
        (_status(30, 20), [_status(20, 10)], 10),
        (_status(30, 20), [None], 0),
        (_status(50, 45), [_status(40, 35), _status(30, 25), _status(20, 15)], 25),
        (_status(50, 45), [_status(40, 35), _status(30, 25), None, None], 25),
        (_status(50, 45), [_status(40, 35), None, None, None], 0),
    ],
)
def the_journal_is_trimmed_behind_the_older_snapshot_that_a_majority_holds(
    own: PeerStatus, others: list[PeerStatus | None], upto: int
) -> None:
    """Whoever does not answer holds nothing."""
    assert trimmable(own, others) == upto


def what_somebody_fetches_holds_the_journal_back() -> None:
    others = [_status(30, 20), _status(30, 20)]
    assert trimmable(_status(30, 20, 10, lent=10), others) == 10
    assert trimmable(_status(30, 20), [_status(30, 20, 15, lent=15), _status(30, 20, 18, lent=18)]) == 15
    assert trimmable(_status(30, 20, lent=30), others) == 20


@pytest.mark.parametrize("lent", [0, 10, -5, 25])
def nobody_lends_what_it_does_not_hold(lent: int) -> None:
    assert trimmable(_status(30, 20), [_status(30, 20, lent=lent), _status(30, 20)]) == 20


@pytest.mark.parametrize(
    ("joined", "upto"), [(Voters(("a", "b"), 2), 10), (Voters(("a",), 1), 20), (None, 0)]
)
def replicas_that_never_joined_do_not_hold_the_journal_back(joined: Voters | None, upto: int) -> None:
    """As many are enlisted and were never started as there are running."""

    class Some(NoPeers):
        async def statuses(self) -> dict[str, PeerStatus | None]:
            return {"b": _status(20, 10, name="b"), "c": None, "d": None}

    async def work() -> None:
        own = _status(30, 20, name="a", role="leader")
        ledger = Ledger()
        rounds = Rounds(
            Some(),
            Handle(ledger),
            _steady(SystemClock()),
            Metrics(),
            lambda: own,
            "",
            joined=lambda: joined,
        )
        await rounds.once()
        assert rounds._trimmed == upto

    asyncio.run(work())


class _Waiting(SystemClock):
    now_s = 0.0

    def elapsed_s(self) -> float:
        return self.now_s


def nobody_holds_the_journal_back_for_ever() -> None:
    clock = _Waiting()
    rounds = Rounds(NoPeers(), Handle(Ledger()), ClockGuard(clock), Metrics(), lambda: own, "")
    own, lender = _status(30, 20), _status(30, 20, 0, lent=0)
    others = [lender, _status(30, 20)]
    assert rounds._trimmable(own, others) == 0
    clock.now_s = HELD_BACK_S - 1
    assert rounds._trimmable(own, others) == 0
    assert rounds._trimmable(own, [_status(30, 20), _status(30, 20)]) == 20
    clock.now_s = HELD_BACK_S + 1
    assert rounds._trimmable(own, others) == 0  # it has only begun to
    clock.now_s = 2 * HELD_BACK_S + 2
    assert rounds._trimmable(own, others) == 20


def _with(digest: str, role: str = "follower", **fields: object) -> PeerStatus:
    return _status(digests={8: digest}, role=role, **fields)


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (_status(20, 10, digests={8: "a"}), [_status(20, digests={8: "a", 16: "b"})]),
        (_with("a"), [_with("b")]),
        (_with("a"), [_with("a"), _with("b", "leader")]),
        (_with("a", "leader"), [_with("b")]),
        (_with("a", "leader"), [_with("a"), _with("b")]),
        (_with("a", "leader"), [_with("b"), None]),
        (_with("a"), [_with("a"), _with("a", "leader")]),
        (_status(20), [_status(), None]),
    ],
    ids=[
        "equal",
        "two who cannot know",
        "the leader is the one that differs",
        "a leader against one",
        "a leader and another against one",
        "a leader against the only one there",
        "all equal",
        "nothing to compare",
    ],
)
def whoever_has_not_most_against_it_goes_on(own: PeerStatus, others: list[PeerStatus | None]) -> None:
    compare(own, others, "")


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (_with("a"), [_with("b", "leader")]),
        (_with("a"), [_with("b", "leader"), None]),
        (_with("a"), [_with("b", "leader"), _with("b")]),
        (_with("a", "leader"), [_with("b"), _with("b")]),
        (_status(20), [_status(snapshots=[SnapshotMark(20, "another", 0)], role="leader")]),
    ],
    ids=["the leader", "the leader, and one that is silent", "both", "a leader against both", "a snapshot"],
)
def whoever_differs_from_most_stops(own: PeerStatus, others: list[PeerStatus | None]) -> None:
    with pytest.raises(Diverged, match="have diverged"):
        compare(own, others, "the remedy")


def a_digest_that_could_not_be_made_says_nothing() -> None:
    blank = [SnapshotMark(20, "", 0)]
    compare(_status(snapshots=blank), [_status(20, role="leader")], "")
    compare(_status(20), [_status(snapshots=blank, role="leader")], "")


def what_belongs_to_another_journal_is_not_compared() -> None:
    compare(_with("a", incarnation="x"), [_with("b", "leader", incarnation="y")], "")


def a_replica_that_has_diverged_stops_and_says_so_at_the_next_start(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        astray = next(replica for replica in town.replicas.values() if replica is not leader)
        for number in range(DIGEST_EVERY):
            await leader.propose(put(f"s{number}"))
        await town.until(lambda: astray.meta.seq == leader.meta.seq)
        digests = astray.parts.applier.digests
        digests[list(digests)[-1]] = "ff" * 32  # a bit has flipped
        async with asyncio.timeout(10):
            error = await astray.failed()
        assert isinstance(error, Diverged)
        state = tmp_path / astray.name / "state.db"
        assert diverged_mark(state).exists()
        await town.stop(astray.name)
        again = town.make(astray.name)
        with pytest.raises(Diverged) as raised:
            await again.start()
        assert raised.value.hint == remedy_of_divergence(state)
        for path in [*state.parent.glob("state.db*"), *state.parent.glob("snapshots/*")]:
            path.unlink()  # as the remedy says
        await town.start(astray.name)
        await town.until(lambda: town.replicas[astray.name].meta.seq >= leader.meta.seq)

    in_town(tmp_path, work)


def snapshots_of_another_journal_are_neither_shown_nor_compared(tmp_path: Path) -> None:
    """A folder that was used before: its old snapshots would pass for a majority's, or for a divergence."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        made = await leader.snapshot_now()
        follower = next(name for name in "abc" if name != leader.name)
        await town.until(lambda: town.replicas[follower].snapshots())
        await town.stop(follower)
        folder = tmp_path / follower / "snapshots"
        for seq in (made.seq, 5_000):
            alien = snapshot.Manifest(seq, "another journal", 0, 3, "no checksum", "no digest")
            snapshot.data_of(folder, seq).write_bytes(b"old")
            snapshot.write_manifest(folder, alien)
        again = await town.start(follower)
        assert again.status().snapshots == []
        await again.parts.rounds.once()
        await leader.snapshot_now()
        await town.until(lambda: again.snapshots())
        assert {found.incarnation for found in again.snapshots()} == {made.incarnation}

    in_town(tmp_path, work)


def a_mark_of_divergence_is_looked_at_before_anything_else(tmp_path: Path) -> None:
    diverged_mark(tmp_path / "state.db").write_text("at entry 8 they have diverged")
    with pytest.raises(Diverged, match="entry 8"):
        check_not_diverged(tmp_path / "state.db")


class _Town(NoPeers):
    """Two others, and what their clocks show."""

    def __init__(self, clock: SystemClock, state: ClockState = "steady") -> None:
        self._clock = clock
        self.states: dict[str, ClockState] = {"b": state, "c": state}
        self.ahead_ms: dict[str, int | None] = {"b": 0, "c": 0}
        self.leader = ""
        self.problems: dict[str, str] = {}
        self.roles: dict[str, str] = {}

    async def statuses(self) -> dict[str, PeerStatus | None]:
        now_ms = self._clock.wall_ms()
        return {
            name: None
            if ahead_ms is None
            else _status(
                name=name,
                role="leader" if name == self.leader else self.roles.get(name, "follower"),
                problem=self.problems.get(name, ""),
                wall_ms=now_ms + ahead_ms,
                clock=self.states[name],
                clock_step_ms=_FAR * 9 * (self.states[name] == "stepped"),
            )
            for name, ahead_ms in self.ahead_ms.items()
        }


def _steady(clock: SystemClock) -> ClockGuard:
    guard = ClockGuard(clock)
    guard.believe()
    return guard


def who_stands_for_office_asks_the_others_for_the_time_at_that_moment() -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        rounds = Rounds(town, Handle(Ledger()), _steady(clock), Metrics(), _status, "")
        assert await rounds.may_stand()
        town.ahead_ms = {"b": _FAR, "c": _FAR}
        assert not await rounds.may_stand(), "the look before has nothing to say any more"
        town.ahead_ms = {"b": _FAR, "c": None}
        assert await rounds.ask_clock() is Verdict.OPEN, "one against one: nobody knows who is right"

    asyncio.run(work())


@pytest.mark.parametrize(("ahead_ms", "may_stand"), [(-_FAR, False), (_FAR, True)])
def of_two_clocks_that_were_just_started_the_later_does_not_lead(ahead_ms: int, may_stand: bool) -> None:
    """By the earlier one nothing is launched too early. A third one tells."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock, state="fresh")
        guard = ClockGuard(clock)
        rounds = Rounds(town, Handle(Ledger()), guard, Metrics(), _status, "")
        town.ahead_ms = {"b": 10 * ahead_ms, "c": None}
        assert await rounds.may_stand() is may_stand
        assert guard.state == "fresh", "it has not stepped"
        town.ahead_ms = {"b": 10 * ahead_ms, "c": 0}
        assert (await rounds.look()).verdict is Verdict.RIGHT
        assert guard.state == "steady"

    asyncio.run(work())


def a_clock_that_was_just_started_does_not_vouch_for_one_that_stepped() -> None:
    """All were moved at once, and then one machine was started again."""

    async def work() -> None:
        clock = SystemClock()
        guard = ClockGuard(clock)
        rounds = Rounds(_Town(clock, state="stepped"), Handle(Ledger()), guard, Metrics(), _status, "")
        assert (await rounds.look()).verdict is Verdict.OPEN
        assert not guard.is_believed

    asyncio.run(work())


def a_clock_that_was_just_started_stays_wrong_when_the_steady_one_is_silent() -> None:
    """Two machines that were started with the same wrong clock do not believe each other: they have heard better."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        guard = ClockGuard(clock)
        rounds = Rounds(town, Handle(Ledger()), guard, Metrics(), _status, "")
        town.ahead_ms, town.states = {"b": -9 * _FAR, "c": 0}, {"b": "steady", "c": "fresh"}
        assert (await rounds.look()).verdict is Verdict.WRONG
        town.ahead_ms["b"] = None
        assert (await rounds.look()).verdict is not Verdict.RIGHT
        assert guard.state == "stepped"

    asyncio.run(work())


@pytest.mark.parametrize("state", ["fresh", "steady"])
@pytest.mark.parametrize("ahead_ms", [-9 * _FAR, 9 * _FAR])
def a_restart_does_not_forget_the_clock_of_the_former_leader(
    tmp_path: Path, state: ClockState, ahead_ms: int
) -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock, state=state)
        town.ahead_ms, town.leader = {"b": ahead_ms, "c": None}, "b"

        def started() -> Rounds:
            guard = ClockGuard(clock, tmp_path / "clock.json", "boot")
            guard.begin(0)
            if state == "steady" and town.ahead_ms["b"] is not None:
                guard.believe()
            return Rounds(town, Handle(Ledger()), guard, Metrics(), _status, "")

        await started().look()
        town.ahead_ms["b"] = None
        again = started()
        await again.may_stand()
        assert again._clock.state == "doubted"
        town.ahead_ms["c"] = 0
        town.states["c"] = "steady"
        assert await again.may_stand()
        assert again._clock.state == "steady", "a third one tells"

    asyncio.run(work())


@pytest.mark.parametrize("state", ["unknown", "stepped"])
def the_clock_of_a_leader_that_did_not_believe_it_says_nothing(state: ClockState) -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock, state=state)
        town.ahead_ms, town.leader = {"b": 2 * AGREE_MS, "c": None}, "b"
        guard = ClockGuard(clock)
        guard.begin(clock.wall_ms() - 40 * 86_400_000)
        rounds = Rounds(town, Handle(Ledger()), guard, Metrics(), _status, "")
        await rounds.look()
        town.ahead_ms["b"] = None
        await rounds.may_stand()
        assert guard.state == "unknown"

    asyncio.run(work())


@pytest.mark.parametrize(("ahead_ms", "state"), [(15_000, "steady"), (9 * _FAR, "stepped")])
def a_steady_clock_keeps_nobody_from_office_if_its_replica_cannot_lead(
    ahead_ms: int, state: ClockState
) -> None:
    """Somebody has to record outcomes. Where the clocks are far apart, nothing is decided."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        guard = ClockGuard(clock)
        rounds = Rounds(town, Handle(Ledger()), guard, Metrics(), _status, "")
        town.ahead_ms = {"b": -ahead_ms, "c": 0}
        town.states = {"b": "steady", "c": "fresh" if state == "steady" else "stepped"}
        assert (await rounds.look()).verdict is Verdict.WRONG
        town.problems["b"] = "the disk takes no writes"
        assert await rounds.may_stand()
        assert guard.state == state

    asyncio.run(work())


@pytest.mark.parametrize(
    ("ahead_ms", "state"), [(9 * _FAR, "doubted"), (-9 * _FAR, "doubted"), (0, "steady")]
)
def the_presence_of_the_last_leader_tells_its_time_where_there_is_no_way_to_it(
    ahead_ms: int, state: ClockState
) -> None:
    async def work() -> None:
        clock = SystemClock()
        guard = ClockGuard(clock)
        offset_ms = guard.system_offset_ms() + ahead_ms
        rounds = _alone(guard, lambda: offset_ms)
        assert await rounds.may_stand()
        assert guard.state == state

    asyncio.run(work())


@pytest.mark.parametrize("is_seen_before", [False, True])
def a_stand_by_whose_clock_is_set_right_late_goes_by_the_time_of_the_leader(is_seen_before: bool) -> None:
    """Whether or not the leader was heard while the clock was wrong."""

    async def work() -> None:
        clock = _Stepping()
        right_ms = ClockGuard(clock).system_offset_ms()
        clock.step_ms = 2_400_000
        guard, heard = ClockGuard(clock), list[int]()
        guard.begin(0)
        rounds = _alone(guard, lambda: heard[0] if heard else None)
        heard += [right_ms] * is_seen_before
        await rounds.look()
        assert guard.state == ("doubted" if is_seen_before else "fresh")
        clock.step_ms, heard = 0, [right_ms]
        await rounds.look()
        assert await rounds.may_stand()
        assert guard.state == "steady"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("ahead_ms", "opens_in_s", "may_stand"),
    [
        (0, 0.0, True),
        (AGREE_MS - 1_000, 0.0, True),
        (_FAR, 0.0, False),
        (-9 * _FAR, 0.0, False),
        (-9 * _FAR, 1.0 - YIELDED_S, False),
        (_FAR, -YIELDED_S, True),
        (-9 * _FAR, -YIELDED_S, True),
    ],
)
def a_stand_by_whose_clock_is_not_that_of_the_last_leader_stands_after_the_others(
    ahead_ms: int, opens_in_s: float, may_stand: bool
) -> None:
    async def work() -> None:
        guard = ClockGuard(SystemClock())
        offset_ms = guard.system_offset_ms() + ahead_ms
        assert await _alone(guard, lambda: offset_ms, lambda: opens_in_s).may_stand() is may_stand

    asyncio.run(work())


@pytest.mark.parametrize(("opens_in_s", "may_stand"), [(0.0, False), (-YIELDED_S, True)])
def a_stand_by_whose_clock_has_stepped_stands_after_the_others(opens_in_s: float, may_stand: bool) -> None:
    """It has heard of no leader."""

    async def work() -> None:
        clock = _Stepping()
        guard = ClockGuard(clock)
        guard.begin(0)
        clock.step_ms = 2_400_000
        assert await _alone(guard, lambda: None, lambda: opens_in_s).may_stand() is may_stand

    asyncio.run(work())


def _in_tie(
    clock: SystemClock,
    town: _Town,
    leader_ms: int | None,
    opens_in_s: float = 0.0,
    guard: ClockGuard | None = None,
    own: Callable[[], PeerStatus] = _status,
) -> Rounds:
    """Of a replica that asks the others, and whose last leader was ``leader_ms`` ahead by its presence."""
    guard = guard or _steady(clock)
    offset_ms = None if leader_ms is None else guard.system_offset_ms() + leader_ms
    return Rounds(
        town,
        Handle(Ledger()),
        guard,
        Metrics(),
        own,
        "",
        leader_offset_ms=lambda: offset_ms,
        opens_in_s=lambda: opens_in_s,
    )


@pytest.mark.parametrize(
    ("leader_ms", "other_ms", "opens_in_s", "may_stand"),
    [
        (_FAR, _FAR, 0.0, False),
        (-_FAR, -_FAR, 0.0, False),
        (2 * _FAR, 2 * _FAR, 1.0 - YIELDED_S, False),
        (_FAR, _FAR, -YIELDED_S, True),
        (0, _FAR, 0.0, True),
        (_FAR, -_FAR, 0.0, True),
        (_FAR, None, 0.0, True),
        (None, _FAR, 0.0, True),
    ],
    ids=[
        "the other one agrees with the last leader, which was ahead",
        "the other one agrees with the last leader, which was behind",
        "the other one still has time",
        "the other one had its time",
        "this one agrees with the last leader",
        "neither agrees",
        "the other one does not answer",
        "nothing is known of the last leader",
    ],
)
def of_two_clocks_that_differ_the_one_of_the_last_leader_stands_first(
    leader_ms: int | None, other_ms: int | None, opens_in_s: float, may_stand: bool
) -> None:
    """The last leader is lost, so that there is no majority among the clocks that are left."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        town.ahead_ms = {"b": other_ms, "c": None}
        assert await _in_tie(clock, town, leader_ms, opens_in_s).may_stand() is may_stand

    asyncio.run(work())


def a_replica_that_cannot_lead_breaks_no_tie() -> None:
    async def work() -> None:
        clock = SystemClock()
        for role, problem in (("former", ""), ("starting", ""), ("follower", "the disk takes no writes")):
            town = _Town(clock)
            town.ahead_ms, town.roles, town.problems = {"b": _FAR, "c": None}, {"b": role}, {"b": problem}
            assert await _in_tie(clock, town, _FAR).may_stand(), role

    asyncio.run(work())


def two_clocks_that_agree_yield_to_two_that_agree_with_the_last_leader_as_well() -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        town.ahead_ms = {"b": 0, "c": _FAR, "d": _FAR, "e": None}
        town.states = dict.fromkeys("bcde", "steady")
        assert not await _in_tie(clock, town, _FAR).may_stand()
        assert await _in_tie(clock, town, 0).may_stand()

    asyncio.run(work())


def one_answer_that_is_missing_does_not_break_a_tie() -> None:
    """It may come late from the replica that is right."""

    async def work() -> None:
        clock = _Waiting()
        town = _Town(clock)
        town.ahead_ms = {"b": _FAR, "c": None}
        rounds = _in_tie(clock, town, _FAR)
        assert not await rounds.may_stand()
        town.ahead_ms["b"] = None
        for may_stand in (False, True):
            clock.now_s += STAND_AGAIN_S
            assert await rounds.may_stand() is may_stand

    asyncio.run(work())


def a_majority_that_agrees_counts_for_more_than_the_clock_of_the_last_leader() -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        town.ahead_ms = {"b": 0, "c": _FAR}
        assert await _in_tie(clock, town, _FAR).may_stand()

    asyncio.run(work())


@pytest.mark.parametrize("ahead_ms", [-2 * _FAR, 2 * _FAR])
def of_two_clocks_that_were_just_started_the_one_of_the_last_leader_leads(ahead_ms: int) -> None:
    """Also if it is the later one."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock, state="fresh")
        town.ahead_ms = {"b": ahead_ms, "c": None}
        assert await _in_tie(clock, town, 0, guard=ClockGuard(clock)).may_stand()
        assert not await _in_tie(clock, town, ahead_ms, guard=ClockGuard(clock)).may_stand()

    asyncio.run(work())


def a_restart_does_not_forget_which_clock_breaks_a_tie(tmp_path: Path) -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)

        def started() -> Rounds:
            guard = ClockGuard(clock, tmp_path / "clock.json", "boot")
            guard.begin(0)
            return _in_tie(clock, town, None, guard=guard)

        before = started()
        before._clock.believe()
        town.ahead_ms, town.leader = {"b": _FAR, "c": _FAR}, "c"
        await before.look()
        town.ahead_ms["c"] = None
        assert not await started().may_stand()

    asyncio.run(work())


def a_replica_that_has_led_itself_does_not_yield_to_the_clock_of_an_earlier_leader() -> None:
    """Otherwise two replicas yield to each other."""

    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        town.ahead_ms = {"b": _FAR, "c": None}
        guard = _steady(clock)
        guard.note_leader(_FAR)
        role = "leader"
        rounds = _in_tie(clock, town, None, guard=guard, own=lambda: _status(role=role))
        await rounds.look()
        role = "follower"
        assert await rounds.may_stand()

    asyncio.run(work())


@pytest.mark.parametrize("is_another_right", [False, True])
def a_leader_that_is_told_of_a_right_stand_by_is_wrong(is_another_right: bool) -> None:
    async def work() -> None:
        rounds = _alone(ClockGuard(SystemClock()), lambda: None, is_another_right=lambda: is_another_right)
        assert (await rounds.ask_clock() is Verdict.WRONG) is is_another_right

    asyncio.run(work())


def _alone(
    guard: ClockGuard,
    leader_offset_ms: Callable[[], int | None],
    opens_in_s: Callable[[], float] = lambda: -YIELDED_S,
    is_another_right: Callable[[], bool] = lambda: False,
) -> Rounds:
    """Of a stand-by that has no way to the others."""
    return Rounds(
        NoPeers(),
        Handle(Ledger()),
        guard,
        Metrics(),
        _status,
        "",
        leader_offset_ms=leader_offset_ms,
        opens_in_s=opens_in_s,
        is_another_right=is_another_right,
    )


class _Stepping(SystemClock):
    step_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.step_ms


def where_the_record_was_lost_one_waits_for_all_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        clock = SystemClock()
        town = _Town(clock)
        town.ahead_ms = {"b": _FAR, "c": None}
        rounds = Rounds(town, Handle(Ledger()), _steady(clock), Metrics(), _status, "")
        asking = asyncio.create_task(rounds.is_clock_off_to_all())
        await asyncio.sleep(0)
        assert not asking.done()
        town.ahead_ms["c"] = _FAR
        assert await asking
        monkeypatch.setattr("tocsin.replica.rounds.ALL_ASKED_S", 0.1)
        town.ahead_ms["c"] = None
        assert not await rounds.is_clock_off_to_all(), "not for ever"

    asyncio.run(work())
