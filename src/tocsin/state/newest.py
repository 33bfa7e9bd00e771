"""Launches as a person looks for them, the newest first.

History may be ten million rows. What is rare in it (open, failed, in doubt, of one schedule) has an index; the rest is
looked through from its newest end, so many rows for one answer, which says where to go on.

A time that is asked for is the time in which launches were decided: their numbers are in that order, so it is found by
halving and not by looking. Of one schedule, where an index has the instants, it is about these.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.errors import NotFound
from tocsin.model.launch import CLOSED_FROM, LaunchState, LaunchView
from tocsin.state.rows import WINDOW, Found
from tocsin.state.views import launch_by_number, reached

TROUBLE = frozenset({LaunchState.FAILED, LaunchState.IN_DOUBT})
OPEN = frozenset(state for state in LaunchState if state < CLOSED_FROM)
_NEIGHBOURS = 32
"""One launch may have waited in line for hours before it started; of so many together one did not."""
_ID = "coalesce(s.id, (SELECT r.id FROM revision r WHERE r.sid = l.sid LIMIT 1), '')"
_END = 1 << 62


class Wanted(NamedTuple):
    """Which launches. All that is said must hold."""

    schedule: str = ""
    """Of this one, also if it was deleted since."""
    prefix: str = ""
    states: frozenset[LaunchState] = frozenset()
    since_ms: int = 0
    until_ms: int = _END
    within: tuple[str, ...] = ()


class _Way(NamedTuple):
    """One way through the launches: a place in it is a pair of numbers, greatest first."""

    name: str
    by: str
    """The index, if there is one."""
    key: str
    where: str
    values: tuple[object, ...]


def page(db: sqlite3.Connection, wanted: Wanted, after: str, limit: int) -> Found:
    """The next so many behind ``after``."""
    if not reached(wanted.prefix, wanted.within):
        return Found([], "", 0)
    way = _way(db, wanted)
    place = _place(way, after)
    where, values = _filters(wanted)
    begin = f"FROM launch l {way.by} WHERE {way.where} AND ({way.key}, l.lid) < (?, ?) "
    order = f"ORDER BY {way.key} DESC, l.lid DESC LIMIT "
    last = db.execute(
        f"SELECT {way.key}, l.lid {begin}{order} 1 OFFSET ?", (*way.values, *place, WINDOW - 1)
    ).fetchone()
    joined = begin.replace("WHERE", "LEFT JOIN schedule s ON s.sid = l.sid WHERE", 1)
    rows = db.execute(
        f"SELECT {way.key}, l.lid {joined} AND ({way.key}, l.lid) >= (?, ?){where} {order} ?",
        (*way.values, *place, *(last or (-_END, 0)), *values, limit + 1),
    ).fetchall()
    items = _views(db, [lid for _, lid in rows[:limit]])
    if len(rows) > limit:
        return Found(items, _written(way, rows[limit - 1]), 0)
    return Found(items, "", 0) if last is None else Found(items, _written(way, last), WINDOW)


def is_known(db: sqlite3.Connection, schedule_id: str) -> bool:
    """Is there a schedule of this id, or was there one?"""
    found = db.execute(
        "SELECT EXISTS (SELECT 1 FROM schedule WHERE id = :id) OR EXISTS (SELECT 1 FROM revision WHERE id = :id)",
        {"id": schedule_id},
    ).fetchone()
    return bool(found[0])


def _way(db: sqlite3.Connection, wanted: Wanted) -> _Way:
    since_s, until_s = -(-wanted.since_ms // 1000), -(-wanted.until_ms // 1000)
    if wanted.schedule:
        sids = "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)"
        where = f"l.sid IN {sids} AND l.instant_s >= ? AND l.instant_s < ?"
        asked = (wanted.schedule, wanted.schedule, since_s, until_s)
        return _Way("i", "INDEXED BY launch_by_name", "l.instant_s", where, asked)
    if wanted.states and wanted.states <= TROUBLE:
        where = "l.state IN (11, 14) AND l.ended_ms >= ? AND l.ended_ms < ?"
        return _Way("t", "INDEXED BY launch_trouble", "l.ended_ms", where, (wanted.since_ms, wanted.until_ms))
    first = _number_at(db, wanted.since_ms) if wanted.since_ms else 0
    beyond = _number_at(db, wanted.until_ms) if wanted.until_ms < _END else _END
    where, values = "l.lid >= ? AND l.lid < ?", (first, beyond)
    if wanted.states and wanted.states <= OPEN and _are_few_open(db):
        return _Way("l", "INDEXED BY launch_open", "l.lid", f"l.state < {CLOSED_FROM} AND {where}", values)
    return _Way("l", "NOT INDEXED", "l.lid", where, values)


def _are_few_open(db: sqlite3.Connection) -> bool:
    """If so they are put in order at once. If not, one meets many of them on the way through all."""
    (count,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM launch INDEXED BY launch_open "
        f"WHERE state < {CLOSED_FROM} LIMIT {WINDOW})"
    ).fetchone()
    return bool(count < WINDOW)


def _number_at(db: sqlite3.Connection, at_ms: int) -> int:
    """The first launch that was decided at that moment or later."""
    # Apart: together they would be looked for by a walk through all of them.
    (low,) = db.execute("SELECT coalesce(min(lid), 0) FROM launch").fetchone()
    (high,) = db.execute("SELECT coalesce(max(lid), 0) + 1 FROM launch").fetchone()
    while low < high:
        middle = (low + high) // 2
        (earliest,) = db.execute(
            "SELECT min(coalesce(asked_ms, started_ms, ended_ms, instant_s * 1000)) FROM "
            "(SELECT * FROM launch WHERE lid >= ? ORDER BY lid LIMIT ?)",
            (middle, _NEIGHBOURS),
        ).fetchone()
        low, high = (middle + 1, high) if earliest is not None and earliest < at_ms else (low, middle)
    return int(low)


def _filters(wanted: Wanted) -> tuple[str, list[object]]:
    where, values = "", list[object]()
    if wanted.states:
        where += f" AND +l.state IN ({', '.join(str(int(state)) for state in sorted(wanted.states))})"
    if wanted.prefix or wanted.within:
        ranges = reached(wanted.prefix, wanted.within)
        terms = [f"{_ID} = ?" if is_exact else f"({_ID} >= ? AND {_ID} < ?)" for _, is_exact in ranges]
        where += f" AND ({' OR '.join(terms)})"
        for begin, is_exact in ranges:
            values += [begin] if is_exact else [begin, begin + "\x7f"]
    return where, values


def _place(way: _Way, after: str) -> tuple[int, int]:
    """Behind which to go on. What belongs to another way is not known here: that begins at the beginning."""
    found = re.fullmatch(r"([a-z])(-?[0-9]{1,18})\.([0-9]{1,18})", after)
    return (_END, 0) if found is None or found[1] != way.name else (int(found[2]), int(found[3]))


def _written(way: _Way, place: Sequence[int]) -> str:
    return f"{way.name}{place[0]}.{place[1]}"


def _views(db: sqlite3.Connection, lids: Sequence[int]) -> list[LaunchView]:
    found = []
    for lid in lids:
        with contextlib.suppress(NotFound):  # it was just forgotten
            found.append(launch_by_number(db, lid))
    return found
