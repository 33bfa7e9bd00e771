"""Schedules as a person looks for them: searched as they type, in any of three orders, over millions.

No question walks through everything. Where an index leads to what is wanted, it is followed; for the rest so many rows
are looked at and no more, and the answer says where to go on. A label or a kind of target is first looked for as the
bytes that it would be in the row: what has not even these is never decoded.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tocsin.model.schedule import ScheduleView
from tocsin.state.views import reached, schedule_view

WINDOW = 10_000
"""So many schedules are looked into for one answer."""
WINDOW_OF_IDS = 50_000
"""The same if only their ids are: those stand in an index, close together."""
SORTED_MAX = 10_000
"""So many are put into the order of their next instants at once. Of more, that order is walked through instead."""
TROUBLE_MAX = 5_000
"""So many launches that failed or are in doubt are looked at to find the schedules that have trouble."""
_BEHIND = "\x01"
_BEYOND = "\x7f"
"""Before and behind whatever may go on in an id."""
_COLUMNS = (
    "s.sid, s.id, s.version, s.resolved, s.created_ms, s.since_ms, s.spec, s.note, d.instant_s, d.at_ms"
)
_WITH_DUE = "schedule s LEFT JOIN due d ON d.sid = s.sid"
_encode = msgspec.msgpack.encode


class Search(NamedTuple):
    """Which schedules are wanted. All that is said must hold."""

    prefix: str = ""
    contains: tuple[str, ...] = ()
    """Parts of the id, in small letters; capitals are found as well."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """None: whatever its value."""
    target: str | None = None
    enabled: bool | None = None
    troubled_since_ms: int | None = None
    """Only those of which a launch failed or was in doubt since then."""
    within: tuple[str, ...] = ()
    """Only what these prefixes reach."""


class Row(NamedTuple):
    """A schedule in a list."""

    sid: int
    view: ScheduleView


class Found(NamedTuple):
    """A part of a list. ``after`` is where the next one begins; empty: there is none."""

    items: list[Any]
    after: str
    looked_at: int
    """Not 0: so much was looked at, and the list goes on although it is not full."""


class Outcome(NamedTuple):
    """What became of one launch."""

    instant_s: int
    is_manual: bool
    state: int
    reason: str


class _Kind(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""


class _Facts(msgspec.Struct, frozen=True, gc=False):
    """What is looked for in a schedule: the rest is not decoded."""

    target: _Kind
    labels: dict[str, str] = {}


_facts = msgspec.msgpack.Decoder(_Facts).decode


# Lists


def page(db: sqlite3.Connection, search: Search, order: str, after: str, limit: int) -> Found:
    """The next so many. ``order``: ``id``, ``-id`` or ``next``; in the last those that have a next instant."""
    found = _found(db, search, order, after, limit)
    return found._replace(items=[_row(raw) for raw in found.items])


def ids(db: sqlite3.Connection, search: Search, after: str, limit: int) -> Found:
    """Only their ids, in their order."""
    found = _found(db, search, "id", after, limit)
    return found._replace(items=[raw[1] for raw in found.items])


def of(db: sqlite3.Connection, sids: Sequence[int]) -> list[Row]:
    """These, as far as they are still there."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM json_each(?) j CROSS JOIN {_WITH_DUE} WHERE s.sid = j.value",
        (json.dumps(sids),),
    )
    return [_row(raw) for raw in rows]


def named(db: sqlite3.Connection, names: Sequence[str]) -> dict[str, ScheduleView]:
    """Those of them that there are."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM json_each(?) j CROSS JOIN {_WITH_DUE} WHERE s.id = j.value",
        (json.dumps(names),),
    )
    return {raw[1]: _row(raw).view for raw in rows}


def held(db: sqlite3.Connection) -> int:
    """How many schedules there are in all."""
    (found,) = db.execute("SELECT value FROM meta WHERE key = 'schedules'").fetchone()
    return int(found)


def outcomes(db: sqlite3.Connection, sids: Sequence[int], each: int) -> dict[int, list[Outcome]]:
    """The last so many launches of each of these schedules, the oldest of them first."""
    rows = db.execute(
        "SELECT l.sid, l.instant_s, l.kind, l.state, l.reason FROM json_each(?) j CROSS JOIN launch l ON l.lid IN "
        "(SELECT lid FROM launch INDEXED BY launch_by_name WHERE sid = j.value ORDER BY instant_s DESC LIMIT ?) "
        "ORDER BY l.sid, l.instant_s, l.kind",
        (json.dumps(sids), each),
    )
    found: dict[int, list[Outcome]] = {sid: [] for sid in sids}
    for sid, instant_s, kind, state, reason in rows:
        found[sid].append(Outcome(instant_s, bool(kind), state, reason or ""))
    return found


def _found(db: sqlite3.Connection, search: Search, order: str, after: str, limit: int) -> Found:
    if not _ranges(search):
        return Found([], "", 0)
    if search.troubled_since_ms is not None:
        return _among(db, search, order, after, limit)
    if order == "next":
        return _by_next(db, search, after, limit)
    return _by_id(db, search, after, limit, is_backwards=order == "-id")


def _by_id(db: sqlite3.Connection, search: Search, after: str, limit: int, *, is_backwards: bool) -> Found:
    where, values = _filters(search)
    left = WINDOW if search.labels or search.target or search.enabled is not None else WINDOW_OF_IDS
    direction = "DESC" if is_backwards else ""
    items: list[Any] = []
    looked_at = 0
    ranges = _ranges(search)
    for low, high in reversed(ranges) if is_backwards else ranges:
        if after and is_backwards:
            high = min(high, after)
        elif after:
            low = max(low, after + _BEHIND)
        if low >= high:
            continue
        is_cut = False
        if where:
            low, high, count, is_cut = _window(db, low, high, left - looked_at, direction)
            looked_at += count
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM {_WITH_DUE} WHERE s.id >= ? AND s.id < ?{where} ORDER BY s.id {direction}",
            (low, high, *values),
        )
        items += islice(_wanted(rows, search), limit + 1 - len(items))
        if len(items) > limit:
            return Found(items[:limit], items[limit - 1][1], 0)
        if is_cut:
            # Backwards the next one ends before what was looked at last, forwards it begins behind it.
            return Found(items, low if is_backwards else high.removesuffix(_BEHIND), looked_at)
    return Found(items, "", 0)


def _window(
    db: sqlite3.Connection, low: str, high: str, most: int, direction: str
) -> tuple[str, str, int, bool]:
    """The range, cut so that there are at most so many ids in it; how many there are; and whether it was cut."""
    asked = (low, high, max(0, most - 1))
    last = db.execute(
        f"SELECT id FROM schedule WHERE id >= ? AND id < ? ORDER BY id {direction} LIMIT 1 OFFSET ?", asked
    ).fetchone()
    if last is None:
        (count,) = db.execute("SELECT count(*) FROM schedule WHERE id >= ? AND id < ?", asked[:2]).fetchone()
        return low, high, count, False
    return (last[0], high, most, True) if direction else (low, last[0] + _BEHIND, most, True)


def _by_next(db: sqlite3.Connection, search: Search, after: str, limit: int) -> Found:
    where, values = _filters(search)
    ranges = _ranges(search)
    position = _position(after)
    if _count_upto(db, ranges, SORTED_MAX) < SORTED_MAX:
        items: list[Any] = []
        for low, high in ranges:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM schedule s CROSS JOIN due d ON d.sid = s.sid WHERE s.id >= ? AND s.id < ?"
                f"{where} AND (d.at_ms, d.sid) > (?, ?) ORDER BY d.at_ms, d.sid",
                (low, high, *values, *position),
            )
            items += islice(_wanted(rows, search), limit + 1)
        items.sort(key=lambda raw: (raw[9], raw[0]))
        return _cut(items, limit)
    last = db.execute(
        "SELECT at_ms, sid FROM due WHERE (at_ms, sid) > (?, ?) ORDER BY at_ms, sid LIMIT 1 OFFSET ?",
        (*position, WINDOW - 1),
    ).fetchone()
    within = " OR ".join("s.id >= ? AND s.id < ?" for _ in ranges)
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM due d CROSS JOIN schedule s ON s.sid = d.sid "
        f"WHERE (d.at_ms, d.sid) > (?, ?) AND (d.at_ms, d.sid) <= (?, ?) AND ({within}){where} "
        "ORDER BY d.at_ms, d.sid",
        (*position, *(last or (1 << 62, 0)), *(bound for each in ranges for bound in each), *values),
    )
    found = _cut(list(islice(_wanted(rows, search), limit + 1)), limit)
    if found.after or last is None:
        return found
    return Found(found.items, f"{last[0]}.{last[1]}", WINDOW)


def _among(db: sqlite3.Connection, search: Search, order: str, after: str, limit: int) -> Found:
    """Those that have trouble: of them there are only so many, and the newest launches lead to them."""
    where, values = _filters(search)
    sids = db.execute(
        "SELECT DISTINCT sid FROM (SELECT sid FROM launch INDEXED BY launch_trouble WHERE state IN (11, 14) "
        "AND ended_ms >= ? ORDER BY ended_ms DESC LIMIT ?)",
        (search.troubled_since_ms, TROUBLE_MAX),
    ).fetchall()
    ranges = _ranges(search)
    within = " OR ".join("s.id >= ? AND s.id < ?" for _ in ranges)
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM json_each(?) j CROSS JOIN {_WITH_DUE} WHERE s.sid = j.value AND ({within}){where}",
        (json.dumps([sid for (sid,) in sids]), *(bound for each in ranges for bound in each), *values),
    )
    found = list(_wanted(rows, search))
    if order == "next":
        position = _position(after)
        found = [raw for raw in found if raw[9] is not None and (raw[9], raw[0]) > position]
        return _cut(sorted(found, key=lambda raw: (raw[9], raw[0])), limit)
    found.sort(key=lambda raw: str(raw[1]), reverse=order == "-id")
    if after:
        found = [raw for raw in found if (raw[1] < after if order == "-id" else raw[1] > after)]
    return Found(found[:limit], found[limit - 1][1] if len(found) > limit else "", 0)


def _cut(items: list[Any], limit: int) -> Found:
    """In the order of their next instants."""
    if len(items) <= limit:
        return Found(items, "", 0)
    last = items[limit - 1]
    return Found(items[:limit], f"{last[9]}.{last[0]}", 0)


def _position(after: str) -> tuple[int, int]:
    at_ms, _, sid = after.partition(".")
    return (int(at_ms), int(sid)) if sid else (-(1 << 62), 0)


# Conditions


def _ranges(search: Search) -> list[tuple[str, str]]:
    """Of ids: from here up to before there."""
    return [
        (begin, begin + (_BEHIND if is_exact else _BEYOND))
        for begin, is_exact in reached(search.prefix, search.within)
    ]


def _count_upto(db: sqlite3.Connection, ranges: Iterable[tuple[str, str]], most: int) -> int:
    count = 0
    for low, high in ranges:
        if count < most:
            count += db.execute(
                "SELECT count(*) FROM (SELECT 1 FROM schedule WHERE id >= ? AND id < ? LIMIT ?)",
                (low, high, most - count),
            ).fetchone()[0]
    return count


def _filters(search: Search) -> tuple[str, list[object]]:
    where, values = "", list[object]()
    for part in search.contains:
        where += " AND instr(lower(s.id), ?)"
        values.append(part.lower())
    if search.enabled is not None:
        where += " AND s.enabled = ?"
        values.append(search.enabled)
    sought = [_encode(key) + (b"" if value is None else _encode(value)) for key, value in search.labels]
    if search.target is not None:
        sought.append(_encode("kind") + _encode(search.target))
    for text in sought:
        where += " AND instr(s.spec, ?)"
        values.append(text)
    return where, values


def _wanted(rows: Iterable[Any], search: Search) -> Iterator[Any]:
    """What was found by its bytes may have them elsewhere, in its payload for example."""
    if not search.labels and search.target is None:
        yield from rows
        return
    for raw in rows:
        facts = _facts(raw[6])
        if search.target is not None and facts.target.kind != search.target:
            continue
        if all(
            key in facts.labels if value is None else facts.labels.get(key) == value
            for key, value in search.labels
        ):
            yield raw


def _row(raw: Sequence[Any]) -> Row:
    return Row(raw[0], schedule_view(raw[1:9]))
