"""What is recorded about one schedule and one instant, gathered for ``decide.why``."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from tocsin.model.launch import LaunchState, LaunchView
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule
from tocsin.state import views


class Gathered(NamedTuple):
    """In the order of ``decide.why.Facts``, less what the state does not know."""

    launches: list[LaunchView]
    missed_reason: str | None
    in_force: tuple[Any, ...] | None
    first_known_ms: int | None
    deleted_ms: int | None
    due_instant_s: int | None
    due_at_ms: int | None
    absences: list[tuple[int, int]]
    repeatable: frozenset[str]


def gather(db: sqlite3.Connection, schedule_id: str, instant_s: int) -> Gathered:
    """Everything about that instant, in a few look-ups by key."""
    sids = "(SELECT sid FROM schedule WHERE id = :id UNION SELECT sid FROM revision WHERE id = :id)"
    asked = {"id": schedule_id, "s": instant_s, "ms": instant_s * 1000}
    found = db.execute(
        f"SELECT reason FROM missed WHERE sid IN {sids} AND from_s <= :s AND before_s > :s", asked
    ).fetchone()
    due = db.execute(
        "SELECT instant_s, at_ms FROM due JOIN schedule USING (sid) WHERE id = :id", asked
    ).fetchone()
    (first_known_ms,) = db.execute(
        "SELECT min(created_ms) FROM (SELECT created_ms FROM schedule WHERE id = :id "
        "UNION ALL SELECT created_ms FROM revision WHERE id = :id)",
        asked,
    ).fetchone()
    (deleted_ms,) = db.execute(
        "SELECT max(until_ms) FROM revision WHERE id = :id AND ended_by = 'deleted' AND until_ms <= :ms",
        asked,
    ).fetchone()
    absences = db.execute(
        "SELECT since_ms, until_ms FROM absence WHERE until_ms >= :ms LIMIT 3", asked
    ).fetchall()
    launches = _launches(db, schedule_id, instant_s)
    return Gathered(
        launches=launches,
        missed_reason=None if found is None else found[0],
        in_force=_in_force(db, asked),
        first_known_ms=first_known_ms,
        deleted_ms=deleted_ms,
        due_instant_s=None if due is None else due[0],
        due_at_ms=None if due is None else due[1],
        absences=absences,
        repeatable=frozenset(launch.name for launch in launches if _is_repeatable(db, launch)),
    )


def overdue_spec(db: sqlite3.Connection, schedule_id: str, instant_s: int, now_ms: int) -> bytes | None:
    """The schedule as it is kept, if that occurrence, or an attempt of it, is due and has not been started."""
    found = db.execute(
        "SELECT s.spec FROM schedule s JOIN due d USING (sid) WHERE s.id = :id AND d.instant_s = :s AND d.at_ms <= :ms "
        "UNION ALL SELECT s.spec FROM schedule s JOIN launch l USING (sid) WHERE s.id = :id AND l.instant_s = :s "
        f"AND (l.retry_at_ms <= :ms OR l.state = {LaunchState.QUEUED:d}) LIMIT 1",
        {"id": schedule_id, "s": instant_s, "ms": now_ms},
    ).fetchone()
    return None if found is None else found[0]


def _launches(db: sqlite3.Connection, schedule_id: str, instant_s: int) -> list[LaunchView]:
    page = views.launches(
        db, schedule_id=schedule_id, since_ms=instant_s * 1000, until_ms=instant_s * 1000 + 1
    )
    return list(page.items)


def _is_repeatable(db: sqlite3.Connection, launch: LaunchView) -> bool:
    found = db.execute(
        "SELECT spec FROM schedule WHERE id = :id AND version = :version "
        "UNION ALL SELECT spec FROM revision WHERE id = :id AND version = :version LIMIT 1",
        {"id": launch.schedule, "version": launch.version},
    ).fetchone()
    return found is not None and views.decode_spec(found[0]).rule().may_repeat


def _in_force(db: sqlite3.Connection, asked: dict[str, object]) -> tuple[Any, ...] | None:
    """The version that held at the instant: the present one, or the revision that had not ended by then."""
    found = db.execute(
        "SELECT version, enabled, resolved, zone, spec, since_ms, coalesce(note, '') FROM schedule "
        "WHERE id = :id AND since_ms <= :ms UNION ALL "
        "SELECT version, enabled, resolved, zone, spec, since_ms, coalesce(note, '') FROM revision "
        "WHERE id = :id AND since_ms <= :ms AND until_ms > :ms ORDER BY 1 DESC LIMIT 1",
        asked,
    ).fetchone()
    if found is None:
        return None
    version, enabled, resolved, zone, spec, since_ms, note = found
    schedule: Schedule = views.decode_spec(spec)
    return (version, bool(enabled), resolved, zone, encode_rule(schedule.rule()), since_ms, note)
