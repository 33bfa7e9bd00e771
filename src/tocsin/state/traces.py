"""What the state knows of launches and versions that the journal names, and of whoever leads."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from tocsin.model.audit import Force, Started
from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.model.rule import encode_rule
from tocsin.state.views import decode_spec

_STARTED = "l.lid, l.sid, l.instant_s, l.kind, l.attempt, l.started_ms, l.asked_ms"
_SETTLED_SEQ = (
    "CASE WHEN v.resolved LIKE '@every%' THEN (SELECT max(e.seq) FROM record e "
    "WHERE e.about = v.id AND e.version = v.version AND e.act = 'due repaired') END"
)
_OF_THESE = "sid IN (SELECT value FROM json_each(?))"


def known_launches(
    db: sqlite3.Connection, pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Started]:
    """By schedule and instant."""
    rows = db.execute(
        f"SELECT {_STARTED} FROM json_each(?) j CROSS JOIN launch l "
        "ON l.sid = j.value ->> 0 AND l.instant_s = j.value ->> 1 AND l.kind = 0",
        (json.dumps(pairs),),
    ).fetchall()
    return {(found.sid, found.instant_s): found for found in _with_backfills(db, rows)}


def known_lids(db: sqlite3.Connection, lids: Sequence[int]) -> dict[int, Started]:
    rows = db.execute(
        f"SELECT {_STARTED} FROM launch l WHERE lid IN (SELECT value FROM json_each(?))", (json.dumps(lids),)
    ).fetchall()
    return {found.lid: found for found in _with_backfills(db, rows)}


def _with_backfills(db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> list[Started]:
    """With the entries that asked for them. All that one request asked for has the same time: it is looked up once."""
    found = [Started(*row) for row in rows]
    asked: set[tuple[int, int | None]] = {
        (each.sid, each.asked_ms) for each in found if each.asked_ms is not None
    }
    if not asked:
        return found
    ids = known_ids(db, [sid for sid, _ in asked])
    seqs = {pair: _backfill_seq(db, ids.get(pair[0], ""), pair[1]) for pair in asked}
    return [each._replace(asked_seq=seqs.get((each.sid, each.asked_ms))) for each in found]


def _backfill_seq(db: sqlite3.Connection, id: str, asked_ms: int | None) -> int | None:
    found = db.execute(
        "SELECT seq FROM record WHERE about = ? AND act = 'backfilled' AND at_ms = ? ORDER BY rid DESC LIMIT 1",
        (id, asked_ms),
    ).fetchone()
    return None if found is None else int(found[0])


def known_versions(db: sqlite3.Connection, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Force]:
    """By schedule and version; of former ones with the entry that ended them."""
    asked = (json.dumps(pairs),)
    there = db.execute(
        f"SELECT v.sid, v.version, v.id, v.resolved, v.zone, v.rule, {_SETTLED_SEQ} "
        "FROM json_each(?) j CROSS JOIN schedule v ON v.sid = j.value ->> 0 AND v.version = j.value ->> 1",
        asked,
    )
    found = {
        (sid, version): Force(id, resolved, zone, rule, None, settled_seq)
        for sid, version, id, resolved, zone, rule, settled_seq in there
    }
    gone = db.execute(
        "SELECT v.sid, v.version, v.id, v.resolved, v.zone, v.spec, (SELECT min(e.seq) FROM record e "
        "WHERE e.about = v.id AND ((e.version = v.version AND e.act = 'deleted') OR (e.version = v.version + 1 "
        f"AND e.act IN ('created', 'edited', 'paused', 'resumed', 'restored')))), {_SETTLED_SEQ} "
        "FROM json_each(?) j CROSS JOIN revision v ON v.sid = j.value ->> 0 AND v.version = j.value ->> 1",
        asked,
    )
    for sid, version, id, resolved, zone, spec, ended_seq, settled_seq in gone:
        rule = encode_rule(decode_spec(spec).rule())
        found[sid, version] = Force(id, resolved, zone, rule, ended_seq, settled_seq)
    return found


def known_ids(db: sqlite3.Connection, sids: Sequence[int]) -> dict[int, str]:
    asked = json.dumps(sids)
    found = dict(db.execute(f"SELECT sid, id FROM revision WHERE {_OF_THESE}", (asked,)).fetchall())
    return found | dict(db.execute(f"SELECT sid, id FROM schedule WHERE {_OF_THESE}", (asked,)).fetchall())


def known_sids(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    asked = json.dumps(ids)
    there = "SELECT id, sid FROM {} WHERE id IN (SELECT value FROM json_each(?))"
    found = dict(db.execute(there.format("revision"), (asked,)).fetchall())
    return found | dict(db.execute(there.format("schedule"), (asked,)).fetchall())


def unanswered(db: sqlite3.Connection, limit: int) -> int:
    """How many launches were handed over and have no answer yet, counted no further than ``limit``."""
    (found,) = db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM launch INDEXED BY launch_open WHERE state < {CLOSED_FROM} "
        f"AND state = {LaunchState.STARTED:d} LIMIT ?)",
        (limit,),
    ).fetchone()
    return int(found)


def in_office_since_ms(db: sqlite3.Connection, term: int) -> int | None:
    found = db.execute("SELECT since_ms FROM office WHERE term = ?", (term,)).fetchone()
    return None if found is None else int(found[0])


def spec_of(db: sqlite3.Connection, id: str) -> bytes:
    """The newest version of a schedule as it was written. Empty: there is none."""
    found = db.execute(
        "SELECT spec FROM schedule WHERE id = :id UNION ALL SELECT spec FROM revision WHERE id = :id LIMIT 1",
        {"id": id},
    ).fetchone()
    return b"" if found is None else bytes(found[0])


def next_lid(db: sqlite3.Connection) -> int:
    (found,) = db.execute("SELECT value FROM meta WHERE key = 'next_lid'").fetchone()
    return int(found)
