"""Who is held to which limits, and how much room each of them has.

Kept by the leader, in its memory. What is under way is counted launch by launch, from the start that was written down
to the end that was; a new leader begins with what it finds open. Rates are not written down: a new leader's buckets
are full.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tocsin.clock import Clock
from tocsin.model.limit import Bucket, Limit, LimitValueView, LimitView
from tocsin.replica.lanes import Key, Keys, Line, Room, lane_of

PACE_S = 0.05
"""A rate is worked off in handfuls of this long: fewer would be an entry of the journal each."""
RATE_OVER_S = 10
VALUES_SHOWN = 20
REMEMBERED = 50_000


class _Where(msgspec.Struct, frozen=True, gc=False):
    kind: str
    url: str = ""
    topic: str = ""
    subject: str = ""


class _Peek(msgspec.Struct, frozen=True, gc=False):
    """The part of a schedule that limits are about: the rest is not even decoded."""

    target: _Where
    labels: dict[str, str] = {}


_peek = msgspec.msgpack.Decoder(_Peek).decode


class Matcher:
    """Which limits a schedule is held to, found without a look at each of them."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = limits
        self._by_kind: dict[str, list[int]] = {}
        self._by_label: dict[str, dict[str, list[int]]] = {}
        """By key and value; the value is empty where each is meant."""
        for number, limit in enumerate(limits):
            if limit.label:
                values = self._by_label.setdefault(limit.label_key, {})
                values.setdefault(limit.label_value, []).append(number)
            else:
                self._by_kind.setdefault(limit.kind, []).append(number)
        self._words = tuple(word.encode() for word in sorted({*self._by_kind, *self._by_label}))
        self._label_keys = tuple(self._by_label)
        self._lines: dict[tuple[object, ...], Line] = {}
        """What was found for others of the same target and labels: a herd asks the same question again and again."""

    def has_limits(self, spec: bytes) -> bool:
        """False: certainly none. Found without reading it."""
        for word in self._words:  # noqa: SIM110  # why: three times as fast as any(), and a herd waits for it
            if word in spec:
                return True
        return False

    def line_of(self, spec: bytes) -> Line:
        """Of a schedule as it is kept."""
        where, labels = (peek := _peek(spec)).target, peek.labels
        lane = lane_of(where.kind, where.url) if where.url else where.kind
        values = tuple([labels.get(key) for key in self._label_keys]) if labels else ()
        asked = (lane, where.topic, where.subject, values)
        line = self._lines.get(asked)
        if line is None:
            if len(self._lines) >= REMEMBERED:
                self._lines.clear()
            line = self._lines[asked] = (lane, self._keys_of(where, labels))
        return line

    def _keys_of(self, where: _Where, labels: Mapping[str, str]) -> Keys:
        found = [(number, "") for number in self._by_kind.get(where.kind, ()) if self._is_at(number, where)]
        for key, values in self._by_label.items():
            value = labels.get(key)
            if value is None:
                continue
            found += [
                (number, "") for number in values.get(value, ()) if value and self._is_at(number, where)
            ]
            found += [(number, value) for number in values.get("", ()) if self._is_at(number, where)]
        found.sort()
        return tuple(found)

    def _is_at(self, number: int, where: _Where) -> bool:
        limit = self.limits[number]
        if limit.kind and limit.kind != where.kind:
            return False
        if not limit.detail:
            return True
        if where.url:
            return lane_of(where.kind, where.url) == limit.target
        return limit.detail in (where.topic, where.subject)


class Waits(msgspec.Struct, frozen=True):
    """What waits, as of the last look at what is due."""

    by_limit: Mapping[int, int] = {}
    by_key: Mapping[Key, int] = {}
    reasons: Mapping[Keys, int] = {}
    """Of launches with these limits: the one that keeps them waiting."""


class Limits:
    """All limits, and what is known of them now. Without any it costs nothing."""

    def __init__(self, limits: Sequence[Limit], clock: Clock) -> None:
        self.limits = tuple(limits)
        self.buckets: tuple[Bucket | None, ...] = tuple(limit.bucket() for limit in limits)
        self._clock = clock
        self._matcher = Matcher(self.limits)
        self.has_limits, self.line_of = self._matcher.has_limits, self._matcher.line_of
        self._open: dict[int, Keys] = {}
        self._held: list[tuple[int, int]] = []
        """A heap: until when, and the number of a launch of which a call may still run."""
        self._held_until: dict[int, int] = {}
        self.under_way: Counter[Key] = Counter()
        self.full_s: dict[Key, float] = {}
        """When each bucket will be full again."""
        self._starts: deque[tuple[int, Counter[int]]] = deque()
        """By second: how many of each limit."""
        self.waits = Waits()

    def __bool__(self) -> bool:
        return bool(self.limits)

    # Who counts

    def begin_term(self) -> None:
        self._open.clear()
        self._held.clear()
        self._held_until.clear()
        self.under_way.clear()
        self.waits = Waits()

    def count_open(self, found: Iterable[tuple[int, bytes]]) -> None:
        """Launches (number, schedule) that are open. Another leader started them, and its rate was theirs."""
        for lid, spec in found if self.limits else ():
            self._count(lid, spec)

    def _count(self, lid: int, spec: bytes) -> None:
        keys = self.keys_of(spec)
        if keys and lid not in self._open:
            self._open[lid] = keys
            self.under_way.update(keys)

    def started(self, launches: Iterable[tuple[int, bytes]]) -> None:
        """Launches (number, schedule) that are handed to their targets now. A repeat takes over the place of the call
        before it."""
        if not self.limits:
            return
        now_s = self._clock.elapsed_s()
        counted: Counter[int] = Counter()
        for lid, spec in launches:
            self._count(lid, spec)
            self._held_until.pop(lid, None)
            for key in self._open.get(lid, ()):
                counted[key[0]] += 1
                bucket = self.buckets[key[0]]
                if bucket is not None:
                    self.full_s[key] = bucket.take(self.full_s.get(key, 0.0), now_s)
        if counted:
            self._note_starts(int(now_s), counted)
            self._forget_full(now_s)

    def hold(self, held: Iterable[tuple[int, int]]) -> None:
        """Launches (number, until when by the wall clock) of which a call may still run: they keep their places for
        that long, or until they are called again."""
        for lid, until_ms in held if self.limits else ():
            if lid in self._open and self._held_until.get(lid) != until_ms:
                heapq.heappush(self._held, (until_ms, lid))
                self._held_until[lid] = until_ms

    def is_held(self, lid: int) -> bool:
        """Does a launch that waits keep the place of its last call?"""
        return lid in self._held_until

    def _release(self) -> None:
        now_ms = self._clock.wall_ms()
        while self._held and self._held[0][0] <= now_ms:
            until_ms, lid = heapq.heappop(self._held)
            if self._held_until.get(lid) == until_ms:  # not what was resolved, and called again, meanwhile
                self.ended([lid])

    def ended(self, lids: Iterable[int]) -> None:
        if not self._open:
            return
        for lid in lids:
            self._held_until.pop(lid, None)
            for key in self._open.pop(lid, ()):
                self.under_way[key] -= 1
                if self.under_way[key] <= 0:
                    del self.under_way[key]

    def _note_starts(self, second: int, counted: Counter[int]) -> None:
        if not self._starts or self._starts[-1][0] != second:
            self._starts.append((second, Counter()))
        self._starts[-1][1].update(counted)
        while self._starts[0][0] < second - RATE_OVER_S:
            self._starts.popleft()

    def _forget_full(self, now_s: float) -> None:
        """A bucket that is full need not be kept: labels may have any number of values."""
        if len(self.full_s) > 10_000:
            self.full_s = {key: full_s for key, full_s in self.full_s.items() if full_s > now_s}

    # Who asks

    def keys_of(self, spec: bytes) -> Keys:
        return self._matcher.line_of(spec)[1] if self._matcher.has_limits(spec) else ()

    def room(self, lanes: Room) -> Room:
        """How much more may be started, as of now."""
        if self._held:
            self._release()
        return LimitedRoom(lanes, self, self._clock.elapsed_s()) if self.limits else lanes

    def waits_for(self, spec: bytes) -> str:
        """The limit that keeps what is due of this schedule waiting: ``team=payroll 100/s``; empty: none does."""
        keys = self.keys_of(spec)
        if not keys:
            return ""
        number = self.waits.reasons.get(keys)
        if number is None:
            number = LimitedRoom(Room({}, frozenset()), self, self._clock.elapsed_s()).reached(keys)
        return "" if number is None else self.limits[number].text

    def most_waited_for(self) -> str:
        """The limit for which most wait here; empty: nobody waits."""
        waiting = self.waits.by_limit
        return self.limits[max(waiting, key=lambda number: waiting[number])].text if waiting else ""

    def views(self) -> list[LimitView]:
        """As of now."""
        now_s = self._clock.elapsed_s()
        recent: Counter[int] = Counter()
        for second, counted in self._starts:
            if second > now_s - RATE_OVER_S:
                recent.update(counted)
        under_way: Counter[int] = Counter()
        for (number, _), count in self.under_way.items():
            under_way[number] += count
        return [
            LimitView(
                limit=limit.name,
                target=limit.target,
                label=limit.label,
                rate=limit.rate,
                burst=None if (bucket := self.buckets[number]) is None else bucket.burst,
                concurrency=limit.concurrency,
                started_per_s=round(recent[number] / RATE_OVER_S, 1),
                under_way=under_way[number],
                waiting=self.waits.by_limit.get(number, 0),
                values=self._values(number) if limit.is_for_each else [],
            )
            for number, limit in enumerate(self.limits)
        ]

    def _values(self, number: int) -> list[LimitValueView]:
        waiting = self.waits.by_key
        keys = {key for known in (self.under_way, waiting) for key in known if key[0] == number}
        busiest = sorted(keys, key=lambda key: (-waiting.get(key, 0), -self.under_way[key], key))
        return [
            LimitValueView(value=key[1], under_way=self.under_way[key], waiting=waiting.get(key, 0))
            for key in busiest[:VALUES_SHOWN]
        ]


class LimitedRoom(Room):
    """The room of the lanes, and of the limits, for one look at what is due."""

    def __init__(self, lanes: Room, limits: Limits, now_s: float) -> None:
        super().__init__({}, frozenset())
        self._lanes = lanes
        self._limits = limits
        self._now_s = now_s
        self._taken: Counter[Key] = Counter()
        self.keys_of = limits.keys_of
        self.has_limits = limits.has_limits

    def takes(self, spec: bytes) -> bool:
        keys = self._limits.keys_of(spec)
        if not keys:
            return self._lanes.takes(spec)
        if self.reached(keys) is not None or not self._lanes.takes(spec):
            return False
        self._taken.update(keys)
        return True

    def takes_in_lane(self, spec: bytes) -> bool:
        """Of a schedule without limits."""
        return self._lanes.takes(spec)

    def line_of(self, spec: bytes) -> Line:
        return self._limits.line_of(spec)

    def line_of_retry(self, lid: int, spec: bytes) -> Line:
        """Of a launch that waits for its next attempt. If it has kept its place, only rates can keep it waiting."""
        lane, keys = self._limits.line_of(spec)
        if not self._limits.is_held(lid):
            return lane, keys
        return lane, tuple(_rate_alone(key) for key in keys if self._limits.buckets[key[0]] is not None)

    def limit_of(self, spec: bytes) -> str:
        return self.text_of(self._limits.keys_of(spec))

    def text_of(self, keys: Keys) -> str:
        """The limit of these that is reached; empty: none is."""
        number = self.reached(keys)
        return "" if number is None else self._limits.limits[number].text

    def has(self, line: Line) -> bool:
        lane, keys = line
        return self._lanes.has_in_lane(lane) and self.reached(keys) is None

    def count_line(self, line: Line, size: int = 0) -> None:
        lane, keys = line
        self._lanes.count_in_lane(lane, size)
        self._taken.update(keys)

    def reached(self, keys: Keys) -> int | None:
        """The first of these limits that has no room."""
        for key in keys:
            if self._left(key) <= 0:
                return _limit_of(key)
        return None

    def reason(self, keys: Keys) -> int:
        """The limit for which launches with these limits wait, or have waited."""
        reached = self.reached(keys)
        return _limit_of(keys[0]) if reached is None else reached

    def in_ms(self, waiting: Iterable[Keys]) -> int | None:
        """In how many milliseconds there may be room for one of these; None: that is not a matter of time."""
        waits_s = [wait_s for keys in waiting if (wait_s := self.has_s(keys)) is not None]
        return max(1, math.ceil(min(waits_s) * 1000)) if waits_s else None

    def has_s(self, keys: Keys) -> float | None:
        """In how many seconds there may be room; None: that is not a matter of time."""
        latest: float | None = None
        limits = self._limits
        for key in keys:
            most, bucket, full_s = self._bounds(key)
            if most is not None and limits.under_way.get(key, 0) + self._taken[key] >= most:
                return None
            if bucket is not None and self._left(key) <= 0:
                full_s = bucket.take(full_s, self._now_s, self._taken_of_rate(key))
                in_s = bucket.has_s(full_s, bucket.handful(PACE_S)) - self._now_s
                latest = in_s if latest is None else max(latest, in_s)
        return latest

    def _left(self, key: Key) -> int:
        most, bucket, full_s = self._bounds(key)
        left = 1 << 40
        if most is not None:
            left = most - self._limits.under_way.get(key, 0) - self._taken.get(key, 0)
        if bucket is not None:
            left = min(left, bucket.holds(full_s, self._now_s) - self._taken_of_rate(key))
        return left

    def _bounds(self, key: Key) -> tuple[int | None, Bucket | None, float]:
        """How many may be under way, the bucket of the rate, and when that is full. None: there is no such bound."""
        limits, number = self._limits, _limit_of(key)
        most = limits.limits[number].concurrency if key[0] >= 0 else None
        return most, limits.buckets[number], limits.full_s.get((number, key[1]), 0.0)

    def _taken_of_rate(self, key: Key) -> int:
        """Repeats that keep their place use up the same rate."""
        return self._taken.get(key, 0) + self._taken.get(_rate_alone(key), 0)


def _rate_alone(key: Key) -> Key:
    """The key of the same limit without its concurrency; of that key, the limit's own."""
    return ~key[0], key[1]


def _limit_of(key: Key) -> int:
    """The number of the limit."""
    return max(key[0], ~key[0])
