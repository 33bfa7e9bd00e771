"""What stands beside a launch: those before and after it, and who was in office when something was decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from tocsin.model.ids import launch_name, parse_launch_name

_SIDS = "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)"


class Office(NamedTuple):
    """Who led, and in which term."""

    term: int
    replica: str


def neighbours(db: sqlite3.Connection, name: str) -> tuple[str, str]:
    """The launches of the same schedule next to this one in the order of their instants; empty: there is none."""
    parts = parse_launch_name(name)
    found = []
    for comparison, direction in (("<", "DESC"), (">", "ASC")):
        row = db.execute(
            f"SELECT instant_s, kind FROM launch WHERE sid IN {_SIDS} AND (instant_s, kind) {comparison} (?, ?) "
            f"ORDER BY instant_s {direction}, kind {direction} LIMIT 1",
            (parts.schedule, parts.schedule, parts.instant_s, int(parts.manual)),
        ).fetchone()
        found.append("" if row is None else launch_name(parts.schedule, row[0], bool(row[1])))
    return found[0], found[1]


def offices(db: sqlite3.Connection, moments_ms: Iterable[int]) -> dict[int, Office]:
    """Whose entry it was that has this time in the journal. Entries of one term come after all of the term before."""
    found = {}
    for moment_ms in set(moments_ms):
        row = db.execute(
            "SELECT term, replica FROM office WHERE since_ms <= ? ORDER BY term DESC LIMIT 1", (moment_ms,)
        ).fetchone()
        if row is not None:
            found[moment_ms] = Office(*row)
    return found
