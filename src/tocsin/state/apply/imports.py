"""Many new schedules, a few statements for all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain, repeat

from tocsin.model import change as c
from tocsin.model.new import NewSchedules
from tocsin.state.apply.context import Context

ROWS_AT_ONCE = 200


def created(context: Context, change: c.SchedulesCreated) -> int:
    """The leader knew that the ids are free. Should one be taken after all, it stays as it is, and nothing is due for
    the one that did not come to be. One record for all: each row itself says who made it, and when."""
    db, meta, entry = context
    new = change.new
    count = len(new)
    sids = range(meta.next_sid, meta.next_sid + count)
    meta.next_sid += count
    before = db.total_changes
    _insert_together(
        db,
        "INSERT OR IGNORE INTO schedule VALUES ",
        "(?, ?, 1, ?, ?, ?, ?, ?, ?, ?, NULL, 'created', ?)",
        list(
            zip(
                sids,
                new.ids,
                new.enabled,
                new.resolved,
                new.zones,
                new.rules,
                repeat(entry.time_ms),
                repeat(entry.time_ms),
                new.specs,
                repeat(change.actor),
                strict=False,
            )
        ),
    )
    made = db.total_changes - before
    _set_due(context, new, sids)
    if made < count:
        db.execute(
            "DELETE FROM due WHERE sid >= ? AND sid NOT IN (SELECT sid FROM schedule WHERE sid >= ?)",
            (sids.start, sids.start),
        )
    (enabled,) = db.execute("SELECT sum(enabled) FROM schedule WHERE sid >= ?", (sids.start,)).fetchone()
    meta.schedules += made
    meta.enabled += enabled or 0
    context.record("imported", new.ids[0], change.actor, version=1, note=_note(new.ids))
    return made


def _set_due(context: Context, new: NewSchedules, sids: range) -> None:
    columns = zip(sids, new.first_instants_s, new.first_delays_ms, strict=True)
    rows = [
        (instant_s * 1000 + delay_ms, sid, instant_s)
        for sid, instant_s, delay_ms in columns
        if instant_s is not None
    ]
    rows.sort()  # one after another in the table: pages are visited once
    _insert_together(context.db, "INSERT INTO due VALUES ", "(?, ?, ?)", rows)


def _insert_together(
    db: sqlite3.Connection, insert: str, values: str, rows: Sequence[tuple[object, ...]]
) -> None:
    """So many rows a statement. With one each, this thread would let go of the interpreter for every row, and wait for
    it again while others are busy: launches that are due meanwhile would wait with it."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        db.execute(insert + ", ".join([values] * len(some)), list(chain.from_iterable(some)))


def _note(ids: list[str]) -> str:
    return "" if len(ids) == 1 else f"and {len(ids) - 1} more"
