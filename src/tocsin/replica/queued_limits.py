"""Queued launches and their limits: which limits each launch is held to, and how many wait for which."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tocsin.replica.lanes import Room
from tocsin.replica.limits import Key, Keys, LimitedRoom, Waits
from tocsin.state import queries, queued
from tocsin.state.queued import QueuedHead

KNOWN_MAX = 200_000
"""The limits of so many waiting launches are remembered. Those of further launches are read from their schedules in
every round, and ``on_wait`` is not told of them."""

Known = tuple[int, Keys]
"""The version of a launch's schedule, and its limits. A version never changes, so its limits do not either."""


class QueuedLimits:
    """The launches that found a limit reached, in the present round and in the last one."""

    def __init__(self, on_wait: Callable[[int, int], None]) -> None:
        self._on_wait = on_wait
        self._known: dict[int, Known] = {}
        self._known_before: dict[int, Known] = {}
        self._numbers: Counter[Keys] = Counter()
        self._numbers_before: Counter[Keys] = Counter()

    def read(self, db: sqlite3.Connection, heads: Sequence[QueuedHead], room: Room) -> dict[int, Keys]:
        """By launch. Launches whose schedules are too many bytes for one look are left out, but for the first."""
        if not isinstance(room, LimitedRoom):
            return {head.lid: () for head in heads}
        found: dict[int, Keys] = {}
        unread: list[int] = []
        for head in heads:
            known = self._known.get(head.lid) or self._known_before.get(head.lid)
            if known is not None and known[0] == head.version:
                found[head.lid] = known[1]
            else:
                unread.append(head.lid)
        if unread:
            page = queued.specs(db, unread, queries.LOOK_BYTES)
            found |= {lid: room.keys_of(spec) for lid, spec in page.rows}
        return found

    def wait(self, waiting: Iterable[tuple[QueuedHead, Keys]], room: LimitedRoom) -> None:
        """These found a limit reached."""
        new: Counter[int] = Counter()
        for head, keys in waiting:
            if head.lid not in self._known and len(self._known) < KNOWN_MAX:
                self._known[head.lid] = head.version, keys
                if head.lid not in self._known_before:
                    new[room.reason(keys)] += 1
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
