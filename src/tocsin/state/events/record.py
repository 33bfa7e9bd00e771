"""Which commands of an entry took effect. The record of what people did holds nothing that was refused."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.state.events.drafts import is_command


class Act(NamedTuple):
    """Something that a person did, as the record has it."""

    act: str
    about: str
    actor: str
    version: int | None
    lid: int | None
    note: str


_ACTS: dict[type, tuple[str, ...]] = {
    c.SchedulePut: ("created", "edited", "restored"),
    c.ScheduleDeleted: ("deleted",),
    c.ScheduleSwitched: ("paused", "resumed"),
    c.LaunchRequested: ("launched",),
    c.CancelRequested: ("cancelled",),
    c.LaunchResolved: ("resolved",),
    c.BackfillRequested: ("backfilled",),
}


def acts_of(db: sqlite3.Connection, seq: int, entry: Entry) -> dict[int, Act]:
    """No entry holds two commands about the same thing, so a row of the record belongs to one of them for certain."""
    commands = [(place, change) for place, change in enumerate(entry.changes) if is_command(change)]
    if not commands:
        return {}
    recorded: dict[tuple[object, ...], Act] = {}
    for *columns, instant_s, kind in _records(db, seq):
        act = Act(*columns)
        about_launch = (instant_s, kind) if act.act in ("cancelled", "resolved") else ()
        recorded[(act.act, act.about, *about_launch)] = act
    found = ((place, _recorded(recorded, change)) for place, change in commands)
    return {place: act for place, act in found if act is not None}


def _recorded(recorded: dict[tuple[object, ...], Act], change: Any) -> Act | None:
    about: tuple[object, ...]
    if isinstance(change, c.SchedulePut):
        about = (change.schedule.id,)
    elif isinstance(change, c.CancelRequested | c.LaunchResolved):
        about = (change.schedule, change.instant_s, int(change.manual))
    else:
        about = (change.id,)
    return next((recorded[act, *about] for act in _ACTS[type(change)] if (act, *about) in recorded), None)


def _records(db: sqlite3.Connection, seq: int) -> list[tuple[Any, ...]]:
    """Of one entry. Their numbers grow with the sequence: no index is needed to find them by it."""
    return db.execute(
        "SELECT r.act, r.about, r.actor, r.version, r.lid, r.note, l.instant_s, l.kind "
        "FROM record r LEFT JOIN launch l ON l.lid = r.lid WHERE r.rid >= ? AND r.rid < ?",
        (_first_rid(db, seq), _first_rid(db, seq + 1)),
    ).fetchall()


def _first_rid(db: sqlite3.Connection, seq: int) -> int:
    """The first row of the record that is of this entry or of a later one, found by halving."""
    # Asked for apart, each end is found in the tree at once; together they would be a walk through the table.
    low, high = db.execute(
        "SELECT coalesce((SELECT min(rid) FROM record), 0), coalesce((SELECT max(rid) FROM record), -1) + 1"
    ).fetchone()
    while low < high:
        middle = (low + high) // 2
        found = db.execute("SELECT seq FROM record WHERE rid >= ? ORDER BY rid LIMIT 1", (middle,)).fetchone()
        if found is None or found[0] >= seq:
            high = middle
        else:
            low = middle + 1
    return int(low)
