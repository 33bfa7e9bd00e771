"""What people ask for: schedules, launches, counts. Each function takes a reader's connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from tocsin.errors import NotFound
from tocsin.model.ids import launch_name, parse_launch_name
from tocsin.model.launch import CLOSED_FROM, AttemptView, LaunchKind, LaunchState, LaunchView, shown_reason
from tocsin.model.schedule import Schedule, ScheduleView
from tocsin.model.target import kind_of
from tocsin.model.token import reaches
from tocsin.state.counts import counts as counts
from tocsin.state.tables import started_at

decode_spec = msgspec.msgpack.Decoder(Schedule).decode

_SCHEDULE = (
    "SELECT s.id, s.version, s.resolved, s.created_ms, s.since_ms, s.spec, s.note, d.instant_s "
    "FROM schedule s LEFT JOIN due d ON d.sid = s.sid "
)
_LAUNCH = (
    "SELECT l.lid, coalesce(s.id, (SELECT r.id FROM revision r WHERE r.sid = l.sid LIMIT 1), '?'), l.version, "
    "l.instant_s, l.kind, l.state, l.attempt, l.term, coalesce(o.replica, ''), coalesce(l.asked_ms, l.planned_ms), "
    f"l.asked_ms, {started_at('l')}, l.ended_ms, l.exit_code, l.retry_at_ms, l.cancel, l.reason "
    "FROM launch l {index}"
    "LEFT JOIN schedule s ON s.sid = l.sid LEFT JOIN office o ON o.term = l.term "
)


ROWS_LOOKED_AT = 5_000
"""So many rows are looked at for one page of a filtered list: nobody else has to wait for longer than that takes."""
_TROUBLE = {"failed", "in_doubt"}


class Page(NamedTuple):
    """A part of a list, and where the next part begins; empty: there is none."""

    items: list[Any]
    cursor: str


def schedule(db: sqlite3.Connection, schedule_id: str) -> ScheduleView:
    found = db.execute(_SCHEDULE + "WHERE s.id = ?", (schedule_id,)).fetchone()
    if found is None:
        raise NotFound(f"there is no schedule {schedule_id!r}", hint="'tocsin list' shows all")
    return schedule_view(found)


def schedule_at(db: sqlite3.Connection, schedule_id: str, version: int) -> ScheduleView:
    """As it was at that version, also when somebody has changed or deleted it since; then nothing is next."""
    found = db.execute(_SCHEDULE + "WHERE s.id = ? AND s.version = ?", (schedule_id, version)).fetchone()
    if found is None:
        found = db.execute(
            "SELECT id, version, resolved, created_ms, since_ms, spec, note, NULL FROM revision "
            "WHERE id = ? AND version = ?",
            (schedule_id, version),
        ).fetchone()
    return schedule(db, schedule_id) if found is None else schedule_view(found)


def schedules(
    db: sqlite3.Connection,
    *,
    prefix: str = "",
    enabled: bool | None = None,
    labels: dict[str, str] | None = None,
    target: str | None = None,
    within: Sequence[str] = (),
    cursor: str = "",
    limit: int = 100,
) -> Page:
    """In the order of their ids. The cursor is the last id seen; a page may hold less than the limit, or nothing,
    when much was looked at and little of it was wanted. ``within``: only what these prefixes reach."""
    looked_at, last = 0, ""
    items: list[ScheduleView] = []
    for begin, is_exact in reached(prefix, within):
        # With two bounds below, the index would be entered at the one and walked through up to the other.
        bound = "s.id > ?" if cursor >= begin else "s.id >= ?"
        rows = db.execute(
            f"{_SCHEDULE} WHERE {bound} AND (? IS NULL OR s.enabled = ?) ORDER BY s.id",
            (max(cursor, begin), enabled, enabled),
        )
        for row in rows:
            if row[0] != begin if is_exact else not row[0].startswith(begin):
                break
            if len(items) == limit or looked_at == ROWS_LOOKED_AT:
                return Page(items, last)
            looked_at, last = looked_at + 1, row[0]
            view = schedule_view(row)
            if _is_wanted(view, labels, target):
                items.append(view)
    return Page(items, "")


def reached(prefix: str, within: Sequence[str]) -> list[tuple[str, bool]]:
    """The ranges of ids to look through, in their order: what they begin with, or (True) the id itself."""
    if not within:
        return [(prefix, False)]
    roots = sorted({root.removesuffix("/") for root in within})
    found: list[tuple[str, bool]] = []
    for root in roots:
        if any(root.startswith(other + "/") for other in roots):
            continue  # another one reaches it already
        below = root + "/"
        if root.startswith(prefix):
            found.append((root, True))
        if below.startswith(prefix) or prefix.startswith(below):
            found.append((max(below, prefix, key=len), False))
    return sorted(found)


def _is_wanted(view: ScheduleView, labels: dict[str, str] | None, target: str | None) -> bool:
    if target is not None and kind_of(view.target) != target:
        return False
    return not labels or all(view.labels.get(key) == value for key, value in labels.items())


def definition(view: ScheduleView) -> Schedule:
    """The schedule as it was written, without what was added when it was read."""
    return Schedule(**{name: getattr(view, name) for name in Schedule.__struct_fields__})


def launch(db: sqlite3.Connection, name: str) -> LaunchView:
    parts = parse_launch_name(name)
    kind = LaunchKind.MANUAL if parts.manual else LaunchKind.SCHEDULED
    found = db.execute(
        _LAUNCH.format(index="") + "WHERE l.instant_s = ? AND l.kind = ? AND l.sid IN "
        "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)",
        (parts.instant_s, int(kind), parts.schedule, parts.schedule),
    ).fetchone()
    if found is None:
        raise NotFound(f"there is no launch {name!r}", hint="'tocsin launches' lists them")
    return _launch_view(found)


def launch_by_number(db: sqlite3.Connection, lid: int) -> LaunchView:
    """The launch that a run-now brought about."""
    found = db.execute(_LAUNCH.format(index="") + "WHERE l.lid = ?", (lid,)).fetchone()
    if found is None:
        raise NotFound(f"launch number {lid} is no longer kept")
    return _launch_view(found)


def attempts(db: sqlite3.Connection, name: str) -> list[AttemptView]:
    """The attempts of a launch that were not its last."""
    parts = parse_launch_name(name)
    rows = db.execute(
        "SELECT a.attempt, a.started_ms, a.ended_ms, a.reason, a.exit_code FROM attempt a JOIN launch l USING (lid) "
        "WHERE l.instant_s = ? AND l.kind = ? AND l.sid IN "
        "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?) ORDER BY a.attempt",
        (parts.instant_s, int(parts.manual), parts.schedule, parts.schedule),
    )
    return [
        AttemptView(
            attempt=attempt,
            started_at=_moment_or_none(started_ms),
            ended_at=_moment(ended_ms),
            reason=reason,
            exit_code=exit_code,
        )
        for attempt, started_ms, ended_ms, reason, exit_code in rows
    ]


def target_kind(db: sqlite3.Connection, name: str) -> str:
    """The kind of target that a launch went to."""
    view = launch(db, name)
    found = db.execute(
        "SELECT spec FROM schedule WHERE id = :id AND version = :version "
        "UNION ALL SELECT spec FROM revision WHERE id = :id AND version = :version",
        {"id": view.schedule, "version": view.version},
    ).fetchone()
    return "" if found is None else kind_of(decode_spec(found[0]).target)


def launches(
    db: sqlite3.Connection,
    *,
    schedule_id: str | None = None,
    states: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    within: Sequence[str] = (),
    cursor: str = "",
    limit: int = 100,
) -> Page:
    """The newest first. The cursor is the number of the last one seen. ``within``: only what these prefixes reach;
    a page may then hold less than the limit."""
    where = ["l.lid < ?"]
    values: list[object] = [int(cursor) if cursor else 1 << 62]
    if schedule_id is not None:
        where.append(
            "l.sid IN (SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)"
        )
        values += [schedule_id, schedule_id]
    if states:
        numbers = sorted(int(LaunchState[state.upper()]) for state in states)
        where.append(f"+l.state IN ({', '.join(map(str, numbers))})")
        # What follows from the line above, so that SQLite sees that a partial index will do. The plus keeps it
        # from putting the one into the other.
        if numbers[-1] < CLOSED_FROM:
            where.append(f"l.state < {CLOSED_FROM}")
        elif set(states) <= _TROUBLE:
            where.append("l.state IN (11, 14)")
    if since_ms is not None:
        where.append("l.instant_s * 1000 >= ?")
        values.append(since_ms)
    if until_ms is not None:
        where.append("l.instant_s * 1000 < ?")
        values.append(until_ms)
    query = _LAUNCH.format(index=_best_index(schedule_id, states)) + "WHERE " + " AND ".join(where)
    looked_at_max = ROWS_LOOKED_AT if within else limit
    rows = db.execute(query + " ORDER BY l.lid DESC LIMIT ?", (*values, looked_at_max + 1)).fetchall()
    items: list[LaunchView] = []
    for place, row in enumerate(rows):
        if len(items) == limit or place == looked_at_max:
            return Page(items, str(rows[place - 1][0]))
        if reaches(within, row[1]):
            items.append(_launch_view(row))
    return Page(items, "")


def _best_index(schedule_id: str | None, states: Sequence[str]) -> str:
    """History can be millions of rows; what is rare in it must not be looked for row by row."""
    if schedule_id is not None:
        return "INDEXED BY launch_by_name "
    if states and all(LaunchState[state.upper()] < CLOSED_FROM for state in states):
        return "INDEXED BY launch_open "
    if states and set(states) <= _TROUBLE:
        return "INDEXED BY launch_trouble "
    return ""


def schedule_view(row: Sequence[Any]) -> ScheduleView:
    """From the columns of ``_SCHEDULE``."""
    _, version, resolved, created_ms, since_ms, spec, note, instant_s = row
    written = decode_spec(spec)
    return ScheduleView(
        **{name: getattr(written, name) for name in Schedule.__struct_fields__},
        version=version,
        resolved=resolved,
        next=None if instant_s is None else datetime.fromtimestamp(instant_s, UTC),
        created_at=_moment(created_ms),
        updated_at=_moment(since_ms),
        note=note or "",
    )


def _launch_view(row: Sequence[Any]) -> LaunchView:
    (
        _,
        schedule_id,
        version,
        instant_s,
        kind,
        state,
        attempt,
        term,
        replica,
        planned_ms,
        asked_ms,
        started_ms,
        ended_ms,
        exit_code,
        retry_at_ms,
        cancel,
        reason,
    ) = row
    manual = kind == LaunchKind.MANUAL
    planned_ms = instant_s * 1000 if planned_ms is None else planned_ms
    lateness_ms = None if started_ms is None else max(0, started_ms - planned_ms)
    return LaunchView(
        name=launch_name(schedule_id, instant_s, manual),
        schedule=schedule_id,
        scheduled_at=datetime.fromtimestamp(instant_s, UTC),
        state=LaunchState(state).name.lower(),
        reason=shown_reason(state, reason, cancel),
        attempt=attempt,
        term=term,
        replica=replica,
        version=version,
        started_at=_moment_or_none(started_ms),
        ended_at=_moment_or_none(ended_ms),
        exit_code=exit_code,
        lateness_ms=None if manual else lateness_ms,
        retry_at=_moment_or_none(retry_at_ms),
        planned_at=None if manual else _moment(planned_ms),
        backfilled=asked_ms is not None,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _moment_or_none(ms: int | None) -> datetime | None:
    return None if ms is None else _moment(ms)


def all_states() -> Iterable[str]:
    return (state.name.lower() for state in LaunchState)
