"""What became of the launches of one schedule: day by day, and the newest of them one by one.

A schedule may have a few launches kept or a hundred thousand. Whoever looks at it waits for a bounded number of rows,
the newest, and is told where that ended. Days are those of the schedule's own zone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tocsin.cron.zones import UNIX_MAX, Zone
from tocsin.model.launch import CLOSED_FROM, LaunchKind, LaunchState, shown_reason
from tocsin.state.tables import started_at

DAY_S = 86_400
LOOKED_AT_MAX = 5_000
"""So many launches are looked at in one go; whoever wants more asks again behind them."""
COUNTED_MAX = 100_000
OPEN_COUNTED_MAX = 1_000
ATTEMPTS_MAX = 500
STRETCHES_MAX = 500
MISSED = "missed"
"""What nobody was in office for is no state of a launch, but it is what became of an occurrence."""
_NOBODY = "missed:%"
_MISSED_NUMBER = 0
_NAMES = {int(each): each.name.lower() for each in LaunchState} | {_MISSED_NUMBER: MISSED}


class Stretch(NamedTuple):
    """The instants ``from_s <= t < until_s`` (UTC), all under one offset."""

    from_s: int
    until_s: int
    offset_s: int

    def until(self, instant_s: int) -> Stretch:
        """What of it lies before that instant."""
        return self._replace(until_s=min(self.until_s, instant_s))


class Days(NamedTuple):
    """Launches by day (days since 1970, in the zone), each by what became of them."""

    outcomes: dict[int, dict[str, int]]
    seen_from_s: int | None = None
    """What is older than this instant was not looked at. None: everything was."""

    def joined(self, older: Days) -> Days:
        """With what was found behind it."""
        both = {day: dict(found) for day, found in self.outcomes.items()}
        for day, found in older.outcomes.items():
            mine = both.setdefault(day, {})
            for state, number in found.items():
                mine[state] = mine.get(state, 0) + number
        return Days(both, older.seen_from_s)


class Row(NamedTuple):
    """One launch, in numbers, as a chart needs them."""

    lid: int
    instant_s: int
    is_manual: bool
    version: int
    state: str
    attempt: int
    planned_ms: int
    is_backfilled: bool
    started_ms: int | None
    attempt_ms: int | None
    """When the present attempt began; None: when the launch did."""
    ended_ms: int | None
    exit_code: int | None
    retry_at_ms: int | None
    reason: str
    replica: str

    @property
    def is_open(self) -> bool:
        return LaunchState[self.state.upper()] < CLOSED_FROM

    @property
    def lateness_ms(self) -> int | None:
        if self.is_manual or self.started_ms is None:
            return None
        return max(0, self.started_ms - self.planned_ms)

    def duration_ms(self, now_ms: int) -> int | None:
        """From its start to its end, attempts and the waits between them together; or up to now."""
        if self.started_ms is None:
            return None
        ended_ms = self.ended_ms if self.ended_ms is not None else now_ms
        return max(0, ended_ms - self.started_ms)


class Attempt(NamedTuple):
    """An attempt that was not the last one of its launch."""

    number: int
    started_ms: int | None
    ended_ms: int
    reason: str


def stretches(zone: Zone, first_day: int, until_day: int) -> Iterator[Stretch]:
    """The time of these local days. A day on which the clock changes is in two of them."""
    low, high = first_day * DAY_S, until_day * DAY_S
    segment = zone.segment(max(0, low - 2 * DAY_S))
    while True:
        from_s, until_s = (
            max(segment.start, low - segment.offset),
            min(segment.end, high - segment.offset),
        )
        if from_s < until_s:
            yield Stretch(from_s, until_s, segment.offset)
        if segment.end > UNIX_MAX or segment.end + segment.offset >= high + DAY_S:
            return
        segment = zone.segment(segment.end)


def day_of(zone: Zone, instant_s: int) -> int:
    """The local day, counted from 1970."""
    return (instant_s + zone.segment(instant_s).offset) // DAY_S


def number_of(db: sqlite3.Connection, schedule_id: str) -> int | None:
    """The number that this id has, as long as anything of it is kept."""
    found = db.execute(
        "SELECT sid FROM schedule WHERE id = :id UNION ALL SELECT sid FROM revision WHERE id = :id LIMIT 1",
        {"id": schedule_id},
    ).fetchone()
    return None if found is None else found[0]


_OF = "FROM launch INDEXED BY launch_by_name WHERE sid = :sid AND instant_s >= :from AND instant_s < :until "
_OUTCOMES = (
    f"SELECT (instant_s + :offset) / {DAY_S}, "
    f"CASE WHEN state = {LaunchState.SKIPPED:d} AND reason LIKE '{_NOBODY}' THEN {_MISSED_NUMBER} ELSE state END, "
    f"count(*), min(instant_s) FROM (SELECT instant_s, state, reason {_OF} ORDER BY instant_s DESC LIMIT :most) "
    "GROUP BY 1, 2"
)


def by_day(
    db: sqlite3.Connection, sid: int, within: Sequence[Stretch], looked_at: int = LOOKED_AT_MAX
) -> Days:
    """The outcomes of the newest in these stretches."""
    outcomes: dict[int, dict[str, int]] = {}
    for stretch in sorted(within, reverse=True):
        rows = db.execute(_OUTCOMES, _asked(sid, stretch, looked_at)).fetchall()
        for day, state, number, _ in rows:
            found = outcomes.setdefault(day, {})
            found[_NAMES[state]] = found.get(_NAMES[state], 0) + number
        looked_at -= sum(number for _, _, number, _ in rows)
        if not looked_at:
            return Days(outcomes, min(first_s for *_, first_s in rows))
    return Days(outcomes)


def first_kept_s(db: sqlite3.Connection, sid: int) -> int | None:
    """The oldest instant that a launch is kept of."""
    found: tuple[int | None] = db.execute(
        "SELECT min(instant_s) FROM launch INDEXED BY launch_by_name WHERE sid = ?", (sid,)
    ).fetchone()
    return found[0]


def _asked(sid: int, stretch: Stretch, most: int) -> dict[str, int]:
    return {
        "sid": sid,
        "from": stretch.from_s,
        "until": stretch.until_s,
        "offset": stretch.offset_s,
        "most": max(0, most),
    }


def missed(db: sqlite3.Connection, sid: int, from_s: int, until_s: int) -> list[tuple[int, int]]:
    """Stretches ``[from, before)`` of occurrences that nobody was in office for and that left no rows of their own."""
    return db.execute(
        "SELECT from_s, before_s FROM missed WHERE sid = ? AND before_s > ? AND from_s < ? "
        f"AND reason LIKE '{_NOBODY}' ORDER BY from_s DESC LIMIT {STRETCHES_MAX}",
        (sid, from_s, until_s),
    ).fetchall()


_ROW = (
    "SELECT l.lid, l.instant_s, l.kind, l.version, l.state, l.attempt, "
    "coalesce(l.asked_ms, l.planned_ms, l.instant_s * 1000), l.asked_ms IS NOT NULL, "
    f"{started_at('l')}, l.attempt_ms, "
    "l.ended_ms, l.exit_code, l.retry_at_ms, l.reason, l.cancel, coalesce(o.replica, '') FROM launch l {index} "
    "LEFT JOIN office o ON o.term = l.term WHERE l.sid = :sid "
)


def newest(
    db: sqlite3.Connection, sid: int, limit: int, within: Sequence[Stretch] = (Stretch(0, UNIX_MAX, 0),)
) -> list[Row]:
    """The launches of the newest instants in these stretches, the newest first."""
    found: list[Row] = []
    for stretch in sorted(within, reverse=True):
        rows = db.execute(
            _ROW.format(index="INDEXED BY launch_by_name")
            + "AND l.instant_s >= :from AND l.instant_s < :until ORDER BY l.instant_s DESC LIMIT :most",
            _asked(sid, stretch, limit - len(found)),
        )
        found += map(_row, rows)
    return found


def opened(db: sqlite3.Connection, sid: int, limit: int) -> list[Row]:
    """Launches that are open, however old their instant is."""
    rows = db.execute(
        _ROW.format(index="INDEXED BY launch_open")
        + f"AND l.state < {CLOSED_FROM} ORDER BY l.lid DESC LIMIT :most",
        {"sid": sid, "most": limit},
    )
    return list(map(_row, rows))


def open_number(db: sqlite3.Connection, sid: int) -> int:
    """How many are open, counted no further than ``OPEN_COUNTED_MAX``."""
    found: tuple[int] = db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM launch INDEXED BY launch_open WHERE sid = ? AND state < {CLOSED_FROM} "
        f"LIMIT {OPEN_COUNTED_MAX})",
        (sid,),
    ).fetchone()
    return found[0]


def kept_number(db: sqlite3.Connection, sid: int, within: Sequence[Stretch]) -> int:
    """How many launches are kept of these stretches, counted no further than ``COUNTED_MAX``."""
    counted = 0
    for stretch in within:
        (number,) = db.execute(
            f"SELECT count(*) FROM (SELECT 1 {_OF} LIMIT :most)",
            _asked(sid, stretch, COUNTED_MAX - counted),
        ).fetchone()
        counted += number
    return counted


def attempts(db: sqlite3.Connection, lids: Sequence[int]) -> dict[int, list[Attempt]]:
    """The former attempts of these launches."""
    found: dict[int, list[Attempt]] = {}
    rows = db.execute(
        "SELECT lid, attempt, started_ms, ended_ms, reason FROM attempt "
        "WHERE lid IN (SELECT value FROM json_each(?)) ORDER BY lid DESC, attempt DESC LIMIT ?",
        (json.dumps(lids), ATTEMPTS_MAX),
    )
    for lid, *attempt in rows:
        found.setdefault(lid, []).insert(0, Attempt(*attempt))
    return found


def deleted_by(db: sqlite3.Connection, schedule_id: str) -> str:
    """Whoever deleted it last, as far as the record is kept; empty: it is not."""
    found = db.execute(
        "SELECT actor FROM record WHERE about = ? AND act = 'deleted' ORDER BY rid DESC LIMIT 1",
        (schedule_id,),
    ).fetchone()
    return "" if found is None else found[0]


def _row(found: Sequence[Any]) -> Row:
    *fields, reason, cancel, replica = found
    row = Row._make((*fields, reason or "", replica))
    told = shown_reason(found[4], reason, cancel)
    return row._replace(is_manual=found[2] == LaunchKind.MANUAL, state=_NAMES[found[4]], reason=told)
