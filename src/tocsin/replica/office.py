"""Who leads, and for how long that is certain.

On one machine nobody else can: a lock on the data directory is the office. In a cluster the leader is the author of the
last ``TookOffice``, and it holds a lease.

- The lease lasts ``LEADER_S`` from the moment *before the leader sent* its last acknowledged presence or entry.
- A follower may stand for election ``FOLLOWER_S`` after it *observed* the last presence or entry, or at once after
  ``Resigned``.

A presence is observed after it was sent, so the follower's time begins later and is longer: the lease has ended by
then, as long as the two clocks do not run apart by more than a tenth. That the clocks show the same time is not
needed. A follower that has not observed the newest presence or the newest entry cannot take office at all: the election
compares both. And a leader that was deposed cannot store a presence any more, so none is acknowledged.

Presence is written and observed in a thread of its own (``presence``), so all that is here may be called from two
threads.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tocsin.clock import Clock, SystemClock
from tocsin.decide.clock import AGREE_MS
from tocsin.errors import Deposed, OfficeTaken
from tocsin.journal.contract import Election, SeenPresence
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.absence import AbsenceMeter

LEADER_S = 1.5
FOLLOWER_S = 1.8
RENEW_S = 0.5
"""The presence of a leader is written this often."""
HAND_OVER_S = 0.3
"""How long it takes at the most to hand an order to its target: with less of the lease left, it is not begun."""
DRIFT_MAX = 0.05
"""How much faster or slower than it should a clock may run."""
FRESH_S = 2.5
"""Presence is looked at at least every second."""
UNSEEN_S = 0.2
"""While nothing is known of the presence of others, a follower looks this often whether there is."""

assert FOLLOWER_S >= LEADER_S * (1 + DRIFT_MAX) / (1 - DRIFT_MAX) + 0.1


class DoubtingLeader(NamedTuple):
    """A leader whose wall clock is not believed, as its presence tells."""

    term: int
    offset_ms: int
    """Of the time that it counts on from the last one that was believed, from the clock here that never steps."""


HANGING_S = 1.0
"""A disk that takes longer for one entry hangs: as long as it does, nobody is there who could launch anything."""


class Office(Protocol):
    """The right to write entries and to call targets."""

    @property
    def renew_s(self) -> float | None:
        """How often presence is written; None: no other replica can lead."""
        ...

    def observed(self, at_s: float, *, term: int, is_vacant: bool) -> None:
        """An entry of that term was seen at that moment; ``is_vacant``: nobody leads after it."""
        ...

    def opens_in_s(self) -> float:
        """How long until this replica may stand for election."""
        ...

    def election(self, term: int, leader: str) -> Election | None:
        """What the entry that begins this term has to compare. Raises Deposed if it is too early for an election."""
        ...

    def heard_ms(self, leader: str) -> int:
        """When that leader was last known to be there, as a wall clock shows it; 0: unknown."""
        ...

    def leader_offset_ms(self) -> int | None:
        """How far the time of another leader was from the clock here that never steps; None: it was not heard."""
        ...

    def renewed(self, sent_s: float) -> None:
        """An entry of ours, sent after that moment, was acknowledged."""
        ...

    def offered(self) -> None:
        """An entry is about to be executed, written and applied; ``answered`` follows, however that ends."""
        ...

    def answered(self) -> None: ...

    def refused(self) -> None:
        """Certain that nothing can be written at this moment."""
        ...

    def ended(self) -> None:
        """Resigned or deposed."""
        ...

    def is_over(self, term: int) -> bool:
        """Is it known that another replica leads in a later term?"""
        ...

    def absent_since_ms(self, now_ms: int) -> int | None:
        """Since when nothing was acknowledged, if that was or is for too long. Until ``absence_noted``."""
        ...

    def absence_noted(self, at_ms: int) -> None:
        """It stands in the journal, up to that moment. Whatever came since is another one."""
        ...

    def until_s(self) -> float | None:
        """When the lease ends, on the clock that counts through suspend. None: it does not end by itself."""
        ...

    def holds(self) -> bool:
        """Does this process provably hold the lease, for long enough to hand over an order?"""
        ...


class SoleOffice:
    """Nobody else can be in office: the data directory is locked."""

    renew_s: float | None = None

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._in_office = self._is_refused = False
        self._offered_s: float | None = None
        self._meter = AbsenceMeter()
        self.former_ms = 0
        """When the former process was last there."""

    def observed(self, at_s: float, *, term: int, is_vacant: bool) -> None:
        return

    def opens_in_s(self) -> float:
        return 0.0

    def election(self, term: int, leader: str) -> Election | None:
        return None

    def heard_ms(self, leader: str) -> int:
        return self.former_ms

    def leader_offset_ms(self) -> int | None:
        return None

    def renewed(self, sent_s: float) -> None:
        self._is_refused = False
        if not self._in_office:
            self._in_office = True
            self._meter.restart(self._clock.wall_ms())

    def offered(self) -> None:
        self._offered_s = self._clock.elapsed_s()

    def answered(self) -> None:
        self._offered_s = None

    def refused(self) -> None:
        self._is_refused = True

    def ended(self) -> None:
        self._in_office = False

    def is_over(self, term: int) -> bool:
        return False

    def tick(self) -> None:
        """This process is there, by a thread of its own: neither paused nor suspended, and it can write."""
        offered_s = self._offered_s
        is_hanging = offered_s is not None and self._clock.elapsed_s() - offered_s > HANGING_S
        if not self._is_refused and not is_hanging:
            self._meter.acknowledged(self._clock.wall_ms())

    def absent_since_ms(self, now_ms: int) -> int | None:
        return self._meter.since_ms(now_ms)

    def absence_noted(self, at_ms: int) -> None:
        self._meter.restart(at_ms)

    def until_s(self) -> float | None:
        return None

    def holds(self) -> bool:
        return self._in_office


class ElectedOffice:
    """One of several replicas, by the timing rule."""

    renew_s: float | None = RENEW_S

    def __init__(self, clock: Clock, name: str = "") -> None:
        """``name``: of this replica. What its own presence says of the time is no news to it."""
        self._clock = clock
        self._name = name
        self.on_turn: Callable[[], None] = lambda: None
        """Called when a term of this replica has begun or ended."""
        self._lock = threading.Lock()
        self._opens_s = clock.elapsed_s() + FOLLOWER_S
        self._until_s = 0.0
        self._sent_s = 0.0
        """When the last that was acknowledged was sent."""
        self._standing: int | None = None
        """The term that this replica is about to begin."""
        self._term: int | None = None
        """The term in which it leads."""
        self._is_over = False
        self._known_term = 0
        """The newest that an entry was seen of."""
        self._is_vacant = False
        self._heard = (0, 0)
        """Term and counter of the newest presence that was observed."""
        self._heard_ms = self._heard_seq = 0
        self._heard_s: float | None = None
        self._told_s: float | None = None
        self._leader_offset_ms: int | None = None
        self._doubting: DoubtingLeader | None = None
        self._observed_s = 0.0
        """When presence was last looked at."""
        self._versions: dict[str, int] = {}
        """Of the presence of each replica, as last observed."""
        self._has_looked = False
        """Was presence looked at since this replica started, or led last?"""
        self._meter = AbsenceMeter()

    # Following

    def observed(self, at_s: float, *, term: int, is_vacant: bool) -> None:
        with self._lock:
            # An entry may be applied long after it arrived: presence that was observed meanwhile counts for more.
            self._is_vacant = is_vacant and self._heard[0] <= term
            self._opens_s = at_s if self._is_vacant else max(self._opens_s, at_s + FOLLOWER_S)
            self._known_term = term

    def observed_presence(self, seen: list[SeenPresence], at_s: float, at_ms: int) -> None:
        """Records as they were stored at some moment before that one."""
        with self._lock:
            self._has_looked = True
            for replica, version, presence in seen:
                self._versions[replica] = version
                if GROUP not in presence.terms:
                    continue  # it holds no lease
                term = presence.terms[GROUP]
                if (term, presence.counter) <= self._heard or term < self._known_term + self._is_vacant:
                    continue  # it arrived late, or the group has no leader there
                # One that follows another, with no gap between, was written just now, by a clock that agrees with ours.
                # Of any other its own time counts: it may be old, or its writer may have decided by another time. But a
                # clock that is ahead of ours must not hide that nobody was there.
                is_fresh = self._heard[0] == term and at_s - self._observed_s <= FRESH_S
                self._note_time(replica, presence, at_s, is_fresh=is_fresh)
                is_fresh &= abs(at_ms - presence.sent_ms) <= AGREE_MS
                self._heard = (term, presence.counter)
                self._opens_s = max(self._opens_s, at_s + FOLLOWER_S)
                self._heard_ms = at_ms if is_fresh else min(presence.sent_ms, at_ms)
                self._heard_s, self._heard_seq = at_s, presence.seq
            self._observed_s = at_s

    def _note_time(self, replica: str, presence: Presence, at_s: float, *, is_fresh: bool) -> None:
        self._doubting = None
        if not is_fresh or replica == self._name:
            return
        offset_ms = presence.sent_ms - round(at_s * 1000)
        if presence.is_clock_believed:
            self._leader_offset_ms = offset_ms
        else:
            self._doubting = DoubtingLeader(presence.terms[GROUP], offset_ms)

    def opens_in_s(self) -> float:
        with self._lock:
            return self._opening_s()

    def _opening_s(self) -> float:
        opens_in_s = self._opens_s - self._clock.elapsed_s()
        return opens_in_s if self._has_looked or self._is_vacant else max(opens_in_s, UNSEEN_S)

    def election(self, term: int, leader: str) -> Election | None:
        with self._lock:
            if self._opening_s() > 0:
                raise Deposed("the leader is heard again")
            self._standing = term
            return Election(term, leader, self._versions.get(leader, 0)) if leader else Election(term)

    def heard_ms(self, leader: str) -> int:
        return self._heard_ms

    def leader_offset_ms(self) -> int | None:
        return self._leader_offset_ms

    def doubting_leader(self) -> DoubtingLeader | None:
        """None: no other replica leads at this moment, or the wall clock of the one that does is believed."""
        with self._lock:
            is_heard = self._heard_s is not None and self._clock.elapsed_s() - self._heard_s <= FRESH_S
            return self._doubting if is_heard and self._term is None else None

    def told_s(self, applied: int) -> float | None:
        """When the leader was last heard with nothing that is not applied here, up to ``applied``, by the clock that
        never steps; None: never."""
        with self._lock:
            if self._heard_seq <= applied:
                self._told_s = self._heard_s
            return self._told_s

    # Leading

    @property
    def term(self) -> int | None:
        """The term in which this replica leads."""
        return self._term

    def renewed(self, sent_s: float) -> None:
        with self._lock:
            begins = self._standing is not None
            if begins:
                self._term, self._standing, self._is_over = self._standing, None, False
                self._leader_offset_ms = None
                self._meter.restart(self._clock.wall_ms())
            self._extend(sent_s)
        if begins:
            self.on_turn()

    def present(self, sent_s: float, term: int) -> None:
        """A presence of ours that lists this term, sent after that moment, was acknowledged."""
        with self._lock:
            if self._term == term:
                self._extend(sent_s)

    def deposed(self, term: int) -> None:
        """A presence that lists this term was refused: another replica leads in a later one."""
        with self._lock:
            if self._term == term:
                self._until_s, self._is_over = 0.0, True

    def _extend(self, sent_s: float) -> None:
        if self._is_over:
            return
        self._until_s = max(self._until_s, sent_s + LEADER_S)
        self._meter.acknowledged(self._clock.wall_ms())

    def offered(self) -> None:
        return

    def answered(self) -> None:
        return

    def refused(self) -> None:
        return  # then presence is refused as well

    def ended(self) -> None:
        """It is for the others now: whoever leaves office gives them time to take it."""
        with self._lock:
            has_led, self._until_s = self._until_s > 0.0 or self._is_over, 0.0
            if self._term is not None:
                self._has_looked = False  # a leader does not observe
            self._term = self._standing = None
            self._is_over = False
            self._opens_s = self._clock.elapsed_s() + (2 * FOLLOWER_S if has_led else RENEW_S)
        self.on_turn()

    def is_over(self, term: int) -> bool:
        return self._is_over

    def absent_since_ms(self, now_ms: int) -> int | None:
        return self._meter.since_ms(now_ms)

    def absence_noted(self, at_ms: int) -> None:
        self._meter.restart(at_ms)

    def until_s(self) -> float | None:
        return self._until_s

    def holds(self) -> bool:
        return self._clock.elapsed_s() + HAND_OVER_S <= self._until_s


class DataLock:
    """One process a data directory. The kernel lets go of the lock when the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        # Payloads and output are nobody else's business.
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(descriptor, 32, 0).strip()
            holder = found.decode() if found.isdigit() else ""
            os.close(descriptor)
            raise OfficeTaken(
                f"another Tocsin (process {holder or 'unknown'}) is using {self._path.parent}",
                hint="stop it, or choose another --data directory",
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def leave(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
