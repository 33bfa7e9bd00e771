"""Who did what and when: the record, and the versions of a schedule."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.errors import NotFound
from tocsin.model.history import RecordPage, RecordView, VersionView
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.model.schedule import Schedule
from tocsin.model.token import reaches
from tocsin.state.views import ROWS_LOOKED_AT

_decode = msgspec.msgpack.Decoder(Schedule).decode
_RECORD = (
    "SELECT r.rid, r.at_ms, r.actor, r.act, r.about, r.version, r.note, l.instant_s, l.kind "
    "FROM record r LEFT JOIN launch l ON l.lid = r.lid "
)
VERSIONS_SHOWN = 200
_OF_TOKENS = ("token created", "token revoked", "session opened", "session closed")


def records(
    db: sqlite3.Connection,
    *,
    about: str | None = None,
    actor: str | None = None,
    within: Sequence[str] = (),
    cursor: str = "",
    limit: int = 100,
) -> RecordPage:
    """The newest first."""
    below = int(cursor) if cursor else 1 << 62
    where, values = ["r.rid < ?"], [below]
    if about is not None:
        where.append("r.about = ?")
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
    """The versions that are kept, the newest first."""
    rows = db.execute(
        "SELECT version, since_ms, NULL, act, actor, note, NULL, spec FROM schedule WHERE id = :id UNION ALL "
        "SELECT version, since_ms, until_ms, act, actor, note, ended_by, spec FROM revision WHERE id = :id "
        "ORDER BY 1 DESC LIMIT :most",
        {"id": schedule_id, "most": VERSIONS_SHOWN},
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


def _creations(db: sqlite3.Connection, about: str, actor: str | None) -> list[RecordView]:
    """From the versions themselves, where the record of it is no longer kept."""
    rows = db.execute(
        "SELECT version, since_ms, actor FROM (SELECT version, since_ms, actor, act FROM schedule WHERE id = :id "
        "UNION ALL SELECT version, since_ms, actor, act FROM revision WHERE id = :id) "
        "v WHERE act = 'created' AND (:actor IS NULL OR actor = :actor) AND NOT EXISTS "
        "(SELECT 1 FROM record r WHERE r.about = :id AND r.act = 'created' AND r.version = v.version) "
        "ORDER BY version DESC",
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
