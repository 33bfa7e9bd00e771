"""What is recorded about a stretch of a schedule's past, gathered for ``decide.backfill``."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from typing import Any

from tocsin.errors import NotFound
from tocsin.model.launch import RECORD_LOST, LaunchKind, LaunchState
from tocsin.state import queries
from tocsin.state.store import CLOCKS_APART_MS
from tocsin.state.tables import was_never_called

FOREVER_MS = 1 << 62


def timing(db: sqlite3.Connection, schedule_id: str) -> tuple[str, str, bytes | None]:
    """Settled text, zone and rule: what ``decide.timeline.plan`` takes."""
    found: tuple[str, str, bytes | None] | None = db.execute(
        "SELECT resolved, zone, rule FROM schedule WHERE id = ?", (schedule_id,)
    ).fetchone()
    if found is None:
        raise NotFound(f"there is no schedule {schedule_id!r}", hint="'tocsin list' shows all")
    return found


def known(
    db: sqlite3.Connection, schedule_id: str, from_s: int, until_s: int, recorded_since_s: int, now_s: int
) -> tuple[Any, ...]:
    """In the order of ``decide.backfill.Known``."""
    asked = {"id": schedule_id, "from": from_s, "until": until_s}
    sids = "(SELECT sid FROM schedule WHERE id = :id UNION SELECT sid FROM revision WHERE id = :id)"
    launches = db.execute(
        f"SELECT instant_s, state, {was_never_called('launch')}, reason, doubt FROM launch WHERE sid IN {sids} "
        f"AND kind = {LaunchKind.SCHEDULED:d} AND instant_s >= :from AND instant_s < :until",
        asked,
    )
    states = {instant_s: _told(*facts) for instant_s, *facts in launches}
    missed = db.execute(
        f"SELECT from_s, before_s FROM missed WHERE sid IN {sids} AND before_s > :from AND from_s < :until "
        f"AND reason NOT LIKE '{RECORD_LOST}%'",
        asked,
    ).fetchall()
    versions = db.execute(
        "SELECT since_ms, until_ms, enabled, created_ms FROM revision WHERE id = :id UNION ALL "
        f"SELECT since_ms, {FOREVER_MS}, enabled, created_ms FROM schedule WHERE id = :id ORDER BY 1",
        asked,
    ).fetchall()
    first_known_ms = min((created_ms for *_, created_ms in versions), default=FOREVER_MS)
    due = db.execute("SELECT instant_s FROM due JOIN schedule USING (sid) WHERE id = :id", asked).fetchone()
    forgotten_s = queries.forgotten_of(db, schedule_id, now_s).upto_s
    # Of an id that was deleted and forgotten as a whole nothing is left but the age of all that is kept.
    forgotten_s = max(forgotten_s, recorded_since_s - 1)
    due_s = None if due is None else due[0]
    lost_ms = lost_until_ms(db, now_s * 1000)
    return states, missed, _idle(versions), first_known_ms, forgotten_s, due_s, lost_ms


def lost_until_ms(db: sqlite3.Connection, now_ms: int) -> int:
    """What was planned before this moment may have been launched in a time whose record was lost. 0: none was lost.

    If the end of a loss is ahead of now, the clock has been put back since, and the moment to which it was put back
    counts. If time has passed that end all the same, the end counts: the clock may have been put back wrongly.
    """
    keys = "'doubtful_until_ms', 'lost_until_ms', 'lost_ahead_from_ms', 'lost_ahead_until_ms'"
    found: dict[str, int] = dict(db.execute(f"SELECT key, value FROM meta WHERE key IN ({keys})"))
    latest_ms = found["lost_until_ms"] if found["lost_until_ms"] <= now_ms + CLOCKS_APART_MS else 0
    ahead_ms = min(found["lost_ahead_until_ms"], now_ms) if found["lost_ahead_from_ms"] <= now_ms else 0
    return max(found["doubtful_until_ms"], latest_ms, ahead_ms)


def _told(state: int, never_started: bool, reason: str | None, doubt: int | None) -> str:
    if doubt is not None and state in (LaunchState.SKIPPED, LaunchState.CANCELLED):
        return "in_doubt"
    if state == LaunchState.SKIPPED and (reason or "").startswith(RECORD_LOST):
        return "unrecorded"
    if state == LaunchState.CANCELLED and never_started:
        return "not started"
    return LaunchState(state).name.lower()


def _idle(versions: list[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    """When it was paused, and the gaps between a deletion and the next creation."""
    found = [(since_ms, until_ms) for since_ms, until_ms, enabled, _ in versions if not enabled]
    for (_, ended_ms, *_), (began_ms, *_, created_ms) in pairwise(versions):
        if began_ms > ended_ms and began_ms == created_ms:
            found.append((ended_ms, began_ms))
    return found
