"""What the record says when all is over, read from each replica's state."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.simulation.history import Final, LaunchRow, MissedRow, VersionRow
from tocsin.state.store import Store
from tocsin.state.tables import STARTED_AT
from tocsin.state.views import decode_spec


def final(store: Store) -> Final:
    """All that checkers want to know of it."""
    db, meta = store.db, store.meta
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


def _launches(db: sqlite3.Connection, ids: dict[int, str]) -> list[LaunchRow]:
    failed: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for lid, attempt, ended_ms, reason in db.execute(
        "SELECT lid, attempt, ended_ms, reason FROM attempt ORDER BY lid, attempt"
    ):
        failed[lid].append((attempt, ended_ms, reason))
    found = []
    for row in db.execute(
        "SELECT lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, asked_ms, "
        f"{STARTED_AT.format('')}, "
        "ended_ms, cancel, reason, held_ms FROM launch ORDER BY lid"
    ):
        lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, asked_ms, started_ms, *rest = (
            row
        )
        ended_ms, cancel, reason, held_ms = rest
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
            )
        )
    return found
