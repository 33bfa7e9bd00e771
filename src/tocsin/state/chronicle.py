"""Who did what and when: the record, the versions of a schedule, the steps of a launch."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.errors import NotFound
from tocsin.model.history import RecordPage, RecordView, VersionView
from tocsin.model.ids import launch_name, parse_launch_name
from tocsin.model.launch import CLOSED_FROM, LaunchKind, LaunchState, StepView
from tocsin.model.schedule import Schedule
from tocsin.model.token import reaches
from tocsin.state.views import ROWS_LOOKED_AT

_decode = msgspec.msgpack.Decoder(Schedule).decode
_RECORD = (
    "SELECT r.rid, r.at_ms, r.actor, r.act, r.about, r.version, r.note, l.instant_s, l.kind "
    "FROM record r LEFT JOIN launch l ON l.lid = r.lid "
)
_OF_TOKENS = ("token created", "token revoked")


def records(
    db: sqlite3.Connection,
    *,
    about: str | None = None,
    actor: str | None = None,
    within: Sequence[str] = (),
    cursor: str = "",
    limit: int = 100,
) -> RecordPage:
    """The newest first. The creation of a schedule is told from its row when ``about`` asks for it alone."""
    below = int(cursor) if cursor else 1 << 62
    where, values = ["r.rid < ?"], [below]
    if about is not None:
        where.append("r.about = ? AND r.act <> 'created'")
        values.append(about)  # type: ignore[arg-type]  # why: values of SQL are of any type
    if actor is not None:
        where.append("r.actor = ?")
        values.append(actor)  # type: ignore[arg-type]  # why: as above
    rows = db.execute(
        f"{_RECORD} WHERE {' AND '.join(where)} ORDER BY r.rid DESC LIMIT ?", (*values, ROWS_LOOKED_AT + 1)
    ).fetchall()
    items: list[RecordView] = []
    for place, row in enumerate(rows):
        if len(items) == limit or place == ROWS_LOOKED_AT:
            return RecordPage(items, str(rows[place - 1][0]))
        if _is_visible(row[3], row[4], within):
            items.append(_record_view(row))
    if about is not None and len(items) < limit:
        items += _creations(db, about, actor)
    return RecordPage(items, "")


def versions(db: sqlite3.Connection, schedule_id: str) -> list[VersionView]:
    """Every version that is kept, the newest first."""
    rows = db.execute(
        "SELECT version, since_ms, NULL, act, actor, note, NULL, spec FROM schedule WHERE id = :id UNION ALL "
        "SELECT version, since_ms, until_ms, act, actor, note, ended_by, spec FROM revision WHERE id = :id "
        "ORDER BY 1 DESC",
        {"id": schedule_id},
    ).fetchall()
    if not rows:
        raise NotFound(
            f"there is no schedule {schedule_id!r}, and no record that there was",
            hint="'tocsin list' shows all",
        )
    return [
        VersionView(
            version=version,
            since=_moment(since_ms),
            until=None if until_ms is None else _moment(until_ms),
            act=act,
            actor=actor,
            note=note or "",
            ended_by=ended_by or "",
            schedule=_decode(spec),
        )
        for version, since_ms, until_ms, act, actor, note, ended_by, spec in rows
    ]


def steps(db: sqlite3.Connection, name: str) -> list[StepView]:
    """All that is recorded about a launch, in the order of time."""
    parts = parse_launch_name(name)
    found = db.execute(
        "SELECT lid, state, attempt, coalesce(planned_ms, instant_s * 1000), asked_ms, started_ms, attempt_ms, "
        "accepted_ms, ended_ms, retry_at_ms, exit_code, coalesce(reason, '') FROM launch "
        "WHERE instant_s = ? AND kind = ? AND sid IN "
        "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)",
        (parts.instant_s, int(parts.manual), parts.schedule, parts.schedule),
    ).fetchone()
    if found is None:
        raise NotFound(f"there is no launch {name!r}", hint="'tocsin launches' lists them")
    (
        lid,
        state,
        attempt,
        planned_ms,
        _,
        started_ms,
        attempt_ms,
        accepted_ms,
        ended_ms,
        retry_ms,
        code,
        reason,
    ) = found
    told: list[tuple[int, int, StepView]] = []

    def tell(
        at_ms: int | None, order: int, step: str, attempt: int | None = None, note: str = "", actor: str = ""
    ) -> None:
        if at_ms is not None:
            view = StepView(at=_moment(at_ms), step=step, attempt=attempt, note=note, actor=actor)
            told.append((at_ms, order, view))

    if not parts.manual:
        tell(planned_ms, 0, "planned")
    acts = db.execute("SELECT at_ms, act, actor, note FROM record WHERE lid = ? ORDER BY rid", (lid,))
    for at_ms, act, actor, note in acts:
        tell(at_ms, 1, act, note=note, actor=actor)
    former = db.execute(
        "SELECT attempt, started_ms, ended_ms, exit_code, reason FROM attempt WHERE lid = ? ORDER BY attempt",
        (lid,),
    )
    for number, began_ms, over_ms, exit_code, why in former:
        tell(began_ms, 10 * number, "started", number)
        tell(over_ms, 10 * number + 2, "attempt ended", number, _with_code(why, exit_code))
    if attempt and state != LaunchState.RETRYING:
        tell(attempt_ms or started_ms, 10 * attempt, "started", attempt)
        tell(accepted_ms, 10 * attempt + 1, "accepted by its target", attempt)
    if state == LaunchState.RETRYING:
        tell(retry_ms, 10 * attempt + 5, "next attempt planned", attempt + 1)
    if state >= CLOSED_FROM:
        ended = LaunchState(state).name.lower()
        tell(ended_ms, 10 * attempt + 3, ended, attempt or None, _with_code(reason, code))
    return [view for *_, view in sorted(told, key=lambda step: step[:2])]


def _with_code(reason: str, exit_code: int | None) -> str:
    return reason or ("" if exit_code is None else f"exit status {exit_code}")


def _creations(db: sqlite3.Connection, about: str, actor: str | None) -> list[RecordView]:
    """From the versions themselves: a creation is the first version after nothing."""
    rows = db.execute(
        "SELECT version, since_ms, actor FROM (SELECT version, since_ms, actor, act FROM schedule WHERE id = :id "
        "UNION ALL SELECT version, since_ms, actor, act FROM revision WHERE id = :id) "
        "WHERE act = 'created' AND (:actor IS NULL OR actor = :actor) ORDER BY version DESC",
        {"id": about, "actor": actor},
    )
    return [
        RecordView(
            number=0,
            at=_moment(since_ms),
            actor=who,
            act="created",
            about=about,
            version=version,
            launch="",
            note="",
        )
        for version, since_ms, who in rows
    ]


def _is_visible(act: str, about: str, within: Sequence[str]) -> bool:
    return not within or (act not in _OF_TOKENS and reaches(within, about))


def _record_view(row: Sequence[Any]) -> RecordView:
    rid, at_ms, actor, act, about, version, note, instant_s, kind = row
    launch = "" if instant_s is None else launch_name(about, instant_s, kind == LaunchKind.MANUAL)
    return RecordView(
        number=rid,
        at=_moment(at_ms),
        actor=actor,
        act=act,
        about=about,
        version=version,
        launch=launch,
        note=note,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
