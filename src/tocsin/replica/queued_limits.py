"""Queued launches and what they wait for: the lane and the limits of each, and how many wait for which limit."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tocsin.replica.lanes import Key, Keys, Line, Room
from tocsin.replica.limits import LimitedRoom, Waits
from tocsin.state import queries, queued
from tocsin.state.queued import QueuedHead

KNOWN_MAX = 200_000
"""The lines of so many waiting launches are remembered. Those of further launches are read from their schedules in
every round, and ``on_wait`` is not told of them."""

Known = tuple[int, Line]
"""The version of a launch's schedule, and its line. A version never changes, so its line does not either."""


class QueuedLimits:
    """The launches that found no room, in the present round and in the last one."""

    def __init__(self, on_wait: Callable[[int, int], None]) -> None:
        self._on_wait = on_wait
        self._known: dict[int, Known] = {}
        self._known_before: dict[int, Known] = {}
        self._numbers: Counter[Keys] = Counter()
        self._numbers_before: Counter[Keys] = Counter()

    def read(self, db: sqlite3.Connection, heads: Sequence[QueuedHead], room: Room) -> dict[int, Line]:
        """By launch. Launches whose schedules are too many bytes for one look are left out, but for the first."""
        found: dict[int, Line] = {}
        unread: list[int] = []
        for head in heads:
            known = self._known.get(head.lid) or self._known_before.get(head.lid)
            if known is not None and known[0] == head.version:
                found[head.lid] = known[1]
            else:
                unread.append(head.lid)
        if unread:
            page = queued.specs(db, unread, queries.LOOK_BYTES)
            found |= {lid: room.line_of(spec) for lid, spec in page.rows}
        return found

    def wait(self, waiting: Iterable[tuple[QueuedHead, Line]], room: Room) -> None:
        """These found no room."""
        new: Counter[int] = Counter()
        for head, line in waiting:
            if head.lid not in self._known and len(self._known) < KNOWN_MAX:
                self._known[head.lid] = head.version, line
                is_new = head.lid not in self._known_before
                if is_new and isinstance(room, LimitedRoom) and (limit := room.reached(line[1])) is not None:
                    new[limit] += 1
        for number, count in new.items():
            self._on_wait(number, count)

    def count(self, waiting: Iterable[Keys]) -> None:
        """The round has passed launches with these limits."""
        self._numbers.update(waiting)

    def end_round(self) -> None:
        self._known_before, self._known = self._known, {}
        self._numbers_before, self._numbers = self._numbers, Counter()

    def waits(self, room: LimitedRoom) -> Waits:
        """How many wait for which limit. A round that is under way has not counted all of them yet."""
        by_limit: Counter[int] = Counter()
        by_key: Counter[Key] = Counter()
        reasons: dict[Keys, int] = {}
        for keys in self._numbers.keys() | self._numbers_before.keys():
            number = room.reached(keys)
            if number is not None:
                count = max(self._numbers[keys], self._numbers_before[keys])
                by_limit[number] += count
                by_key.update({key: count for key in keys if key[0] == number})
                reasons[keys] = number
        return Waits(by_limit, by_key, reasons)
