"""What a change is applied to."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.model.entry import Entry
from tocsin.state.store import Meta


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
        moves: list[tuple[int, int, int]] = []
        gone: list[tuple[int]] = []
        if delays_ms is None:
            delays_ms = (0,) * len(sids)
        for sid, instant_s, delay_ms in zip(sids, instants_s, delays_ms, strict=True):
            if instant_s is None:
                gone.append((sid,))
            else:
                moves.append((instant_s * 1000 + delay_ms, instant_s, sid))
        if moves:
            self.db.executemany("UPDATE due SET at_ms = ?, instant_s = ? WHERE sid = ?", moves)
        if gone:
            self.db.executemany("DELETE FROM due WHERE sid = ?", gone)
