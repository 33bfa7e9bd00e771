"""What the leader asks for, each in a statement or two, whatever the number of rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.state.tables import has_failed_before

_OPEN = f"state < {CLOSED_FROM}"
NEAR_S = 60
"""What was given up so shortly ahead of now was decided by a clock that differs a little."""
TAKEN_MAX = 10_000
"""So many instants that were launched ahead of now are stepped over one by one."""


LOOK_BYTES = 2 << 20
"""One look reads no more than this, and one row: a payload may have 64 KB, and thousands may be due at once."""


LOOK_LAUNCHES = 200
"""So many open launches a new leader reads and concludes before it looks up."""


class Page(NamedTuple):
    """Rows whose last column is the schedule, as many as were asked for in rows and in bytes."""

    rows: list[tuple[Any, ...]]
    is_last: bool
    """There are no more behind these."""
    size: int
    """Bytes of schedules."""


def read_page(cursor: sqlite3.Cursor, limit: int, bytes_max: int) -> Page:
    """Read row by row: those behind the last one are never fetched."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += len(row[-1])
        if size >= bytes_max:
            cursor.close()
            return Page(rows, False, size)
    return Page(rows, len(rows) < limit, size)


def due(
    db: sqlite3.Connection,
    now_ms: int,
    limit: int,
    after: tuple[int, int] = (0, 0),
    bytes_max: int = LOOK_BYTES,
) -> Page:
    """Due rows behind ``after`` (moment and number), the earliest first, in the columns of ``decide.due.DueRow``."""
    found = db.execute(
        "SELECT d.at_ms, d.sid, d.instant_s, s.id, s.version, s.resolved, s.zone, s.rule, s.spec "
        "FROM due d JOIN schedule s ON s.sid = d.sid WHERE d.at_ms <= ? AND (d.at_ms, d.sid) > (?, ?) "
        "ORDER BY d.at_ms, d.sid LIMIT ?",
        (now_ms, *after, limit),
    )
    return read_page(found, limit, bytes_max)


def due_of(db: sqlite3.Connection, sids: Sequence[int], bytes_max: int = LOOK_BYTES) -> Page:
    """The due rows of these schedules, in the same columns and in the order of the schedules."""
    found = db.execute(
        "SELECT d.at_ms, d.sid, d.instant_s, s.id, s.version, s.resolved, s.zone, s.rule, s.spec FROM json_each(?) j "
        "CROSS JOIN due d INDEXED BY due_by_schedule ON d.sid = j.value JOIN schedule s ON s.sid = d.sid",
        (json.dumps(sids),),
    )
    return read_page(found, len(sids) + 1, bytes_max)


def next_wake_ms(db: sqlite3.Connection, seen_ms: int = 0, seen_retry_ms: int = -1) -> int | None:
    """The earliest moment at which something is to be looked at, beside what was due by ``seen_ms``."""
    (first_due,) = db.execute("SELECT min(at_ms) FROM due WHERE at_ms > ?", (seen_ms,)).fetchone()
    (first_retry,) = db.execute(
        "SELECT min(retry_at_ms) FROM launch WHERE retry_at_ms IS NOT NULL AND retry_at_ms > ?",
        (seen_retry_ms,),
    ).fetchone()
    moments = [moment for moment in (first_due, first_retry) if moment is not None]
    return min(moments, default=None)


def open_launches(
    db: sqlite3.Connection, sids: Iterable[int], now_ms: int
) -> list[tuple[int, int | None, int, int, int, int]]:
    """Launches of these schedules that are open, or in doubt and keep their place: (sid, asked, lid, instant, kind,
    state)."""
    return db.execute(
        "SELECT sid, asked_ms, lid, instant_s, kind, state FROM launch INDEXED BY launch_open "
        f"WHERE sid IN (SELECT value FROM json_each(:sids)) AND {_OPEN} UNION ALL "
        "SELECT sid, asked_ms, lid, instant_s, kind, state FROM launch INDEXED BY launch_held "
        f"WHERE sid IN (SELECT value FROM json_each(:sids)) AND held_ms > :now AND state >= {CLOSED_FROM}",
        {"sids": json.dumps(list(sids)), "now": now_ms},
    ).fetchall()


_IS_HELD = f"held_ms > :now AND state IN ({LaunchState.RETRYING:d}, {LaunchState.IN_DOUBT:d})"
"""A call of it may still run, and none is under way that takes over its place."""


def held(db: sqlite3.Connection, now_ms: int, ended_from_ms: int | None = None) -> list[tuple[int, int]]:
    """Launches that keep their place although no call is under way, and until when: all, or those that ended at that
    time or later."""
    return db.execute(
        f"SELECT lid, held_ms FROM launch INDEXED BY launch_held WHERE {_IS_HELD} "
        "AND (:from IS NULL OR ended_ms >= :from) ORDER BY lid",
        {"now": now_ms, "from": ended_from_ms},
    ).fetchall()


def held_of(db: sqlite3.Connection, lids: Sequence[int], now_ms: int) -> list[tuple[int, int]]:
    """The same of these launches."""
    return db.execute(
        f"SELECT lid, held_ms FROM launch WHERE lid IN (SELECT value FROM json_each(:lids)) AND {_IS_HELD}",
        {"lids": json.dumps(lids), "now": now_ms},
    ).fetchall()


_RETRY = (
    "SELECT l.retry_at_ms, l.lid, l.attempt, coalesce(s.spec, r.spec) FROM {} "
    "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
    "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version "
    "WHERE l.retry_at_ms IS NOT NULL "
)


def retries_due(
    db: sqlite3.Connection,
    now_ms: int,
    limit: int,
    after: tuple[int, int] = (0, 0),
    bytes_max: int = LOOK_BYTES,
) -> Page:
    """Launches whose next attempt is due (moment, number, attempt, schedule) behind ``after`` (moment and number)."""
    found = db.execute(
        _RETRY.format("launch l INDEXED BY launch_retry")
        + "AND l.retry_at_ms <= ? AND (l.retry_at_ms, l.lid) > (?, ?) ORDER BY l.retry_at_ms, l.lid LIMIT ?",
        (now_ms, *after, limit),
    )
    return read_page(found, limit, bytes_max)


def retries_of(db: sqlite3.Connection, lids: Sequence[int], bytes_max: int = LOOK_BYTES) -> Page:
    """The same of these launches, as far as they wait for an attempt, in the order of the launches."""
    found = db.execute(
        _RETRY.format("json_each(?) j CROSS JOIN launch l ON l.lid = j.value"), (json.dumps(lids),)
    )
    return read_page(found, len(lids) + 1, bytes_max)


def to_be_cancelled(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """Open launches that somebody wants stopped."""
    return db.execute(
        f"SELECT lid, cancel FROM launch INDEXED BY launch_open WHERE {_OPEN} AND cancel IS NOT NULL"
    ).fetchall()


class OrderRow(NamedTuple):
    """All that the launcher needs to hand a launch to its target."""

    lid: int
    id: str
    instant_s: int
    kind: int
    state: int
    attempt: int
    started_ms: int
    cancel: str | None
    spec: bytes
    term: int
    replica: str
    """Who led in that term, and was to make the call."""
    doubt: int | None = None
    """The first attempt that may have gone out unseen, before the present hand-over."""
    relaunched: int | None = None
    """The attempt that a person has asked for in spite of that."""
    planned_ms: int | None = None
    asked_ms: int | None = None
    resolved: str = ""
    zone: str = ""
    has_failed_before: int = 0
    """An attempt before the present one was made, and failed."""
    is_before_loss: int = 0
    """It was called, if at all, in a term that began before a record was lost."""
    attempt_ms: int | None = None
    """When the present attempt began, or was called; None: when the launch did."""


_ORDER = (
    "SELECT l.lid, coalesce(s.id, r.id), l.instant_s, l.kind, l.state, l.attempt, l.started_ms, l.cancel, "
    "coalesce(s.spec, r.spec), l.term, coalesce(o.replica, ''), l.doubt, l.relaunched, l.planned_ms, l.asked_ms, "
    "coalesce(s.resolved, r.resolved), coalesce(s.zone, r.zone), "
    f"l.attempt > 1 AND {has_failed_before('l')}, "
    "(SELECT value FROM meta WHERE key = 'common_seq') >= max(coalesce(o.seq, 0), 1), l.attempt_ms FROM launch l "
    "LEFT JOIN office o ON o.term = l.term "
    "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
    "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version "
)


def begun_terms(db: sqlite3.Connection, limit: int) -> list[tuple[int, int, bytes, bytes]]:
    """The newest terms, in order: the number and id of the entry that began each, and the id of the entry before it."""
    found = db.execute("SELECT term, seq, id, prev FROM office ORDER BY term DESC LIMIT ?", (limit,))
    return found.fetchall()[::-1]


def orders(db: sqlite3.Connection, lids: Sequence[int]) -> list[OrderRow]:
    """These launches, each with the version of its schedule that it was started under."""
    found = db.execute(
        _ORDER + "WHERE l.lid IN (SELECT value FROM json_each(?)) ORDER BY l.lid", (json.dumps(lids),)
    )
    return [OrderRow(*row) for row in found]


def orders_of_some(db: sqlite3.Connection, lids: Sequence[int]) -> tuple[list[OrderRow], Sequence[int]]:
    """The first of these launches, as many as one look may read, and the rest of the numbers."""
    some = lids[:LOOK_LAUNCHES]
    found = db.execute(
        _ORDER.replace("FROM launch l ", "FROM json_each(?) j CROSS JOIN launch l ON l.lid = j.value "),
        (json.dumps(some),),
    )
    rows: list[OrderRow] = []
    size = 0
    for row in map(OrderRow._make, found):
        rows.append(row)
        size += len(row.spec)
        if size >= LOOK_BYTES:
            found.close()
            return rows, lids[lids.index(row.lid) + 1 :]
    return rows, lids[len(some) :]


def handed_over(db: sqlite3.Connection) -> list[int]:
    """Launches that a former leader may have handed to their target, the oldest first: the ones to be concluded. Their
    numbers only: they are read in portions."""
    found = db.execute(
        "SELECT lid FROM launch INDEXED BY launch_open "
        f"WHERE {_OPEN} AND state IN ({LaunchState.STARTED:d}, {LaunchState.RUNNING:d})"
    )
    return sorted(lid for (lid,) in found)


def doubted_since(db: sqlite3.Connection, since_ms: int, limit: int) -> list[int]:
    """Launches that were put in doubt since then, the newest first, because nobody answered: somebody may still tell.
    Whoever made the call and does not know how it ended has said all there is to say."""
    found = db.execute(
        f"SELECT lid FROM launch WHERE state IN (11, 14) AND state = {LaunchState.IN_DOUBT:d} AND ended_ms >= ? "
        "AND doubt IS NULL ORDER BY ended_ms DESC LIMIT ?",
        (since_ms, limit),
    )
    return [lid for (lid,) in found]


def doubted_at(db: sqlite3.Connection, ended_ms: int) -> list[int]:
    """Launches in doubt that ended at this very moment."""
    found = db.execute(
        f"SELECT lid FROM launch WHERE state IN (11, 14) AND state = {LaunchState.IN_DOUBT:d} AND ended_ms = ?",
        (ended_ms,),
    )
    return [lid for (lid,) in found]


def in_use(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[int, bytes] | None]:
    """Those of them that a schedule has, with its version and as it was written; None for one that is gone and of which
    something is still kept."""
    asked = json.dumps(ids)
    rows = db.execute(
        "SELECT r.id, 0, NULL FROM json_each(:ids) CROSS JOIN revision r ON r.id = value "
        "UNION ALL SELECT s.id, s.version, s.spec FROM json_each(:ids) CROSS JOIN schedule s ON s.id = value",
        {"ids": asked},
    )
    # Of an id that has both, the schedule comes last and counts.
    return {id: None if spec is None else (version, spec) for id, version, spec in rows}


FORGOTTEN_UPTO_S = (
    "max(CASE WHEN NOT epoch THEN upto_s WHEN from_s <= :now_s THEN min(upto_s, :now_s) ELSE -1 END)"
)
"""Of the rows of a schedule: up to this instant launches may be no longer recorded. Epochs in which the clock was right
make no difference."""


class DecidedAhead(NamedTuple):
    """What was decided of an id, also after now, because a clock was ahead."""

    upto_s: int
    """Behind this instant, at the earliest, something may be decided. What was given up far ahead of now did not
    happen."""
    unrecorded_s: int
    """Up to this instant an occurrence may have been launched without a record of it, be it in a former life of the id
    of which nothing is kept; -1: none."""
    taken: frozenset[int]
    """Instants behind that which have been launched, the first so many."""
    newest_s: int | None = None
    """There are more of them, up to this one."""
    deleted: Sequence[tuple[int, int]] = ()
    """Stretches, from the first instant to the last, in which others may have been launched and deleted."""


def decided_ahead(db: sqlite3.Connection, schedule_id: str, now_s: int) -> DecidedAhead:
    known = db.execute(
        "SELECT sid FROM schedule WHERE id = :id UNION ALL SELECT sid FROM revision WHERE id = :id LIMIT 1",
        {"id": schedule_id},
    ).fetchone()
    (purged,) = db.execute("SELECT value FROM meta WHERE key = 'unrecorded_upto_s'").fetchone()
    if known is None:
        return DecidedAhead(-1, int(purged), frozenset())
    forgotten = forgotten_of(db, schedule_id, now_s)
    (sid,) = known
    (given_up_s,) = db.execute(
        "SELECT coalesce(max(before_s) - 1, -1) FROM missed WHERE sid = ? AND before_s <= ?",
        (sid, now_s + NEAR_S),
    ).fetchone()
    behind_s = max(given_up_s, forgotten.upto_s)
    ahead = "FROM launch WHERE sid = ? AND kind = 0 AND instant_s > ?"
    rows = db.execute(
        f"SELECT instant_s {ahead} ORDER BY instant_s LIMIT ?", (sid, now_s, TAKEN_MAX + 1)
    ).fetchall()
    newest_s = None
    if len(rows) > TAKEN_MAX:  # a walk through all of them would take too long
        (newest_s,) = db.execute(f"SELECT max(instant_s) {ahead}", (sid, now_s)).fetchone()
    return DecidedAhead(
        behind_s,
        max(int(purged), forgotten.upto_s),
        frozenset(instant_s for (instant_s,) in rows),
        newest_s,
        forgotten.stretches,
    )


def taken_of(db: sqlite3.Connection, sids: Sequence[int], instants_s: Sequence[int]) -> set[tuple[int, int]]:
    """Those of these occurrences that have a launch already, or had one whose record was deleted."""
    rows = db.execute(
        "WITH asked (sid, instant_s) AS "
        "(SELECT s.value, i.value FROM json_each(?) s JOIN json_each(?) i ON i.key = s.key) "
        "SELECT a.sid, a.instant_s FROM asked a JOIN launch l USING (sid, instant_s) WHERE l.kind = 0 "
        "UNION SELECT a.sid, a.instant_s FROM asked a JOIN forgotten f USING (sid) "
        "WHERE f.epoch AND a.instant_s BETWEEN f.from_s AND f.upto_s",
        (json.dumps(sids), json.dumps(instants_s)),
    )
    return set(rows)


class Forgotten(NamedTuple):
    """Where launches of an id may be no longer recorded."""

    upto_s: int
    """Up to this instant; -1: none."""
    stretches: list[tuple[int, int]]
    """And from the first to the last of these, which lies after now: the clock was ahead and was put back."""

    def covers(self, instant_s: int) -> bool:
        return instant_s <= self.upto_s or any(first <= instant_s <= last for first, last in self.stretches)


def forgotten_of(db: sqlite3.Connection, schedule_id: str, now_s: int) -> Forgotten:
    asked = {"id": schedule_id, "now_s": now_s}
    sids = "(SELECT sid FROM schedule WHERE id = :id UNION ALL SELECT sid FROM revision WHERE id = :id)"
    (upto_s,) = db.execute(
        f"SELECT coalesce({FORGOTTEN_UPTO_S}, -1) FROM forgotten WHERE sid IN {sids}", asked
    ).fetchone()
    stretches = db.execute(
        f"SELECT from_s, upto_s FROM forgotten WHERE sid IN {sids} AND epoch AND upto_s > :now_s ORDER BY 1",
        asked,
    ).fetchall()
    return Forgotten(upto_s, stretches)


def with_due(
    db: sqlite3.Connection, ids: Sequence[str]
) -> list[tuple[int, int, str, str, str, bytes | None, bytes, int | None, int | None]]:
    """Those of these schedules that are enabled: (sid, version, id, text, zone, rule, schedule, next instant, when it
    is due)."""
    return db.execute(
        "SELECT s.sid, s.version, s.id, s.resolved, s.zone, s.rule, s.spec, d.instant_s, d.at_ms FROM json_each(?) j "
        "CROSS JOIN schedule s ON s.id = j.value LEFT JOIN due d ON d.sid = s.sid WHERE s.enabled",
        (json.dumps(list(ids)),),
    ).fetchall()


def ids_behind(db: sqlite3.Connection, after: str, prefix: str, limit: int) -> list[str]:
    """The next ids in their order, those that begin with the prefix."""
    return [
        id
        for (id,) in db.execute(
            "SELECT id FROM schedule WHERE id > ? AND id >= ? AND id < ? ORDER BY id LIMIT ?",
            (after, prefix, prefix + "\U0010ffff", limit),
        )
    ]


def due_behind(db: sqlite3.Connection, at_ms: int, most: int) -> int:
    """How many schedules have their next instant behind that moment, counted up to ``most``."""
    (found,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM due WHERE at_ms > ? LIMIT ?)", (at_ms, most)
    ).fetchone()
    return int(found)


def has_launch(db: sqlite3.Connection, schedule_id: str, instant_s: int) -> bool:
    """Was this occurrence decided, as far as is recorded?"""
    found = db.execute(
        "SELECT 1 FROM launch WHERE instant_s = :at AND kind = 0 AND sid IN "
        "(SELECT sid FROM schedule WHERE id = :id UNION SELECT sid FROM revision WHERE id = :id)",
        {"id": schedule_id, "at": instant_s},
    ).fetchone()
    return found is not None
