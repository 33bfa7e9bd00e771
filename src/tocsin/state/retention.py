"""Which rows of history are to be deleted next.

Every look takes in a bounded number of rows and goes on where the last one ended. A launch is looked at when it is
counted, once; when it is deleted; and once an hour if it is too old but cannot be deleted, because it is open or ended
late. What is kept costs nothing. A look passes only over rows that stay: if the deletion is not written, the next look
finds the same rows again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from tocsin.model.launch import CLOSED_FROM

RECORDS_KEPT = 1_000_000
"""Records of who did what are kept as long as history is, but never more of them than this."""
AHEAD_LOOKED_AT = 200_000
"""``count_ahead`` looks at this number of launches: more would hold the leader up."""
OLDEST_LOOKED_AT = 100
"""So many launches of one schedule are looked at, at a time, for what is too much of it."""
FEW_OPEN = 10
"""Of a schedule with more launches under way, what is too much is looked for again when they have ended. With fewer,
its next launch is soon enough."""
MAY_GO = (
    f"state >= {CLOSED_FROM} AND coalesce(held_ms, 0) <= ?1 AND instant_s * 1000 <= ?1 AND "
    "(instant_s <= (SELECT value FROM meta WHERE key = 'proven_upto_s') "
    "OR ?1 >= (SELECT value FROM meta WHERE key = 'proven_again_ms')) AND "
    "NOT EXISTS (SELECT 1 FROM due d WHERE d.sid = launch.sid AND d.instant_s <= launch.instant_s)"
)
"""It has ended, if in doubt it no longer keeps its place in overlap and limits, and its instant has truly come: should
the clock turn out to have been ahead, its record is history that happened. If the clock was put back, its schedule must
have passed that name. ``?1`` is now."""
VERSION_IS_UNUSED = (
    "before_lid <= :counted_lid + 1 AND NOT EXISTS "
    "(SELECT 1 FROM kept k WHERE k.sid = revision.sid AND k.version = revision.version)"
)
REVISION_MAY_GO = (
    f"{VERSION_IS_UNUSED} AND (EXISTS (SELECT 1 FROM schedule s WHERE s.sid = revision.sid) "
    "OR EXISTS (SELECT 1 FROM revision n WHERE n.sid = revision.sid AND n.version > revision.version) "
    "OR NOT EXISTS (SELECT 1 FROM kept k WHERE k.sid = revision.sid) AND NOT EXISTS "
    "(SELECT 1 FROM forgotten f WHERE f.sid = revision.sid AND f.upto_s * 1000 >= :before_ms))"
)
"""No launch was started under it. The last version of a deleted id keeps the id's number, and with it the names of its
launches: it stays as long as there are any, or as one of them would not be older than all history."""

Age = tuple[int, int, int]
"""Where a revision stands in the order of age: when it ended, number, version."""


class Uncounted(NamedTuple):
    """Launches that are counted next, and what becomes too much by that."""

    upto_lid: int
    launches: int
    surplus: list[int]
    is_last: bool
    left: list[int]
    """Schedules of which more is too much than was looked at, or will be when they have ended."""


class Old(NamedTuple):
    """Launches that are too old, or more than are kept in all."""

    lids: list[int]
    stays_upto_lid: int
    """Every launch up to this number stays for now: the next look begins behind it."""
    is_last: bool


class Surplus(NamedTuple):
    """Launches that are too many of their schedule."""

    lids: list[int]
    stays_upto_sid: int
    is_last: bool


class OldRevisions(NamedTuple):
    """Former versions that are too old and that nothing refers to."""

    found: list[tuple[int, int]]
    """Number of the schedule, and version."""
    stays_upto: Age
    is_last: bool


def uncounted(
    db: sqlite3.Connection,
    counted_lid: int,
    keep_each: int,
    now_ms: int,
    look_at: int,
    limit: int,
    ahead_of_s: int | None = None,
) -> Uncounted:
    """The next launches behind the counted ones: so many that about ``limit`` become too much. Launches ahead of that
    second, which a wrong clock has made and which cannot be deleted yet, are none of the kept ones."""
    rows = db.execute(
        "SELECT lid, sid, instant_s FROM launch WHERE lid > ? ORDER BY lid LIMIT ?", (counted_lid, look_at)
    ).fetchall()
    kept = dict(
        db.execute(
            "SELECT k.sid, sum(k.launches) FROM (SELECT DISTINCT value FROM json_each(?)) j "
            "CROSS JOIN kept k ON k.sid = j.value GROUP BY k.sid",
            (json.dumps([sid for _, sid, _ in rows]),),
        ).fetchall()
    )
    if ahead_of_s is not None:
        kept = {sid: count - _ahead(db, sid, ahead_of_s, counted_lid) for sid, count in kept.items()}
    upto_lid, count, is_last = counted_lid, 0, len(rows) < look_at
    over, left, expected = dict[int, int](), set[int](), 0
    last_lid, under_way = rows[-1][0] if rows else 0, dict[int, int]()
    for lid, sid, instant_s in rows:
        upto_lid, count = lid, count + 1
        kept[sid] = kept.get(sid, 0) + (ahead_of_s is None or instant_s <= ahead_of_s)
        if kept[sid] > keep_each and sid not in under_way:
            under_way[sid] = _open(db, sid, last_lid)
        surplus = kept[sid] - under_way.get(sid, 0) - keep_each
        too_many = min(surplus, OLDEST_LOOKED_AT)
        if surplus > OLDEST_LOOKED_AT or under_way.get(sid, 0) > FEW_OPEN:
            left.add(sid)
        if too_many > 0:
            expected += too_many - over.get(sid, 0)
            over[sid] = too_many
            if expected >= limit:
                is_last = False
                break
    lids = [lid for sid, too_many in over.items() for lid in _oldest(db, sid, too_many, now_ms)]
    return Uncounted(upto_lid, count, lids, is_last, sorted(left))


def surplus_of(
    db: sqlite3.Connection, sid: int, keep_each: int, now_ms: int, ahead_of_s: int | None, counted_lid: int
) -> list[int] | None:
    """The next launches that are too many of one schedule and can be deleted; None: none is or will be too many."""
    (launches,) = db.execute("SELECT coalesce(sum(launches), 0) FROM kept WHERE sid = ?", (sid,)).fetchone()
    if ahead_of_s is not None:
        launches -= _ahead(db, sid, ahead_of_s, counted_lid)
    if launches <= keep_each:
        return None
    too_many = min(launches - _open(db, sid, counted_lid) - keep_each, OLDEST_LOOKED_AT)
    return list(_oldest(db, sid, too_many, now_ms)) if too_many > 0 else []


def surplus(
    db: sqlite3.Connection,
    after_sid: int,
    keep_each: int,
    now_ms: int,
    look_at: int,
    limit: int,
    ahead_of_s: int | None = None,
    counted_lid: int = 1 << 62,
) -> Surplus:
    """Of all schedules behind this one, among the next so many: for a limit that is lower than it was."""
    rows = db.execute(
        "SELECT sid, sum(launches) FROM kept WHERE sid > ? GROUP BY sid LIMIT ?", (after_sid, look_at)
    ).fetchall()
    found: list[int] = []
    stays_upto_sid = after_sid
    for sid, launches in rows:
        if ahead_of_s is not None:
            launches -= _ahead(db, sid, ahead_of_s, counted_lid)
        if launches > keep_each:
            launches -= _open(db, sid, counted_lid)
        if launches > keep_each:
            found += _oldest(db, sid, min(launches - keep_each, OLDEST_LOOKED_AT), now_ms)
        if not found:
            stays_upto_sid = sid
        elif len(found) >= limit:
            break
    return Surplus(found, stays_upto_sid, is_last=not found and len(rows) < look_at)


def count_ahead(db: sqlite3.Connection, ahead_of_s: int) -> int:
    """How many of the newest launches are of a time behind that second. A wrong clock has made them, not long ago."""
    (found,) = db.execute(
        "SELECT count(*) FROM (SELECT instant_s FROM launch ORDER BY lid DESC LIMIT ?) WHERE instant_s > ?",
        (AHEAD_LOOKED_AT, ahead_of_s),
    ).fetchone()
    return int(found)


def count_open(db: sqlite3.Connection) -> int:
    """How many launches are under way in all."""
    (found,) = db.execute(
        f"SELECT count(*) FROM launch INDEXED BY launch_open WHERE state < {CLOSED_FROM}"
    ).fetchone()
    return int(found)


def _open(db: sqlite3.Connection, sid: int, upto_lid: int) -> int:
    """How many launches of a schedule are under way: they push nothing out of its history."""
    (found,) = db.execute(
        f"SELECT count(*) FROM launch INDEXED BY launch_open WHERE sid = ? AND state < {CLOSED_FROM} AND lid <= ?",
        (sid, upto_lid),
    ).fetchone()
    return int(found)


def _ahead(db: sqlite3.Connection, sid: int, of_s: int, upto_lid: int) -> int:
    """How many launches of a schedule have an instant behind that second."""
    (found,) = db.execute(
        "SELECT count(*) FROM launch INDEXED BY launch_by_name WHERE sid = ? AND instant_s > ? AND lid <= ?",
        (sid, of_s, upto_lid),
    ).fetchone()
    return int(found)


def _oldest(db: sqlite3.Connection, sid: int, count: int, now_ms: int) -> Iterator[int]:
    """Those among the oldest launches of a schedule that can be deleted."""
    rows = db.execute(
        f"SELECT lid, {MAY_GO} FROM launch INDEXED BY launch_by_name WHERE sid = ? ORDER BY instant_s, kind LIMIT ?",
        (now_ms, sid, count),
    )
    return (lid for lid, may_go in rows if may_go)


def old(
    db: sqlite3.Connection, after_lid: int, before_ms: int, now_ms: int, too_many: int, limit: int
) -> Old:
    """Closed launches among the next so many: those that ended before that moment, and the oldest if there are too many
    in all. Launches are numbered in the order of time: where none is old and one is not, there are no more."""
    rows = db.execute(
        f"SELECT lid, CASE WHEN ended_ms < ?2 OR ?3 THEN {MAY_GO} END, ended_ms, "
        "asked_ms IS NULL AND coalesce(started_ms, ended_ms, instant_s * 1000) >= ?2 "
        "FROM launch WHERE lid > ?4 ORDER BY lid LIMIT ?5",
        (now_ms, before_ms, too_many > 0, after_lid, limit),
    ).fetchall()
    lids: list[int] = []
    stays_upto_lid, saw_young = after_lid, False
    for lid, may_go, ended_ms, is_young in rows:
        if may_go and (ended_ms < before_ms or too_many > len(lids)):
            lids.append(lid)
        else:
            saw_young = saw_young or bool(is_young)
        if not lids and not saw_young:
            stays_upto_lid = lid
    return Old(lids, stays_upto_lid, is_last=not lids and (saw_young or len(rows) < limit))


def old_revisions(
    db: sqlite3.Connection, after: Age, before_ms: int, counted_lid: int, limit: int
) -> OldRevisions:
    """Those among the next so many that ended before that moment."""
    rows = db.execute(
        f"SELECT until_ms, sid, version, {REVISION_MAY_GO} FROM revision INDEXED BY revision_by_age "
        "WHERE until_ms < :before_ms AND (until_ms, sid, version) > (:until_ms, :sid, :version) "
        "ORDER BY until_ms, sid, version LIMIT :limit",
        {
            "before_ms": before_ms,
            "until_ms": after[0],
            "sid": after[1],
            "version": after[2],
            "counted_lid": counted_lid,
            "limit": limit,
        },
    ).fetchall()
    found: list[tuple[int, int]] = []
    for until_ms, sid, version, may_go in rows:
        if may_go:
            found.append((sid, version))
        elif not found:
            after = (until_ms, sid, version)
    return OldRevisions(found, after, is_last=not found and len(rows) < limit)


def has_old_records(db: sqlite3.Connection, before_ms: int, next_rid: int) -> bool:
    """Is there a stretch of missed occurrences, an absence or a record that is to be deleted?"""
    found = db.execute(
        "SELECT EXISTS (SELECT 1 FROM missed WHERE at_ms < :ms) OR EXISTS (SELECT 1 FROM absence WHERE until_ms < :ms) "
        "OR EXISTS (SELECT 1 FROM (SELECT rid, at_ms FROM record ORDER BY rid LIMIT 1) "
        "WHERE at_ms < :ms OR rid < :rid)",
        {"ms": before_ms, "rid": next_rid - RECORDS_KEPT},
    ).fetchone()
    return bool(found[0])
