"""Which launches stand in line together, and how many of them may be under way.

A lane is a kind of target, or one host of the kind that calls hosts. Lanes are counted apart, so that a receiver that
never answers holds up its own launches and nobody else's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tocsin.model.target import HttpTarget, TargetSpec
from tocsin.targets.slots import Shares

CALLS_OUTSTANDING_MAX = 2_000
BATCHED_OUTSTANDING_MAX = 20_000
"""Nothing new that is due is started while so many calls of its kind wait for an answer: a herd must not fill the
memory."""
PAYLOAD_BYTES_OUTSTANDING_MAX = 64 << 20
"""The same in bytes of schedules, for all kinds together. A lane alone has a quarter of it."""
WAITING_MIN, WAITING_FEW = 32, 2
"""Launches of one lane that are started beyond those that have a slot; more where the receiver answers faster. What has
not been called when the process is killed is doubt for a target that cannot look up, so the rest stays due. Few, when
many wait for slots already: some of each lane have to, to be served in turn."""
WAITING_MANY = 2 * WAITING_MIN
"""Of all lanes of a kind together."""

LATELY_S = 0.25

Key = tuple[int, str]
"""The number of a limit; and of one for each value of a label, the value. ``~number``: of that limit the rate alone."""
Keys = tuple[Key, ...]
Line = tuple[str, Keys]
"""Launches that wait for the same: their lane and their limits."""

SHARED = frozenset({"http"})
"""Kinds with a lane for each host."""

_ORIGIN = re.compile(r"[A-Za-z]+://[^/?#\\]*")


class _Where(msgspec.Struct, frozen=True, gc=False):
    kind: str
    url: str = ""


class _Peek(msgspec.Struct, frozen=True, gc=False):
    """The few bytes of a schedule that tell its lane: the rest is not even decoded."""

    target: _Where


_peek = msgspec.msgpack.Decoder(_Peek).decode


def lane_of(kind: str, url: str = "") -> str:
    """``exec``, or ``http http://host:port``."""
    if not url:
        return kind
    origin = _ORIGIN.match(url)
    return f"{kind} {origin.group().lower() if origin else ''}"


def lane_of_target(kind: str, spec: TargetSpec) -> str:
    return lane_of(kind, spec.url if isinstance(spec, HttpTarget) else "")


def lane_of_spec(spec: bytes) -> str:
    """Of a schedule as it is kept."""
    where = _peek(spec).target
    return lane_of(where.kind, where.url)


def kind_of_spec(spec: bytes) -> str:
    """The kind of target of a schedule as it is kept."""
    return _peek(spec).target.kind


class Answers:
    """How many calls of each lane were answered lately, in the time that a few turns take."""

    def __init__(self) -> None:
        self._period = 0
        self._now: Counter[str] = Counter()
        self._before: Counter[str] = Counter()

    def note(self, lane: str, now_s: float) -> None:
        self._turn(int(now_s / LATELY_S))
        self._now[lane] += 1

    def recent(self, lane: str, now_s: float) -> int:
        self._turn(int(now_s / LATELY_S))
        return max(self._now[lane], self._before[lane])

    def _turn(self, period: int) -> None:
        if period != self._period:
            self._before = self._now if period == self._period + 1 else Counter()
            self._now, self._period = Counter(), period


class Room:
    """How many more launches each lane takes, for one look at what is due."""

    def __init__(
        self,
        shares: Mapping[str, Shares],
        in_batches: frozenset[str],
        slots: Mapping[str, Shares] | None = None,
        recent: Callable[[str], int] = lambda lane: 0,
        payloads: Shares | None = None,
    ) -> None:
        """``shares``: who has how many launches under way, of each kind. ``slots``: which of them have a slot.
        ``recent``: how many of a lane were answered lately. ``payloads``: how many bytes are under way."""
        self._shares = shares
        self._slots = slots or {}
        self._recent = recent
        self._recent_of: dict[str, int] = {}
        self._in_batches = in_batches
        self._payloads = payloads or Shares(PAYLOAD_BYTES_OUTSTANDING_MAX)
        # A herd in batches must not be slowed down by counting.
        one_by_one = shares.keys() - in_batches
        self._words = tuple(kind.encode() for kind in sorted(one_by_one))
        self._batches_full = any(
            not shares[kind].has_room(kind) or not self._payloads.has_room(kind) for kind in in_batches
        )

    def takes_all(self, specs: Iterable[bytes]) -> bool:
        """Is there room for all of these for sure? Found by one look at a whole herd: there is where none of them so
        much as mentions a kind that is counted."""
        if self._batches_full:
            return False
        together = b" ".join(specs)
        return not any(word in together for word in self._words)

    def takes(self, spec: bytes) -> bool:
        """Is there room for this schedule's launch? Then it is counted."""
        where = _peek(spec).target
        shares = self._shares.get(where.kind)
        if shares is None:
            return True
        lane = lane_of(where.kind, where.url)
        if not self._has_room(where.kind, shares, lane):
            return False
        self._count(where.kind, shares, lane, len(spec))
        return True

    def line_of(self, spec: bytes) -> Line:
        """The lane of a schedule as it is kept, and its limits."""
        return lane_of_spec(spec), ()

    def has(self, line: Line) -> bool:
        """Is there room for one more of those who wait there?"""
        return self.has_in_lane(line[0])

    def count_line(self, line: Line, size: int = 0) -> None:
        """One more is taken, of so many bytes as far as that is known."""
        self.count_in_lane(line[0], size)

    def has_in_lane(self, lane: str) -> bool:
        """Is there room for one more in this lane?"""
        kind = lane.partition(" ")[0]
        shares = self._shares.get(kind)
        return shares is None or self._has_room(kind, shares, lane)

    def _has_room(self, kind: str, shares: Shares, lane: str) -> bool:
        if kind not in self._in_batches and not self._may_wait(kind, shares, lane):
            return False
        return shares.has_room(lane) and self._payloads.has_room(lane)

    def _may_wait(self, kind: str, shares: Shares, lane: str) -> bool:
        """Is there a slot for one more, or may it wait for one?"""
        slots = self._slots.get(kind)
        if slots is None:
            return True
        recent = self._recent_of.get(lane)
        if recent is None:
            recent = self._recent_of[lane] = self._recent(lane)
            while slots.held.get(lane, 0) < shares.held.get(lane, 0) and slots.has_room(lane):
                slots.take(lane)  # by those who wait already
        if slots.has_room(lane):
            return True
        waiting = shares.held.get(lane, 0) - slots.held.get(lane, 0)
        are_many = shares.total - slots.total >= WAITING_MANY
        return waiting < max(recent, WAITING_FEW if are_many else WAITING_MIN)

    def _count(self, kind: str, shares: Shares, lane: str, size: int) -> None:
        shares.take(lane)
        self._payloads.take(lane, size)
        slots = self._slots.get(kind)
        if slots is not None and slots.has_room(lane):
            slots.take(lane)

    def count_in_lane(self, lane: str, size: int = 0) -> None:
        """One more is taken, of so many bytes as far as that is known."""
        kind = lane.partition(" ")[0]
        if (shares := self._shares.get(kind)) is not None:
            self._count(kind, shares, lane, size)

    def limit_of(self, spec: bytes) -> str:
        """The limit that leaves no room for this schedule's launch; empty: none does."""
        return ""


ROOM_FOR_ALL = Room({}, frozenset())
