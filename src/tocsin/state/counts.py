"""The state in numbers. Nothing here walks through everything: it is asked every few seconds, for ever."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tocsin.cron import parse_duration
from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.model.token import reaches

DAY_MS = 86_400_000
STALLED_AFTER_MS = DAY_MS
"""A launch without a time-out that has been open for so long has probably been forgotten by somebody."""
OVERDUE_AFTER_MS = 5 * 60_000
"""So long after its time-out an attempt should have been stopped; so long after its moment, one should have begun."""
_LOOKED_AT = 5_000
_NAMED = 3


class Counts(NamedTuple):
    """How much there is of everything."""

    schedules: int
    enabled: int
    open_by_state: dict[str, int]
    in_doubt: int
    """Ended so in the last 24 hours; failed and missed alike."""
    failed: int
    missed: int
    """Stretches of occurrences that nobody was in office for."""
    stalled: int
    released: int
    """In doubt for so long that they gave up their place in ``overlap`` and limits; of the last 24 hours."""
    next_ms: int | None

    @property
    def open(self) -> int:
        return sum(self.open_by_state.values())

    @property
    def retrying(self) -> int:
        return self.open_by_state["retrying"]

    def lag_ms(self, now_ms: int) -> int:
        """How long the earliest due occurrence is overdue."""
        return 0 if self.next_ms is None else max(0, now_ms - self.next_ms)


def counts(db: sqlite3.Connection, now_ms: int) -> Counts:
    """All the numbers at this moment."""
    held = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('schedules', 'enabled')").fetchall())
    trouble = dict(
        db.execute(
            "SELECT state, count(*) FROM launch INDEXED BY launch_trouble "
            "WHERE state IN (11, 14) AND ended_ms >= ? GROUP BY state",
            (now_ms - DAY_MS,),
        ).fetchall()
    )
    # Stretches that an edit or a pause left behind are none: somebody was in office.
    (missed,) = db.execute(
        "SELECT count(*) FROM missed WHERE at_ms >= ? AND reason LIKE 'missed:%'", (now_ms - DAY_MS,)
    ).fetchone()
    (next_ms,) = db.execute("SELECT min(at_ms) FROM due").fetchone()
    (released,) = db.execute(
        f"SELECT count(*) FROM launch WHERE held_ms <= ? AND held_ms > ? AND state = {LaunchState.IN_DOUBT:d}",
        (now_ms, now_ms - DAY_MS),
    ).fetchone()
    return Counts(
        schedules=held["schedules"],
        enabled=held["enabled"],
        open_by_state=_open_by_state(db),
        in_doubt=trouble.get(int(LaunchState.IN_DOUBT), 0),
        failed=trouble.get(int(LaunchState.FAILED), 0),
        missed=missed,
        stalled=_overdue_attempts(db, now_ms) + _open_for_too_long(db, now_ms),
        released=released,
        next_ms=next_ms,
    )


def newest_missed(db: sqlite3.Connection, now_ms: int, within: Sequence[str]) -> list[tuple[str, int]]:
    """A few of the stretches that nobody was in office for: the schedule, and the first instant."""
    rows = db.execute(
        "SELECT coalesce(s.id, (SELECT r.id FROM revision r WHERE r.sid = m.sid LIMIT 1)), m.from_s FROM missed m "
        "LEFT JOIN schedule s ON s.sid = m.sid WHERE m.at_ms >= ? AND m.reason LIKE 'missed:%' "
        f"ORDER BY m.at_ms DESC LIMIT {_LOOKED_AT}",
        (now_ms - DAY_MS,),
    )
    return [(id, from_s) for id, from_s in rows if id is not None and reaches(within, id)][:_NAMED]


def _open_by_state(db: sqlite3.Connection) -> dict[str, int]:
    found = dict(
        db.execute(
            "SELECT state, count(*) FROM launch INDEXED BY launch_open "
            f"WHERE state < {CLOSED_FROM} GROUP BY state"
        ).fetchall()
    )
    return {state.name.lower(): found.get(int(state), 0) for state in LaunchState if state < CLOSED_FROM}


def _overdue_attempts(db: sqlite3.Connection, now_ms: int) -> int:
    """Attempts that should have been made long ago."""
    found: tuple[int] = db.execute(
        "SELECT count(*) FROM launch WHERE retry_at_ms IS NOT NULL AND retry_at_ms < ?",
        (now_ms - OVERDUE_AFTER_MS,),
    ).fetchone()
    return found[0]


class _Timeout(msgspec.Struct, frozen=True, gc=False):
    """The one thing in a schedule that matters here: the rest is not even decoded."""

    timeout: str | None = None


_decode = msgspec.msgpack.Decoder(_Timeout).decode


def _open_for_too_long(db: sqlite3.Connection, now_ms: int) -> int:
    """Attempts past their time-out, and those without one that began more than a day ago. Of very many open
    launches only the oldest are looked at: those are what it is about."""
    began = "coalesce(l.attempt_ms, l.started_ms)"
    rows = db.execute(
        f"SELECT {began}, coalesce(s.spec, r.spec) FROM launch l INDEXED BY launch_open "
        "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
        "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version "
        f"WHERE l.state < {CLOSED_FROM} AND l.state IN ({LaunchState.STARTED:d}, {LaunchState.RUNNING:d}) "
        f"AND {began} < ? ORDER BY l.lid LIMIT {_LOOKED_AT}",
        (now_ms - OVERDUE_AFTER_MS,),
    )
    return sum(now_ms - began_ms > _allowed_ms(spec) for began_ms, spec in rows)


def _allowed_ms(spec: bytes | None) -> int:
    timeout = None if spec is None else _decode(spec).timeout
    if timeout is None:
        return STALLED_AFTER_MS
    return parse_duration(timeout, field="timeout") * 1000 + OVERDUE_AFTER_MS
