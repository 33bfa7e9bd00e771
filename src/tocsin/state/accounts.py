"""What is recorded about the past of many schedules, gathered for ``decide.audit``.

All of one portion is read in one transaction: between two statements the leader may have decided something, and what
has left the one table would not be seen in the other yet.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tocsin.model.audit import Past, Row, Version
from tocsin.model.launch import LaunchKind
from tocsin.model.rule import encode_rule
from tocsin.state.past import lost_until_ms
from tocsin.state.queries import FORGOTTEN_UPTO_S
from tocsin.state.tables import started_at
from tocsin.state.views import decode_spec, reached

FOREVER_MS = 1 << 62
ROWS_AT_ONCE = 20_000
"""So many launches are read for one portion."""
_OF_THESE = "sid IN (SELECT value FROM json_each(?))"


class Portion(NamedTuple):
    """The schedules of one portion, and how far it goes."""

    sids: Sequence[int]
    """All that were looked at."""
    pasts: list[Past]
    """Those that there is something to say of."""
    complete_upto_s: int | None = None
    """There are more launches of the only one than a portion reads: all before this instant are there."""


@contextmanager
def at_one_moment(db: sqlite3.Connection) -> Iterator[None]:
    """Nothing changes within."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("COMMIT")


def sids_after(db: sqlite3.Connection, sid: int, from_ms: int, limit: int) -> list[int]:
    """The next schedules by number, with those that were deleted since."""
    there = db.execute("SELECT sid FROM schedule WHERE sid > ? ORDER BY sid LIMIT ?", (sid, limit)).fetchall()
    upto = there[-1][0] if len(there) == limit else FOREVER_MS
    gone = db.execute(
        "SELECT DISTINCT sid FROM revision WHERE sid > ? AND sid <= ? AND until_ms >= ? ORDER BY sid LIMIT ?",
        (sid, upto, from_ms, limit),
    )
    return sorted({found for (found,) in [*there, *gone]})[:limit]


def sids_by_id(
    db: sqlite3.Connection,
    *,
    prefix: str,
    exactly: str | None,
    within: Sequence[str],
    after: str,
    from_ms: int,
    limit: int,
) -> list[tuple[str, int]]:
    """The next schedules in the order of their ids, with those that were deleted since, each with its number."""
    ranges = [(exactly, True)] if exactly is not None else reached(prefix, within)
    found: dict[str, int] = {}
    for begin, is_exact in ranges:
        end = begin if is_exact else begin + "\U0010ffff"
        asked = {"after": after, "begin": begin, "end": end, "from": from_ms, "limit": limit}
        for table, there in (("schedule", ""), ("revision", "AND until_ms >= :from")):
            rows = db.execute(
                f"SELECT id, sid FROM {table} WHERE id > :after AND id >= :begin AND id <= :end {there} "
                f"GROUP BY id ORDER BY id LIMIT :limit",
                asked,
            )
            found |= dict(rows.fetchall())
        if len(found) >= limit:
            break
    return sorted(found.items())[:limit]


def pasts(
    db: sqlite3.Connection,
    sids: Sequence[int],
    from_s: int,
    to_s: int,
    kept_since_s: int,
    now_s: int,
    is_idle: Callable[[str, str], bool],
) -> Portion:
    """What is recorded of these in ``[from, to)``, in their order: of as many as one portion takes. Left out are those
    that nothing is recorded of and whose text, in its zone, has no instant in that time."""
    launches = db.execute(
        "SELECT l.sid, l.instant_s, l.version, l.state, l.planned_ms, l.asked_ms, "
        f"{started_at('l')}, l.reason "
        "FROM json_each(?) j CROSS JOIN launch l INDEXED BY launch_by_name ON l.sid = j.value "
        f"AND l.instant_s >= ? AND l.instant_s < ? AND l.kind = {LaunchKind.SCHEDULED:d} LIMIT ?",
        (json.dumps(sids), from_s, to_s, ROWS_AT_ONCE + 1),
    ).fetchall()
    complete_upto_s = None
    if len(launches) > ROWS_AT_ONCE:
        # The last one's may be cut off: it is left for the next portion, unless it is the only one of this.
        cut = launches[-1][0]
        sids = sids[: sids.index(cut)] or sids[:1]
        complete_upto_s = launches[-1][1] if sids == [cut] else None
        del launches[-1]
    found = _Gathered(sids)
    for sid, *row in launches:
        found.rows.setdefault(sid, []).append(Row(*row))
    found.read_stretches(db, from_s, to_s)
    found.read_versions(db, from_s * 1000, is_idle)
    return Portion(sids, found.pasts(db, kept_since_s, now_s), complete_upto_s)


class _Gathered:
    """Rows of several tables, by schedule."""

    def __init__(self, sids: Sequence[int]) -> None:
        self._sids = sids
        self.rows: dict[int, list[Row]] = {}
        self._missed: dict[int, list[tuple[int, int, str]]] = {}
        self._versions: dict[int, list[Version]] = {}
        self._ids: dict[int, str] = {}
        self._specs: dict[int, bytes] = {}

    def read_stretches(self, db: sqlite3.Connection, from_s: int, to_s: int) -> None:
        for sid, first_s, before_s, reason in db.execute(
            f"SELECT sid, from_s, before_s, reason FROM missed WHERE {_OF_THESE} AND before_s > ? AND from_s < ?",
            (json.dumps(self._sids), from_s, to_s),
        ):
            self._missed.setdefault(sid, []).append((first_s, before_s, reason))

    def read_versions(
        self, db: sqlite3.Connection, from_ms: int, is_idle: Callable[[str, str], bool]
    ) -> None:
        """Those that were in force since then."""
        these = json.dumps(self._sids)
        for sid, id, version, since_ms, until_ms, enabled, resolved, zone, spec in db.execute(
            "SELECT sid, id, version, since_ms, until_ms, enabled, resolved, zone, spec FROM revision "
            f"WHERE {_OF_THESE} AND until_ms >= ? ORDER BY sid, version",
            (these, from_ms),
        ):
            rule = encode_rule(decode_spec(spec).rule())
            self._add(
                sid, id, spec, Version(version, since_ms, until_ms, bool(enabled), resolved, zone, rule)
            )
        for sid, id, version, since_ms, enabled, resolved, zone, rule, spec in db.execute(
            "SELECT sid, id, version, since_ms, enabled, resolved, zone, rule, spec FROM schedule "
            f"WHERE {_OF_THESE}",
            (these,),
        ):
            is_known = sid in self.rows or sid in self._missed or sid in self._ids
            if is_known or (enabled and not is_idle(resolved, zone)):
                present = Version(version, since_ms, FOREVER_MS, bool(enabled), resolved, zone, rule)
                self._add(sid, id, spec, present)

    def pasts(self, db: sqlite3.Connection, kept_since_s: int, now_s: int) -> list[Past]:
        sids = [sid for sid in self._sids if sid in self._ids]
        these = json.dumps(sids)
        due = dict(db.execute(f"SELECT sid, instant_s FROM due WHERE {_OF_THESE}", (these,)).fetchall())
        forgotten = dict(
            db.execute(
                f"SELECT sid, {FORGOTTEN_UPTO_S} FROM forgotten WHERE sid IN (SELECT value FROM json_each(:these)) "
                "GROUP BY sid",
                {"these": json.dumps(sids), "now_s": now_s},
            ).fetchall()
        )
        return [
            Past(
                sid=sid,
                id=self._ids[sid],
                versions=self._versions[sid],
                rows=self.rows.get(sid, ()),
                missed=self._missed.get(sid, ()),
                due_instant_s=due.get(sid),
                forgotten_upto_s=forgotten.get(sid, -1),
                kept_since_s=kept_since_s,
                spec=self._specs[sid],
            )
            for sid in sids
        ]

    def _add(self, sid: int, id: str, spec: bytes, version: Version) -> None:
        self._versions.setdefault(sid, []).append(version)
        self._ids[sid], self._specs[sid] = id, spec


def excused(db: sqlite3.Connection, past: Past, each: int) -> Past:
    """With what is only asked for when nothing is recorded of an occurrence, or a launch is none: how much of each
    schedule is kept, where its versions began if not at their own moment, and which were repaired."""
    surplus = db.execute(
        "SELECT instant_s FROM launch WHERE sid = ? ORDER BY instant_s DESC LIMIT 1 OFFSET ?",
        (past.sid, max(0, each - 1)),
    ).fetchone()
    newest = db.execute(
        "SELECT version, max(instant_s) FROM launch WHERE sid = ? AND kind = 0 AND asked_ms IS NULL "
        "GROUP BY version ORDER BY version",
        (past.sid,),
    ).fetchall()
    passed = {
        version.version: max((instant_s for of, instant_s in newest if of < version.version), default=-1)
        for version in past.versions
    }
    kept_since_s = past.kept_since_s if surplus is None else max(past.kept_since_s, surplus[0])
    repaired = db.execute("SELECT version FROM record WHERE about = ? AND act = 'due repaired'", (past.id,))
    settled_anew = frozenset(version for (version,) in repaired)
    return past._replace(kept_since_s=kept_since_s, passed_upto_s=passed, settled_anew=settled_anew)


def kept_since_s(db: sqlite3.Connection, before_ms: int, total: int) -> int:
    """What is older than this may be recorded no more, whatever schedule it is of."""
    (newest,) = db.execute("SELECT coalesce(max(lid), 0) FROM launch").fetchone()
    first = db.execute(
        "SELECT max(instant_s, coalesce(started_ms, ended_ms, 0) / 1000) FROM launch WHERE lid > ? "
        "ORDER BY lid LIMIT 1",
        (newest - total,),
    ).fetchone()
    return max(before_ms // 1000, first[0] if newest > total else 0)


def was_lost(db: sqlite3.Connection, from_ms: int, now_ms: int) -> bool:
    """Was a journal lost after this moment? What was planned earlier may have been backfilled in the lost time."""
    return lost_until_ms(db, now_ms) > from_ms
