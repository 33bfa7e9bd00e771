"""What the forecast counts, as columns: how many schedules have each text, and what is due next.

All schedules are read in portions, each one short statement: SQLite adds them up, and whoever waits for the reader or
for the interpreter gets a turn in between. Portions are read at different moments; what is written meanwhile may be
counted or not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tocsin.state.views import reached

ROWS_AT_ONCE = 40_000
_NOT_ONCE = "instr(s.resolved, '@at ') = 0"
_IS_EVERY = "instr(s.resolved, '@every ')"


class Portion(NamedTuple):
    """Some schedules: a range of numbers, or of ids."""

    by: str
    """``sid`` or ``id``."""
    begin: int | str
    end: int | str
    """The first one that does not belong to it any more."""

    @property
    def where(self) -> str:
        return f"s.{self.by} >= :begin AND s.{self.by} < :end"

    @property
    def bounds(self) -> dict[str, object]:
        return {"begin": self.begin, "end": self.end}


class Columns(NamedTuple):
    """Enabled schedules of one portion."""

    crons: list[tuple[str, str, bytes | None, int]]
    """Text, zone, rule, how many."""
    intervals: list[tuple[str, bytes | None, int, int]]
    """Period of ``@every``, rule, next instant, how many."""
    moments: list[tuple[int, int]]
    """Second in which an ``@at`` is planned, how many."""


class Row(NamedTuple):
    """A schedule that somebody wants to know more of."""

    id: str
    resolved: str
    zone: str
    rule: bytes | None
    labels: dict[str, str]


class _Labelled(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] = {}


_labels_of = msgspec.msgpack.Decoder(_Labelled).decode


def portions(db: sqlite3.Connection, prefix: str = "", within: Sequence[str] = ()) -> list[Portion]:
    """All schedules, or those whose ids begin so and that these prefixes reach."""
    if not prefix and not within:
        (last,) = db.execute("SELECT coalesce(max(sid), 0) FROM schedule").fetchone()
        starts = range(1, last + 1, ROWS_AT_ONCE)
        return [Portion("sid", first, min(last + 1, first + ROWS_AT_ONCE)) for first in starts]
    found: list[Portion] = []
    for begin, is_exact in reached(prefix, within):
        found += [Portion("id", begin, begin + "\0")] if is_exact else _ranges(db, begin)
    return found


def _ranges(db: sqlite3.Connection, begin: str) -> list[Portion]:
    cuts, end = [begin], begin + "\U0010ffff"
    cut = "SELECT id FROM schedule WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?"
    while found := db.execute(cut, (cuts[-1], end, ROWS_AT_ONCE)).fetchone():
        cuts.append(found[0])
    return [Portion("id", *bounds) for bounds in zip(cuts, [*cuts[1:], end], strict=True)]


def columns(db: sqlite3.Connection, portion: Portion, from_s: int, to_s: int) -> Columns:
    """What is due in this portion. Single launches only within ``[from, to)``; the rest says when by itself."""
    bounds = {**portion.bounds, "from": from_s * 1000, "to": to_s * 1000}
    crons = db.execute(
        f"SELECT s.resolved, s.zone, s.rule, count(*) FROM schedule s WHERE {portion.where} AND s.enabled "
        f"AND {_NOT_ONCE} AND {_IS_EVERY} = 0 GROUP BY s.resolved, s.zone, s.rule",
        bounds,
    ).fetchall()
    behind = f"substr(s.resolved, {_IS_EVERY} + 7)"
    intervals = db.execute(
        f"SELECT CASE instr({behind}, ' ') WHEN 0 THEN {behind} "
        f"ELSE substr({behind}, 1, instr({behind}, ' ') - 1) END, s.rule, d.instant_s, count(*) "
        f"FROM schedule s CROSS JOIN due d ON d.sid = s.sid WHERE {portion.where} "
        f"AND s.enabled AND {_IS_EVERY} > 0 AND d.at_ms < :to GROUP BY 1, 2, 3",
        bounds,
    ).fetchall()
    moments = db.execute(
        f"SELECT d.at_ms / 1000, count(*) FROM schedule s CROSS JOIN due d ON d.sid = s.sid WHERE {portion.where} "
        f"AND s.enabled AND instr(s.resolved, '@at ') > 0 AND d.at_ms >= :from AND d.at_ms < :to GROUP BY 1",
        bounds,
    ).fetchall()
    return Columns(crons, intervals, moments)


def rows(db: sqlite3.Connection, portion: Portion, texts: Sequence[str], limit: int) -> list[Row]:
    """The enabled schedules of a portion that have one of these texts."""
    found = db.execute(
        f"SELECT s.id, s.resolved, s.zone, s.rule, s.spec FROM schedule s WHERE {portion.where} AND s.enabled "
        "AND s.resolved IN (SELECT value FROM json_each(:texts)) LIMIT :limit",
        {**portion.bounds, "texts": json.dumps(texts), "limit": limit},
    )
    return [
        Row(id, resolved, zone, rule, _labels_of(spec).labels) for id, resolved, zone, rule, spec in found
    ]


def planned(db: sqlite3.Connection, at_s: int, prefix: str, within: Sequence[str], limit: int) -> list[Row]:
    """The schedules that have a single launch (``@at``), planned in that second."""
    found = db.execute(
        "SELECT s.id, s.resolved, s.zone, s.rule, s.spec FROM due d CROSS JOIN schedule s ON s.sid = d.sid "
        "WHERE d.at_ms >= ? AND d.at_ms < ? AND s.enabled AND instr(s.resolved, '@at ') > 0 LIMIT ?",
        (at_s * 1000, at_s * 1000 + 1000, limit),
    )
    ranges = reached(prefix, within)
    return [
        Row(id, resolved, zone, rule, _labels_of(spec).labels)
        for id, resolved, zone, rule, spec in found
        if any(id == begin if is_exact else id.startswith(begin) for begin, is_exact in ranges)
    ]


def known(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[str, str, bytes | None]]:
    """Which of these ids are in use by enabled schedules: text, zone and rule of each."""
    found = db.execute(
        "SELECT id, resolved, zone, rule FROM schedule WHERE id IN (SELECT value FROM json_each(?)) AND enabled",
        (json.dumps(ids),),
    )
    return {id: (resolved, zone, rule) for id, resolved, zone, rule in found}
