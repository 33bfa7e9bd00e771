"""Launches in the state ``queued``, read in portions: of each schedule the one that is its next to start.

A schedule may have thousands of them, and thousands of schedules may have some. The index ``launch_queued`` is sorted
by schedule and then by turn, so the next one of a schedule is found without a look at those behind it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.state.queries import Page, read_page

_IS_QUEUED = f"state = {LaunchState.QUEUED:d}"


class QueuedHead(NamedTuple):
    """The queued launch that is the next one of its schedule. Launches that were asked for after the fact come last."""

    sid: int
    lid: int
    version: int
    """The version of the schedule that the launch has."""
    instant_s: int
    attempt: int
    is_started: int
    """A start of it is recorded. Without one it may still have been called, in a record that was lost."""
    asked_ms: int | None
    id: str | None
    """None: the schedule was deleted."""
    resolved: str
    zone: str
    rule: bytes | None
    is_enabled: int
    size: int
    """Bytes of the schedule."""
    is_open: int
    """Another launch of the schedule is under way, or waits for an attempt."""
    is_held: int
    """A launch of the schedule is in doubt and keeps its place."""

    @property
    def is_next(self) -> bool:
        """False: it waits for something of its own schedule."""
        return not self.is_open and self.id is not None and (self.asked_ms is None or bool(self.is_enabled))


_HEADS = (
    "SELECT q.sid, q.lid, q.version, q.instant_s, q.attempt, q.started_ms IS NOT NULL, q.asked_ms, "
    "s.id, s.resolved, s.zone, s.rule, s.enabled, length(s.spec), "
    "EXISTS (SELECT 1 FROM launch o INDEXED BY launch_open WHERE o.sid = w.sid "
    f"AND o.state < {CLOSED_FROM} AND o.state < {LaunchState.QUEUED:d}), "
    "EXISTS (SELECT 1 FROM launch h INDEXED BY launch_held WHERE h.sid = w.sid AND h.held_ms > :now "
    f"AND h.state >= {CLOSED_FROM}) "
    "FROM walk w CROSS JOIN launch q ON q.lid = (SELECT f.lid FROM launch f INDEXED BY launch_queued "
    f"WHERE f.{_IS_QUEUED} AND f.sid = w.sid ORDER BY f.asked_ms IS NOT NULL, f.instant_s LIMIT 1) "
    "LEFT JOIN schedule s ON s.sid = w.sid"
)


_BEHIND = f"SELECT min(q.sid) FROM launch q INDEXED BY launch_queued WHERE q.{_IS_QUEUED} AND q.sid > "
_WALK = (
    f"WITH RECURSIVE walk (sid) AS (SELECT ({_BEHIND} :after) UNION ALL SELECT ({_BEHIND} walk.sid) FROM walk "
    f"WHERE walk.sid IS NOT NULL LIMIT :limit) {_HEADS}"
)


def heads(db: sqlite3.Connection, after_sid: int, limit: int, now_ms: int) -> list[QueuedHead]:
    """The heads of the schedules behind this one, in the order of their numbers. Fewer than ``limit``: there are no
    more."""
    found = db.execute(_WALK, {"after": after_sid, "limit": limit, "now": now_ms})
    return list(map(QueuedHead._make, found))


def heads_behind(db: sqlite3.Connection, lids: Sequence[int], now_ms: int) -> list[QueuedHead]:
    """The heads of the schedules that these launches belong to."""
    found = db.execute(
        "WITH walk (sid) AS MATERIALIZED (SELECT DISTINCT l.sid FROM json_each(:lids) j "
        f"CROSS JOIN launch l ON l.lid = j.value) {_HEADS}",
        {"lids": json.dumps(lids), "now": now_ms},
    )
    return list(map(QueuedHead._make, found))


def specs(db: sqlite3.Connection, lids: Sequence[int], bytes_max: int) -> Page:
    """The schedules of these launches (number, schedule), each in the version that its launch has, in that order."""
    found = db.execute(
        "SELECT l.lid, coalesce(s.spec, r.spec) FROM json_each(?) j CROSS JOIN launch l ON l.lid = j.value "
        "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
        "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version",
        (json.dumps(lids),),
    )
    return read_page(found, len(lids) + 1, bytes_max)


def orphans(db: sqlite3.Connection, sids: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """The queued launches of these schedules, which were deleted, with their attempts."""
    return db.execute(
        "SELECT q.lid, q.attempt FROM json_each(?) j CROSS JOIN launch q INDEXED BY launch_queued "
        f"ON q.sid = j.value WHERE q.{_IS_QUEUED} LIMIT ?",
        (json.dumps(sids), limit),
    ).fetchall()


def backfills_waiting(db: sqlite3.Connection) -> int:
    """How many launches that were asked for after the fact wait in line."""
    (found,) = db.execute(
        f"SELECT count(*) FROM launch INDEXED BY launch_queued WHERE {_IS_QUEUED} AND asked_ms IS NOT NULL"
    ).fetchone()
    return int(found)
