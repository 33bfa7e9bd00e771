"""What the numbers in an entry are called, and what commands did on the side: a handful of queries for many drafts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tocsin.model.launch import LaunchState
from tocsin.state.events.drafts import Draft
from tocsin.state.events.record import Act

_ID = (
    "coalesce((SELECT id FROM schedule s WHERE s.sid = {sid}), "
    "(SELECT id FROM revision r WHERE r.sid = {sid} LIMIT 1))"
)
_LAUNCH = (
    f"SELECT l.lid, {_ID.format(sid='l.sid')}, l.instant_s, l.kind, l.state, l.attempt, l.started_ms, l.ended_ms, "
    "l.asked_ms, coalesce(l.reason, '') FROM launch l "
)


_BY_AN_EDIT = (
    "(l.reason LIKE 'the schedule was % before it could be launched' "
    "OR l.reason LIKE '%the moment had passed when %')"
)
"""Others that were skipped in the same entry are told by the decision that skipped them."""


class Opened(NamedTuple):
    """An entry as the drafts of what it brought about. What was refused is not among them."""

    seq: int
    time_ms: int
    drafts: list[Draft]
    acts: dict[int, Act]
    """Of the commands that took effect, by their place in the entry."""
    mark: str
    """Of the record."""


class Launch(NamedTuple):
    """What is kept about a launch, as far as events need it."""

    lid: int
    schedule: str | None
    instant_s: int
    kind: int
    state: int
    attempt: int
    started_ms: int | None
    ended_ms: int | None
    asked_ms: int | None
    reason: str


class Known(NamedTuple):
    """What was looked up for some drafts."""

    ids: dict[int, str]
    launches: dict[int, Launch]
    skipped: dict[str, list[Launch]]
    missed: dict[str, tuple[int, int, str]]
    replaced: dict[str, list[Launch]]
    backfilled: dict[tuple[str, int], Launch]


def look_up(db: sqlite3.Connection, entry: Opened, some: Sequence[Draft]) -> Known:
    acts = {draft.place: entry.acts[draft.place] for draft in some if draft.place in entry.acts}
    lids = {draft.lid for draft in some} | {act.lid for act in acts.values()}
    ids = {act.about for act in acts.values()}
    at_ms = entry.time_ms
    schedule_ids = {act.about for act in acts.values() if act.lid is None}
    replacing = {act.about for act in acts.values() if act.act == "launched"}
    backfilled = {act.about for act in acts.values() if act.act == "backfilled"}
    sids = {} if not ids else _numbers(db, ids)
    return Known(
        ids=_ids(db, {draft.sid for draft in some if draft.sid is not None}),
        launches={
            row.lid: row
            for row in _launches(db, "l.lid IN (SELECT value FROM json_each(?))", lids - {None}, ())
        },
        skipped=_sides(
            db,
            sids,
            schedule_ids,
            f"l.state = {LaunchState.SKIPPED:d} AND {_BY_AN_EDIT} AND l.ended_ms = ?",
            at_ms,
        ),
        missed=_missed(db, sids, schedule_ids, at_ms),
        replaced=_sides(
            db,
            sids,
            replacing,
            f"l.state = {LaunchState.CANCELLED:d} AND l.ended_ms = ? AND l.reason LIKE 'replaced by the run-now of %'",
            at_ms,
        ),
        backfilled={
            (id, row.instant_s): row
            for id, rows in _sides(db, sids, backfilled, "l.asked_ms = ?", at_ms).items()
            for row in rows
        },
    )


def _ids(db: sqlite3.Connection, sids: Iterable[int]) -> dict[int, str]:
    asked = json.dumps(list(sids))
    rows = db.execute(f"SELECT value, {_ID.format(sid='value')} FROM json_each(?)", (asked,))
    return {sid: id for sid, id in rows if id is not None}


def _numbers(db: sqlite3.Connection, ids: Iterable[str]) -> dict[str, int]:
    asked = json.dumps(list(ids))
    rows = db.execute(
        "SELECT value, coalesce((SELECT sid FROM schedule s WHERE s.id = value), "
        "(SELECT sid FROM revision r WHERE r.id = value LIMIT 1)) FROM json_each(?)",
        (asked,),
    )
    return {id: sid for id, sid in rows if sid is not None}


def _launches(
    db: sqlite3.Connection, where: str, asked: Iterable[object], more: tuple[object, ...]
) -> list[Launch]:
    wanted = list(asked)
    if not wanted:
        return []
    rows = db.execute(f"{_LAUNCH}WHERE {where} ORDER BY l.lid", (json.dumps(wanted), *more))
    return [Launch(*row) for row in rows]


def _sides(
    db: sqlite3.Connection, sids: dict[str, int], ids: set[str], condition: str, at_ms: int
) -> dict[str, list[Launch]]:
    """Launches of these schedules that one entry touched, by its time."""
    asked = [sids[id] for id in ids if id in sids]
    found: dict[str, list[Launch]] = {}
    for row in _launches(db, f"l.sid IN (SELECT value FROM json_each(?)) AND {condition}", asked, (at_ms,)):
        found.setdefault(row.schedule or "", []).append(row)
    return found


def _missed(
    db: sqlite3.Connection, sids: dict[str, int], ids: set[str], at_ms: int
) -> dict[str, tuple[int, int, str]]:
    by_sid = {sids[id]: id for id in ids if id in sids}
    rows = db.execute(
        "SELECT sid, from_s, before_s, reason FROM missed "
        "WHERE sid IN (SELECT value FROM json_each(?)) AND at_ms = ? AND reason LIKE 'the schedule was %'",
        (json.dumps(list(by_sid)), at_ms),
    )
    return {by_sid[sid]: (from_s, before_s, reason) for sid, from_s, before_s, reason in rows}
