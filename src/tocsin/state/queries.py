"""What the leader asks for, each in a statement or two, whatever the number of rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tocsin.model.launch import CLOSED_FROM, LaunchState

_OPEN = f"state < {CLOSED_FROM}"
SCHEDULES_LOOKED_AT = 20_000
"""How many schedules one look for surplus history takes in: the next look goes on from there."""


def due(db: sqlite3.Connection, now_ms: int, limit: int) -> list[tuple[object, ...]]:
    """Due rows, the earliest first, in the column order of ``decide.due.DueRow``."""
    return db.execute(
        "SELECT d.at_ms, d.sid, d.instant_s, s.id, s.version, s.resolved, s.zone, s.rule, s.spec "
        "FROM due d JOIN schedule s ON s.sid = d.sid WHERE d.at_ms <= ? ORDER BY d.at_ms, d.sid LIMIT ?",
        (now_ms, limit),
    ).fetchall()


def next_wake_ms(db: sqlite3.Connection) -> int | None:
    """The earliest moment at which something is to be looked at."""
    (first_due,) = db.execute("SELECT min(at_ms) FROM due").fetchone()
    (first_retry,) = db.execute(
        "SELECT min(retry_at_ms) FROM launch WHERE retry_at_ms IS NOT NULL"
    ).fetchone()
    moments = [moment for moment in (first_due, first_retry) if moment is not None]
    return min(moments, default=None)


def open_launches(db: sqlite3.Connection, sids: Iterable[int]) -> list[tuple[int, int, int, int, int]]:
    """Open launches of these schedules: (sid, lid, instant, kind, state)."""
    return db.execute(
        "SELECT sid, lid, instant_s, kind, state FROM launch INDEXED BY launch_open "
        f"WHERE sid IN (SELECT value FROM json_each(?)) AND {_OPEN}",
        (json.dumps(list(sids)),),
    ).fetchall()


def queued_ready(db: sqlite3.Connection, limit: int) -> list[tuple[object, ...]]:
    """The oldest queued launch of each schedule that has nothing else open (``decide.waiting.QueuedRow``)."""
    return db.execute(
        "SELECT min(q.lid), q.instant_s, s.id, s.resolved, s.zone, s.rule "
        "FROM launch q INDEXED BY launch_queued JOIN schedule s ON s.sid = q.sid "
        f"WHERE q.state = {LaunchState.QUEUED:d} AND NOT EXISTS (SELECT 1 FROM launch o INDEXED BY launch_open "
        f"WHERE o.sid = q.sid AND o.{_OPEN} AND o.state <> {LaunchState.QUEUED:d}) GROUP BY q.sid LIMIT ?",
        (limit,),
    ).fetchall()


def queued_orphans(db: sqlite3.Connection, limit: int) -> list[int]:
    """Queued launches whose schedule is gone: they will never start."""
    found = db.execute(
        "SELECT lid FROM launch INDEXED BY launch_queued "
        f"WHERE state = {LaunchState.QUEUED:d} AND sid NOT IN (SELECT sid FROM schedule) LIMIT ?",
        (limit,),
    )
    return [lid for (lid,) in found]


def retries_due(db: sqlite3.Connection, now_ms: int, limit: int) -> list[tuple[int, int]]:
    """Launches whose next attempt is due (``decide.waiting.RetryRow``)."""
    return db.execute(
        "SELECT lid, attempt FROM launch WHERE retry_at_ms IS NOT NULL AND retry_at_ms <= ? "
        "ORDER BY retry_at_ms LIMIT ?",
        (now_ms, limit),
    ).fetchall()


class OrderRow(NamedTuple):
    """All that the launcher needs to hand a launch to its target."""

    lid: int
    id: str
    instant_s: int
    kind: int
    state: int
    attempt: int
    started_ms: int
    cancel: str | None
    spec: bytes


_ORDER = (
    "SELECT l.lid, coalesce(s.id, r.id), l.instant_s, l.kind, l.state, l.attempt, l.started_ms, l.cancel, "
    "coalesce(s.spec, r.spec) FROM launch l "
    "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
    "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version "
)


def orders(db: sqlite3.Connection, lids: Sequence[int]) -> list[OrderRow]:
    """These launches, each with the version of its schedule that it was started under."""
    found = db.execute(
        _ORDER + "WHERE l.lid IN (SELECT value FROM json_each(?)) ORDER BY l.lid", (json.dumps(lids),)
    )
    return [OrderRow(*row) for row in found]


def handed_over(db: sqlite3.Connection) -> list[OrderRow]:
    """Launches that a former leader may have handed to their target: the ones to be concluded."""
    found = db.execute(
        _ORDER
        + f"WHERE l.{_OPEN} AND l.state IN ({LaunchState.STARTED:d}, {LaunchState.RUNNING:d}) ORDER BY l.lid"
    )
    return [OrderRow(*row) for row in found]


def launched_upto_s(db: sqlite3.Connection, schedule_id: str) -> int:
    """The newest instant of this id that was decided: nothing up to it may be decided again. -1: none."""
    known = db.execute(
        "SELECT sid FROM schedule WHERE id = :id UNION ALL SELECT sid FROM revision WHERE id = :id LIMIT 1",
        {"id": schedule_id},
    ).fetchone()
    if known is None:
        return -1
    (launched,) = db.execute("SELECT max(instant_s) FROM launch WHERE sid = ? AND kind = 0", known).fetchone()
    (given_up,) = db.execute("SELECT max(before_s) - 1 FROM missed WHERE sid = ?", known).fetchone()
    return max(launched if launched is not None else -1, given_up if given_up is not None else -1)


def forgettable(db: sqlite3.Connection, before_ms: int, keep_total: int, limit: int) -> list[int]:
    """Closed launches that ended before a moment, or that are more than ``keep_total`` back."""
    (newest,) = db.execute("SELECT max(lid) FROM launch").fetchone()
    too_many = (newest or 0) - keep_total
    found = db.execute(
        f"SELECT lid FROM launch WHERE state >= {CLOSED_FROM} AND (lid <= ? OR ended_ms < ?) "
        "AND lid <= (SELECT coalesce(max(lid), 0) FROM (SELECT lid FROM launch ORDER BY lid LIMIT ?)) LIMIT ?",
        (too_many, before_ms, limit * 4, limit),
    )
    return [lid for (lid,) in found]


def surplus(db: sqlite3.Connection, after_sid: int, keep_each: int, limit: int) -> tuple[list[int], int]:
    """Closed launches beyond the newest ``keep_each`` of their schedule, for the next so many schedules; and where
    to go on looking the next time (0: from the beginning)."""
    looked_at = db.execute(
        "SELECT sid, count(*) FROM launch INDEXED BY launch_by_name WHERE sid > ? GROUP BY sid LIMIT ?",
        (after_sid, SCHEDULES_LOOKED_AT),
    ).fetchall()
    found: list[int] = []
    for sid, count in looked_at:
        if count > keep_each:
            rows = db.execute(
                "SELECT lid, state FROM launch WHERE sid = ? ORDER BY instant_s DESC LIMIT ? OFFSET ?",
                (sid, limit, keep_each),
            )
            found.extend(lid for lid, state in rows if state >= CLOSED_FROM)
        if len(found) >= limit:
            return found[:limit], sid - 1
    return found, looked_at[-1][0] if len(looked_at) == SCHEDULES_LOOKED_AT else 0
