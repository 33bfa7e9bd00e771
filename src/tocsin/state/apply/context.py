"""What a change is applied to."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tocsin.model.entry import Entry
from tocsin.state.store import Meta

HERD = 8
"""From so many rows on that are treated alike, one statement for all of them is quicker than one for each. It also lets
go of the interpreter once, where the others would do so for each row and wait for it again."""


def is_uniform(column: Sequence[object] | None) -> bool:
    """Does it hold one value only, or nothing at all?"""
    return not column or column.count(column[0]) == len(column)


def numbers(column: Sequence[int]) -> str:
    """As ``json_each`` takes them."""
    return msgspec.json.encode(column).decode()


class Context(NamedTuple):
    """The open transaction, the facts that go with it, and the entry that is being applied."""

    db: sqlite3.Connection
    meta: Meta
    entry: Entry

    def record(
        self,
        act: str,
        about: str,
        actor: str,
        *,
        version: int | None = None,
        lid: int | None = None,
        note: str = "",
    ) -> None:
        """Who did what. Only what took effect is recorded."""
        rid = self.meta.next_rid
        self.meta.next_rid += 1
        self.db.execute(
            "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (rid, self.meta.seq + 1, self.entry.time_ms, actor, act, about, version, lid, note),
        )

    def take_lids(self, count: int) -> range:
        """The next numbers for launches: the same on every replica."""
        first = self.meta.next_lid
        self.meta.next_lid += count
        return range(first, first + count)

    def move_due(
        self,
        sids: Sequence[int],
        instants_s: Sequence[int | None],
        delays_ms: Sequence[int] | None,
    ) -> None:
        """Put each schedule's due row at its next instant, or take it away where there is none."""
        if delays_ms is None and is_uniform(instants_s):
            together: dict[tuple[int | None, int], Sequence[int]] = {(instants_s[0], 0): sids} if sids else {}
        else:
            together = _grouped(sids, instants_s, delays_ms or (0,) * len(sids))
        moves: list[tuple[int, int, int]] = []
        for (instant_s, delay_ms), some in together.items():
            if instant_s is None:
                self.db.execute(
                    "DELETE FROM due WHERE sid IN (SELECT value FROM json_each(?))", (numbers(some),)
                )
            elif len(some) >= HERD:
                self.db.execute(
                    "UPDATE due SET at_ms = ?, instant_s = ? WHERE sid IN (SELECT value FROM json_each(?))",
                    (instant_s * 1000 + delay_ms, instant_s, numbers(some)),
                )
            else:
                moves += [(instant_s * 1000 + delay_ms, instant_s, sid) for sid in some]
        if moves:
            self.db.executemany("UPDATE due SET at_ms = ?, instant_s = ? WHERE sid = ?", moves)


def _grouped(
    sids: Sequence[int], instants_s: Sequence[int | None], delays_ms: Sequence[int]
) -> dict[tuple[int | None, int], Sequence[int]]:
    """Those that go to the same moment."""
    found: dict[tuple[int | None, int], list[int]] = {}
    for sid, instant_s, delay_ms in zip(sids, instants_s, delays_ms, strict=True):
        found.setdefault((instant_s, delay_ms), []).append(sid)
    return dict(found)
