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
from tocsin.errors import Diverged, JournalError
from tocsin.journal.contract import Journal
from tocsin.model.cluster import PeerStatus
from tocsin.observe.metrics import Metrics
from tocsin.replica.peers import Peers

log = structlog.get_logger()

EVERY_S = 3.0
MISSED_MAX = 2
"""So many looks without an answer, and a replica is told to be lost."""
HELD_BACK_S = 1800.0
"""For so long the journal is kept for those who fetch a snapshot: who takes longer has to begin anew."""
STAND_AGAIN_S = 1.0
"""A replica whose clock was found to be off asks again only after this time."""
ALL_ASKED_S = 10.0
"""So long it waits for the answers of those that are starting as well, where the time matters most."""
CLOCK_OFF_MS = 10_000
"""A clock that differs by so much from all the others', while these agree, is taken for wrong."""


class Seen(NamedTuple):
    """One look at the others."""

    statuses: dict[str, PeerStatus | None]
    offsets_ms: list[int]
    """How far each one's clock is ahead of ours."""

    @property
    def is_clock_off(self) -> bool:
        return clock_is_off(self.offsets_ms)

    def clocks_apart_ms(self) -> dict[str, int]:
        """Whose clock differs from ours by more than it may, and by how much it is ahead."""
        told = [name for name, status in self.statuses.items() if status is not None and status.wall_ms]
        pairs = zip(told, self.offsets_ms, strict=True)
        return {name: offset for name, offset in pairs if abs(offset) > CLOCK_OFF_MS}


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
        clock: Clock,
        metrics: Metrics,
        own: Callable[[], PeerStatus],
        folder_note: str,
        trim_limit: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._peers = peers
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._own = own
        self._folder_note = folder_note
        self._trim_limit = trim_limit
        self._stop = asyncio.Event()
        self._trimmed = 0
        self._held_back_since_s: float | None = None
        self._absences = Absences(clock)
        self.seen = Seen({}, [])
        self._off_until_s = 0.0

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
        now_ms = self._clock.wall_ms()
        found = [status for status in statuses.values() if status is not None and status.wall_ms]
        self.seen = Seen(statuses, [status.wall_ms - now_ms for status in found])
        return self.seen

    @property
    def lost(self) -> list[str]:
        """Those that have not answered for a while."""
        return self._absences.lost

    async def is_clock_off(self) -> bool:
        """Ask the others what time it is. False also where too few answer to tell."""
        return (await self.look()).is_clock_off

    async def may_stand(self) -> bool:
        """Is this replica one that may lead? Its clock may have been changed a moment ago: the others are asked now."""
        now_s = self._clock.elapsed_s()
        if now_s < self._off_until_s:
            return False
        is_off = await self.is_clock_off()
        self._off_until_s = now_s + STAND_AGAIN_S if is_off else 0.0
        return not is_off

    async def is_clock_off_to_all(self) -> bool:
        """As ``is_clock_off``, with some patience for those who do not answer yet."""
        end_s = self._clock.elapsed_s() + ALL_ASKED_S
        while not await self.is_clock_off():
            is_late = self._clock.elapsed_s() >= end_s
            if is_late or None not in self.seen.statuses.values():
                return False
            if await self._clock.wait(self._stop, STAND_AGAIN_S / 2):
                return False
        return True

    async def _trim(self, own: PeerStatus) -> None:
        upto = self._trimmable(own, list(self.seen.statuses.values()))
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


def measure(metrics: Metrics, own: PeerStatus, seen: Seen) -> None:
    """What was seen, for Prometheus."""
    up = [status for status in seen.statuses.values() if status is not None]
    metrics.peers.set(len(seen.statuses))
    metrics.peers_reachable.set(len(up))
    metrics.behind_entries.set(max([0, *(status.sequence - own.sequence for status in up)]))
    metrics.clock_off.set(seen.is_clock_off)


def clock_is_off(offsets_ms: Sequence[int]) -> bool:
    """At least two others agree with each other about the time, and not with us."""
    if len(offsets_ms) < 2:
        return False
    middle = sorted(offsets_ms)[len(offsets_ms) // 2]
    agreeing = [offset for offset in offsets_ms if abs(offset - middle) <= CLOCK_OFF_MS]
    return abs(middle) > CLOCK_OFF_MS and len(agreeing) == len(offsets_ms)


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
