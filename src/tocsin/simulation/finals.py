"""What the record says when all is over, read from each replica's state."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.simulation.history import Final, LaunchRow, MissedRow, VersionRow
from tocsin.state.store import Store
from tocsin.state.tables import started_at
from tocsin.state.views import decode_spec


def final(store: Store) -> Final:
    """All that checkers want to know of it."""
    db, meta = store.db, store.meta
    if db.in_transaction:  # an entry of its own that is not acknowledged is no part of the record
        db.execute("ROLLBACK")
    ids = dict(db.execute("SELECT sid, id FROM revision"))
    ids.update(db.execute("SELECT sid, id FROM schedule"))
    return Final(
        seq=meta.seq,
        term=meta.term,
        leader=meta.leader,
        versions=_versions(db),
        launches=_launches(db, ids),
        missed=[
            MissedRow(ids[sid], version, from_s, before_s, at_ms, reason)
            for sid, from_s, before_s, version, at_ms, reason in db.execute("SELECT * FROM missed")
        ],
        absences=list(db.execute("SELECT since_ms, until_ms FROM absence ORDER BY until_ms")),
        due={
            ids[sid]: (instant_s, at_ms)
            for at_ms, sid, instant_s in db.execute("SELECT at_ms, sid, instant_s FROM due")
        },
    )


def _versions(db: sqlite3.Connection) -> list[VersionRow]:
    found = [
        VersionRow(id, version, bool(enabled), resolved, decode_spec(spec), since_ms, until_ms, ended_by)
        for id, version, enabled, resolved, spec, since_ms, until_ms, ended_by in db.execute(
            "SELECT id, version, enabled, resolved, spec, since_ms, until_ms, ended_by FROM revision"
        )
    ]
    found += [
        VersionRow(id, version, bool(enabled), resolved, decode_spec(spec), since_ms, None)
        for id, version, enabled, resolved, spec, since_ms in db.execute(
            "SELECT id, version, enabled, resolved, spec, since_ms FROM schedule"
        )
    ]
    return sorted(found, key=lambda row: (row.id, row.since_ms, row.version))


def note_deleted(db: sqlite3.Connection) -> None:
    """From now on this connection keeps what is deleted from its history, for ``deleted`` to read."""
    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'deleted_launch'").fetchone():
        return
    for table in ("launch", "attempt"):
        columns = [name for _, name, *_ in db.execute(f"PRAGMA main.table_info({table})")]
        listed = ", ".join(f"OLD.{name}" for name in columns)
        db.execute(f"CREATE TEMP TABLE deleted_{table} AS SELECT * FROM main.{table} WHERE 0")
        db.execute(
            f"CREATE TEMP TRIGGER note_{table} AFTER DELETE ON main.{table} "
            f"BEGIN INSERT INTO deleted_{table} VALUES ({listed}); END"
        )


def deleted(db: sqlite3.Connection) -> list[LaunchRow]:
    """Launches that were deleted since the last look, as they were."""
    if db.execute("SELECT 1 FROM deleted_launch LIMIT 1").fetchone() is None:
        return []
    ids = dict(db.execute("SELECT sid, id FROM revision"))
    ids.update(db.execute("SELECT sid, id FROM schedule"))
    found = _launches(db, ids, "deleted_")
    db.execute("DELETE FROM deleted_launch")
    db.execute("DELETE FROM deleted_attempt")
    return found


def with_deleted(found: Final, rows: Iterable[LaunchRow]) -> Final:
    """As if nothing had been deleted: every promise holds for what is recorded no more, too."""
    names = {row.name for row in found.launches}
    gone = [row for row in rows if row.name not in names]
    return msgspec.structs.replace(
        found, launches=[*gone, *found.launches], deleted=[row.name for row in gone]
    )


def _launches(db: sqlite3.Connection, ids: dict[int, str], prefix: str = "") -> list[LaunchRow]:
    failed: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for lid, attempt, ended_ms, reason in db.execute(
        f"SELECT lid, attempt, ended_ms, reason FROM {prefix}attempt ORDER BY lid, attempt"
    ):
        failed[lid].append((attempt, ended_ms, reason))
    found = []
    for row in db.execute(
        "SELECT lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, asked_ms, "
        f"{started_at(f'{prefix}launch', f'{prefix}attempt')}, "
        f"ended_ms, cancel, reason, held_ms, doubt FROM {prefix}launch ORDER BY lid"
    ):
        lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, asked_ms, started_ms, *rest = (
            row
        )
        ended_ms, cancel, reason, held_ms, doubt = rest
        is_manual = kind == LaunchKind.MANUAL
        found.append(
            LaunchRow(
                name=launch_name(ids[sid], instant_s, is_manual),
                schedule=ids[sid],
                version=version,
                instant_s=instant_s,
                is_manual=is_manual,
                is_backfill=asked_ms is not None,
                state=LaunchState(state).name.lower(),
                reason=reason or "",
                attempt=attempt,
                term=term,
                planned_ms=planned_ms or instant_s * 1000,
                started_ms=started_ms,
                ended_ms=ended_ms,
                cancel=cancel,
                failed_attempts=tuple(failed[lid]),
                held_ms=held_ms,
                doubt=doubt,
            )
        )
    return found
