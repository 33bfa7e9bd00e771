"""Every few seconds each replica looks at the others.

- The leader trims the journal behind the older of the two newest snapshots that a majority holds.
- All compare their digests. One that differs from the leader, or from most of the others, stops: replicas that disagree
  cannot all be right, and going on would only make it worse.
- All know whose clock is off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.decide.clock import (
    AGREE_MS,
    Opinion,
    Verdict,
    is_suspected_by,
    is_vouched_for,
    judge,
    judge_by_leader,
    steady_ahead_ms,
)
from tocsin.errors import Diverged, JournalError
from tocsin.journal.contract import Journal
from tocsin.model.cluster import PeerStatus, Voters, majority_of
from tocsin.observe.metrics import Metrics
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.peers import Peers

log = structlog.get_logger()

EVERY_S = 5.0
MISSED_MAX = 2
"""So many looks without an answer, and a replica is told to be lost."""
HELD_BACK_S = 1800.0
"""For so long the journal is kept for those who fetch a snapshot: who takes longer has to begin anew."""
STAND_AGAIN_S = 1.0
"""A replica whose clock was found to be off asks again only after this time."""
YIELDED_S = 15.0
"""A replica whose clock is not that of the last leader waits so much longer before it stands, if it has no way to the
others or if another one agrees with the last leader. The last leader can be restarted in that time."""
ALL_ASKED_S = 10.0
"""So long it waits for the answers of those that are starting as well, where the time matters most."""


class Seen(NamedTuple):
    """One look at the others."""

    statuses: dict[str, PeerStatus | None]
    clocks: dict[str, Opinion]
    """What those who answer say of theirs."""
    verdict: Verdict
    """On our own clock."""

    @property
    def is_clock_off(self) -> bool:
        return self.verdict is Verdict.WRONG

    def clocks_apart_ms(self) -> dict[str, int]:
        """Whose clock differs from ours by more than it may, and by how much it is ahead."""
        return {name: told.ahead_ms for name, told in self.clocks.items() if abs(told.ahead_ms) > AGREE_MS}

    def candidates(self) -> list[Opinion]:
        """The opinions of the replicas that could lead."""
        return [
            told
            for name, told in self.clocks.items()
            if (status := self.statuses[name]) is not None
            and not status.problem
            and status.role in ("follower", "leader")
        ]


class Absences:
    """Who does not answer any more. One answer that is missing may be chance, two are not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered_s: dict[str, float] = {}
        self._missed: dict[str, int] = {}

    @property
    def lost(self) -> list[str]:
        return sorted(name for name, times in self._missed.items() if times >= MISSED_MAX)

    def note(self, statuses: Mapping[str, PeerStatus | None]) -> None:
        """After each round; what has changed is logged."""
        before, now_s = self.lost, self._clock.elapsed_s()
        self._missed = {
            name: self._missed.get(name, 0) + 1 for name, status in statuses.items() if status is None
        }
        for name in self.lost:
            if name not in before:
                log.warning("a replica does not answer", replica=name, missing=", ".join(self.lost))
        for name in before:
            if name in statuses and name not in self._missed:
                silent_s = now_s - self._answered_s.get(name, now_s)
                log.info("a replica answers again", replica=name, after_s=round(silent_s))
        self._answered_s = {
            name: now_s if status is not None else self._answered_s.get(name, now_s)
            for name, status in statuses.items()
        }


class Rounds:
    """Looks at the others, as long as the replica lives."""

    def __init__(
        self,
        peers: Peers,
        journal: Journal,
        clock: ClockGuard,
        metrics: Metrics,
        own: Callable[[], PeerStatus],
        folder_note: str,
        trim_limit: Callable[[], int | None] = lambda: None,
        leader_offset_ms: Callable[[], int | None] = lambda: None,
        joined: Callable[[], Voters | None] = lambda: None,
        opens_in_s: Callable[[], float] = lambda: -YIELDED_S,
        is_another_right: Callable[[], bool] = lambda: False,
    ) -> None:
        """``leader_offset_ms``, ``opens_in_s``: see ``Office``. ``joined``: the replicas that have; None: not known.
        ``is_another_right``: see ``ClockWitness``."""
        self._peers = peers
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._own = own
        self._folder_note = folder_note
        self._trim_limit = trim_limit
        self._leader_offset_ms = leader_offset_ms
        self.joined = joined
        self._opens_in_s = opens_in_s
        self._is_another_right = is_another_right
        self._stop = asyncio.Event()
        self._trimmed = 0
        self._held_back_since_s: float | None = None
        self._absences = Absences(clock)
        self.seen = Seen({}, {}, Verdict.OPEN)
        self._off_until_s = 0.0
        self._is_yielding = self._has_led = False
        self._apart_ms: dict[str, int] = {}
        """Offsets of clocks that were just started, from our clock that never steps."""

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, EVERY_S):
            await self.once()

    async def once(self) -> None:
        self._absences.note((await self.look()).statuses)
        own = self._own()
        measure(self._metrics, own, self.seen)
        compare(own, list(self.seen.statuses.values()), self._folder_note)
        if own.role == "leader":
            await self._trim(own)

    async def look(self) -> Seen:
        """Ask all of them, now."""
        statuses = await self._peers.statuses()
        now_ms = self._clock.system_ms()
        self._has_led |= self._own().role == "leader"
        told = {name: status for name, status in statuses.items() if status is not None and status.wall_ms}
        clocks = {
            name: Opinion(status.wall_ms - now_ms, status.clock, name, status.clock_preceded_by)
            for name, status in told.items()
        }
        opinions = list(clocks.values())
        self._note_apart(opinions)
        self._doubt_like_others(told, clocks, now_ms)
        self._doubt_against_steady(opinions)
        own = self._own_opinion()
        verdict = judge(own, opinions, len(statuses) + 1)
        if verdict is Verdict.WRONG:
            # A replica that cannot lead keeps nobody else from it: otherwise nobody would lead at all.
            able = [clocks[name] for name, status in told.items() if not status.problem]
            verdict = judge(own, able, len(statuses) + 1)
        if verdict is Verdict.OPEN and own.state == "fresh" and not self._is_told_by_leader(opinions):
            verdict = _yielded_to_earlier(opinions)
        if verdict is Verdict.RIGHT and own.state != "steady" and is_vouched_for(own, opinions):
            log.info("other replicas agree with the wall clock here", was=own.state)
            self._clock.believe()
        if statuses:
            self._note_leader([clocks[name] for name, status in told.items() if status.role == "leader"])
        else:
            self._note_presence()
            verdict = Verdict.WRONG if self._is_another_right() else verdict
        self.seen = Seen(statuses, clocks, verdict)
        return self.seen

    def _note_leader(self, leaders: Sequence[Opinion]) -> None:
        for leader in leaders:
            self._clock.note_leader(leader.ahead_ms if _is_believed_elsewhere(leader) else None)
            if leader.state in ("steady", "fresh") and abs(leader.ahead_ms) <= AGREE_MS:
                self._clock.noted()  # by that leader, when it took office

    def _note_presence(self) -> None:
        """Where there is no way to the other replicas, the presence of the leader tells its time. It goes by a time
        that it believes: a clock that agrees with it is right, and one that was just started and differs is wrong."""
        offset_ms = self._leader_offset_ms()
        if offset_ms is None:
            return
        leader = Opinion(offset_ms - self._clock.system_offset_ms())
        if abs(leader.ahead_ms) <= AGREE_MS:
            if self._clock.state != "steady":
                log.info("the wall clock here agrees with that of the leader", was=self._clock.state)
                self._clock.believe()
        elif self._clock.state == "fresh":
            self._clock.doubt(leader.ahead_ms, "leader")
        if self._clock.is_believed:
            self._note_leader([leader])

    def _own_opinion(self) -> Opinion:
        return Opinion(0, self._clock.state, self._own().name, self.preceded_by())

    def _note_apart(self, opinions: Sequence[Opinion]) -> None:
        """Which clocks that were just started, as ours was, show another time than ours?"""
        if self._clock.state == "fresh":
            offset_ms = self._clock.system_offset_ms()
            self._apart_ms |= {
                told.name: offset_ms + told.ahead_ms for told in opinions if told.state == "fresh"
            }

    def preceded_by(self) -> list[str]:
        """Whose clocks showed the present time before ours, which nobody had believed yet, stepped to it?"""
        if not self._clock.has_stepped_unproven:
            return []
        offset_ms = self._clock.system_offset_ms()
        return [name for name, was_ms in self._apart_ms.items() if abs(was_ms - offset_ms) <= AGREE_MS]

    def _doubt_like_others(
        self, told: Mapping[str, PeerStatus], clocks: Mapping[str, Opinion], now_ms: int
    ) -> None:
        """A clock that was just started agrees with one that is known to have stepped: it is not believed either."""
        for name, status in told.items():
            own = self._own_opinion()
            if own.state == "fresh" and is_suspected_by(clocks[name], own):
                self._clock.doubt(status.wall_ms - status.clock_step_ms - now_ms, "others")

    def _doubt_against_steady(self, opinions: Sequence[Opinion]) -> None:
        """A clock that was just started is wrong by those that went on evenly. This must not be forgotten when they do
        not answer for a moment: two machines that were started with the same wrong clock would believe each other."""
        ahead_ms = steady_ahead_ms(opinions)
        if self._clock.state == "fresh" and ahead_ms is not None and abs(ahead_ms) > AGREE_MS:
            self._clock.doubt(ahead_ms, "others")

    @property
    def lost(self) -> list[str]:
        """Those that have not answered for a while."""
        return self._absences.lost

    async def ask_clock(self) -> Verdict:
        """Ask the others what time it is."""
        return (await self.look()).verdict

    async def may_stand(self) -> bool:
        """Is this replica one that may lead? Its clock may have been changed a moment ago: the others are asked now."""
        now_s = self._clock.elapsed_s()
        if now_s < self._off_until_s:
            return False
        before, seen = self.seen, await self.look()
        if not seen.is_clock_off:
            self._compare_with_former_leader(seen)
        may_stand = not seen.is_clock_off and not self._yields(seen, before)
        self._off_until_s = 0.0 if may_stand else now_s + STAND_AGAIN_S
        return may_stand

    def _yields(self, seen: Seen, before: Seen) -> bool:
        """Does this replica let others stand for election first, because its clock is not that of the last leader? Not
        for ever: they may be unable to lead."""
        was_yielding, self._is_yielding = self._is_yielding, False
        if self._opens_in_s() <= -YIELDED_S:
            return False
        if not seen.statuses:
            return self._yields_unasked()
        leader_ms = self._last_leader_ahead_ms()
        if leader_ms is None or abs(leader_ms) <= AGREE_MS:
            return False
        if seen.verdict is Verdict.OPEN:
            self._is_yielding = judge_by_leader(leader_ms, seen.candidates()) is Verdict.WRONG
        if not is_vouched_for(self._own_opinion(), list(seen.clocks.values())):
            self._is_yielding |= _is_any_silent(seen, before)
        if self._is_yielding and not was_yielding:
            log.warning(
                "election postponed: the wall clock here is not that of the last leader",
                last_leader_ahead_s=round(leader_ms / 1000),
                at_most_s=YIELDED_S,
            )
        return self._is_yielding

    def _yields_unasked(self) -> bool:
        """The others cannot be asked. This replica would lead without deciding anything."""
        offset_ms = self._leader_offset_ms()
        is_apart = offset_ms is not None and abs(offset_ms - self._clock.system_offset_ms()) > AGREE_MS
        return is_apart or not self._clock.is_believed

    def _last_leader_ahead_ms(self) -> int | None:
        """By how much the clock of the last leader is ahead of ours; None: not known, or this replica was the last
        leader. Presence tells it twice a second; what was kept on disk is for a process that was just started."""
        offset_ms = self._leader_offset_ms()
        if offset_ms is not None:
            return offset_ms - self._clock.system_offset_ms()
        return None if self._has_led else self._clock.leader_ahead_ms()

    def _is_told_by_leader(self, opinions: Sequence[Opinion]) -> bool:
        """Does the clock of the last leader tell which one is right?"""
        return judge_by_leader(self._last_leader_ahead_ms(), opinions) is not Verdict.OPEN

    def _compare_with_former_leader(self, seen: Seen) -> None:
        """The next entry must not be stamped with another time than the last ones, only because another replica writes
        it: where nobody can say whose clock is right, a person has to."""
        former_ms = self._clock.leader_ahead_ms()
        if former_ms is None or not self._clock.is_believed:
            return
        if is_vouched_for(self._own_opinion(), list(seen.clocks.values())):
            self._clock.note_leader(None)
        elif abs(former_ms) > AGREE_MS:
            self._clock.doubt(former_ms, "leader")

    async def is_clock_off_to_all(self) -> bool:
        """Is it wrong? Asked with some patience for those who do not answer yet."""
        end_s = self._clock.elapsed_s() + ALL_ASKED_S
        while await self.ask_clock() is not Verdict.WRONG:
            is_late = self._clock.elapsed_s() >= end_s
            if is_late or None not in self.seen.statuses.values():
                return False
            if await self._clock.wait(self._stop, STAND_AGAIN_S / 2):
                return False
        return True

    def voters(self) -> Voters:
        """Those that have joined; where that is not known, all that are enlisted."""
        return self.joined() or majority_of([self._own().name, *self.seen.statuses])

    async def _trim(self, own: PeerStatus) -> None:
        others = [self.seen.statuses.get(name) for name in self.voters().names if name != own.name]
        upto = self._trimmable(own, others)
        if (limit := self._trim_limit()) is not None:
            upto = min(upto, limit)
        if upto <= self._trimmed:
            return
        try:
            await self._journal.trim(upto)
            self._trimmed = upto
            log.info("the journal was trimmed", upto=upto)
        except JournalError as wrong:
            log.warning("the journal could not be trimmed", reason=str(wrong))

    def _trimmable(self, own: PeerStatus, others: Sequence[PeerStatus | None]) -> int:
        """What is lent holds the journal back, but not for ever: it must not grow until there is no room."""
        upto, free, now_s = trimmable(own, others), held_by_majority(own, others), self._clock.elapsed_s()
        if upto >= free:
            self._held_back_since_s = None
            return upto
        if self._held_back_since_s is None:
            self._held_back_since_s = now_s
        return free if now_s - self._held_back_since_s > HELD_BACK_S else upto


def _is_believed_elsewhere(leader: Opinion) -> bool:
    """Is it a clock that another replica goes by, and not the one here?"""
    return leader.state in ("steady", "fresh") and abs(leader.ahead_ms) > AGREE_MS


def _is_any_silent(seen: Seen, before: Seen) -> bool:
    """Did a replica that answered before not answer this time? One answer that is missing may be chance."""
    return any(
        status is None and before.statuses.get(name) is not None for name, status in seen.statuses.items()
    )


def _yielded_to_earlier(opinions: Sequence[Opinion]) -> Verdict:
    """After a cold start two clocks are plausible and differ, and nobody can tell which is right. By the earlier one
    nothing is launched too early, so the later one does not lead, until a third one tells."""
    earliest_ms = min((opinion.ahead_ms for opinion in opinions if opinion.state == "fresh"), default=0)
    return Verdict.WRONG if earliest_ms < -AGREE_MS else Verdict.OPEN


def measure(metrics: Metrics, own: PeerStatus, seen: Seen) -> None:
    """What was seen, for Prometheus."""
    up = [status for status in seen.statuses.values() if status is not None]
    metrics.peers.set(len(seen.statuses))
    metrics.peers_reachable.set(len(up))
    metrics.behind_entries.set(max([0, *(status.sequence - own.sequence for status in up)]))
    metrics.clock_off.set(seen.is_clock_off)


def trimmable(own: PeerStatus, others: Sequence[PeerStatus | None]) -> int:
    """Up to here a majority needs the journal no more. What somebody is fetching holds it back."""
    lent = [status.lent_seq for status in (own, *others) if status is not None and _lends(status)]
    return min([held_by_majority(own, others), *(seq for seq in lent if seq is not None)])


def held_by_majority(own: PeerStatus, others: Sequence[PeerStatus | None]) -> int:
    everybody = [own, *others]
    behind = sorted(0 if status is None else _older(status) for status in everybody)
    return behind[(len(everybody) - 1) // 2]


def _lends(status: PeerStatus) -> bool:
    """Only what it holds."""
    return any(mark.seq == status.lent_seq for mark in status.snapshots)


def _older(status: PeerStatus) -> int:
    """The one before the newest: should that turn out damaged, this one and the journal still add up to everything, and
    whoever reads events has at least the time between two snapshots to come back."""
    return status.snapshots[1].seq if len(status.snapshots) > 1 else 0


def compare(own: PeerStatus, others: Sequence[PeerStatus | None], folder_note: str) -> None:
    """Raises Diverged where this replica has applied the same entries as others and holds another state, if there are
    more of them than who agree with it. As many on both sides: then the side of the leader is right."""
    agreeing, differing = 0, []
    for other in others:
        if other is None or other.incarnation != own.incarnation:
            continue
        difference = first_difference(own, other)
        if difference:
            differing.append((other, difference))
        elif difference == 0:
            agreeing += 1
    from_leader = [pair for pair in differing if pair[0].role == "leader" and own.role != "leader"]
    if len(differing) < agreeing + 1 + (not from_leader):
        return
    other, seq = (from_leader or differing)[0]
    raise Diverged(
        f"at entry {seq} the state of replica {own.name} is not that of {other.name}: they have diverged, and "
        f"{own.name} stops",
        hint=folder_note,
    )


def first_difference(own: PeerStatus, other: PeerStatus) -> int | None:
    """The first entry after which the two are known to differ; 0: they agree; None: nothing can be compared."""
    theirs = {mark.seq: mark.digest for mark in other.snapshots if mark.digest}
    pairs = [(mark.seq, mark.digest, theirs.get(mark.seq)) for mark in own.snapshots if mark.digest]
    pairs += [(seq, digest, other.digests.get(seq)) for seq, digest in own.digests.items()]
    known = [(seq, mine == told) for seq, mine, told in pairs if told is not None]
    if not known:
        return None
    return min((seq for seq, is_same in known if not is_same), default=0)
