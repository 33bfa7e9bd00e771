"""What happened, minute by minute: one row a minute, for eight days, so that a chart of a week costs nothing to draw.

Everything is counted in the minute of the entry that tells of it, whatever a target says about when it ended. What was
in doubt and was then resolved is counted again, in the minute in which it was. Only what took effect is counted: an
outcome that came too late is none.

A herd of five thousand starts is a sorted column and one look per bound of the histogram. There is no loop over
launches here, and there must not be one: this is done for every launch there ever is.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate, chain, compress
from operator import add, not_
from typing import Any

from tocsin.model.activity import DAYS_KEPT, LATE_MS, MINUTE_MS, Activity, ActivityBucket, ActivityView
from tocsin.model.launch import CLOSED_FROM, LaunchState

BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, LATE_MS, 2_000, 5_000, 15_000, 60_000, 300_000)
"""Of the histogram of lateness; what is later than the last has one more column."""
MINUTES_KEPT = DAYS_KEPT * 24 * 60
GONE_AT_ONCE = 60
"""So many rows go with each that comes: a leader whose clock is years ahead does not wipe out everything."""
_HISTOGRAM = (*(f"late_{bound}" for bound in BOUNDS_MS), "late_more")
_STARTS = ("started", "latest_ms", *_HISTOGRAM)
_COUNTED = ("started", "succeeded", "failed", "skipped", "cancelled", "in_doubt", "missed", "retries")
_LATE_FROM = BOUNDS_MS.index(LATE_MS) + 1
_ENDS = {int(state): state.name.lower() for state in LaunchState if state >= CLOSED_FROM}
_NOBODY = "missed:"
"""How the reason begins of what was given up because nobody was in office."""


# Counting


def count(db: sqlite3.Connection, time_ms: int, **numbers: int) -> None:
    """So many more of each."""
    if any(numbers.values()):
        _add(db, time_ms, tuple(numbers), tuple(numbers.values()))


def count_ends(db: sqlite3.Connection, time_ms: int, state: int, number: int) -> None:
    """So many launches ended in this state."""
    if state in _ENDS:
        count(db, time_ms, **{_ENDS[state]: number})


def count_skips(db: sqlite3.Connection, time_ms: int, reasons: Sequence[str]) -> None:
    """What nobody was in office for is not what a policy left out."""
    missed = sum(reason.startswith(_NOBODY) for reason in reasons)
    count(db, time_ms, skipped=len(reasons) - missed, missed=missed)


def count_starts(
    db: sqlite3.Connection,
    time_ms: int,
    instants_s: Sequence[int],
    planned_ms: Sequence[int | None] | None = None,
) -> None:
    """The hot path. These occurrences start, each at its instant, or where jitter planned it."""
    if planned_ms is None:
        latest_ms, histogram = _lateness(instants_s, 1000, time_ms)
    else:
        latest_ms, histogram = _lateness(list(compress(instants_s, map(not_, planned_ms))), 1000, time_ms)
        other_ms, others = _lateness(list(filter(None, planned_ms)), 1, time_ms)
        latest_ms, histogram = max(latest_ms, other_ms), list(map(add, histogram, others))
    if instants_s:
        _add(db, time_ms, _STARTS, (len(instants_s), latest_ms, *histogram))


def count_attempts(
    db: sqlite3.Connection, time_ms: int, lids: Sequence[int], attempts: Sequence[int]
) -> None:
    """Attempts that are about to begin: of launches that waited in line the first one that is known of, and later ones.
    A first attempt that was withdrawn before the call is made again, and is neither. To wait in line is not to be late:
    it is what the schedule's owner wants."""
    (started,) = db.execute(
        "SELECT count(*) FROM launch WHERE lid IN (SELECT value FROM json_each(?)) AND started_ms IS NULL "
        f"AND state < {CLOSED_FROM}",
        (json.dumps(lids),),
    ).fetchone()
    count(db, time_ms, started=started, retries=len(lids) - list(attempts).count(1))


def recount_starts(db: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, int]]) -> None:
    """So many starts (the entry's time, the planned moment, the time that was counted, the time of the call, how many)
    were made later than was counted. They stay in the minute of their entry."""
    moves: Counter[tuple[int, int, int]] = Counter()
    latest: dict[tuple[int, int, int], int] = {}
    for started_ms, planned_ms, counted_ms, called_ms, number in rows:
        if counted_ms == called_ms:  # it was told before
            continue
        late_ms = max(0, called_ms - planned_ms)
        key = started_ms // MINUTE_MS, _bound(counted_ms - planned_ms), _bound(late_ms)
        moves[key] += number
        latest[key] = max(latest.get(key, 0), late_ms)
    for key, number in sorted(moves.items()):
        minute, before, after = key
        was, now = _HISTOGRAM[before], _HISTOGRAM[after]
        moved = f"{was} = {was} - :number, {now} = {now} + :number, " if was != now else ""
        db.execute(
            f"UPDATE minute SET {moved}latest_ms = max(latest_ms, :late) WHERE at_min = :minute AND {was} >= :number",
            {"number": number, "late": latest[key], "minute": minute},
        )


def uncount_starts(db: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, int]]) -> None:
    """So many starts (as above, how many, is their lateness counted) were none."""
    for started_ms, planned_ms, counted_ms, number, is_counted in rows:
        was = _HISTOGRAM[_bound(counted_ms - planned_ms)]
        less = f", {was} = max(0, {was} - :number)" if is_counted else ""
        db.execute(
            f"UPDATE minute SET started = max(0, started - :number){less} WHERE at_min = :minute",
            {"number": number, "minute": started_ms // MINUTE_MS},
        )


def _bound(late_ms: int) -> int:
    """The column of the histogram for a start that was so late."""
    return bisect_left(BOUNDS_MS, max(0, late_ms))


def _lateness(planned: Sequence[int], unit_ms: int, time_ms: int) -> tuple[int, list[int]]:
    """The greatest, and how many there are up to each bound. What was early is not late: it counts as zero."""
    if not planned:
        return 0, [0] * len(_HISTOGRAM)
    ordered = sorted(planned)
    later = [bisect_left(ordered, -(-(time_ms - bound) // unit_ms)) for bound in BOUNDS_MS]
    histogram = [more - less for more, less in zip((len(ordered), *later), (*later, 0), strict=True)]
    return max(0, time_ms - ordered[0] * unit_ms), histogram


def _add(db: sqlite3.Connection, time_ms: int, names: tuple[str, ...], numbers: tuple[int, ...]) -> None:
    minute, statement = time_ms // MINUTE_MS, _update(names)
    if db.execute(statement, (*numbers, minute)).rowcount:
        return
    db.execute("INSERT INTO minute (at_min) VALUES (?)", (minute,))
    db.execute(
        "DELETE FROM minute WHERE at_min IN (SELECT at_min FROM minute WHERE at_min <= ? ORDER BY at_min LIMIT ?)",
        (minute - MINUTES_KEPT, GONE_AT_ONCE),
    )
    db.execute(statement, (*numbers, minute))


@cache
def _update(names: tuple[str, ...]) -> str:
    terms = (f"{name} = max({name}, ?)" if name == "latest_ms" else f"{name} = {name} + ?" for name in names)
    return f"UPDATE minute SET {', '.join(terms)} WHERE at_min = ?"


# Reading

_SELECT = (
    f"SELECT at_min / ?1, {', '.join(f'sum({name})' for name in (*_COUNTED, *_HISTOGRAM))}, max(latest_ms) "
    "FROM minute WHERE at_min >= ?2 AND at_min < ?3 GROUP BY 1"
)
_NOTHING = (0,) * (len(_COUNTED) + len(_HISTOGRAM) + 1)


def activity(db: sqlite3.Connection, from_ms: int, to_ms: int, bucket_ms: int) -> ActivityView:
    """What happened from here up to there, in buckets of whole minutes. The first one begins at or before ``from_ms``,
    at a multiple of its length: a chart that is drawn again a moment later has the same bars."""
    length = max(1, bucket_ms // MINUTE_MS)
    first, behind = from_ms // (length * MINUTE_MS), -(-to_ms // MINUTE_MS)
    rows = {row[0]: row[1:] for row in db.execute(_SELECT, (length, first * length, behind))}
    numbers = range(first, max(first, -(-behind // length)))
    return ActivityView(
        since=_moment(first * length * MINUTE_MS),
        until=_moment(to_ms),
        bucket_s=length * MINUTE_MS // 1000,
        items=[
            ActivityBucket(at=_moment(number * length * MINUTE_MS), **_told(rows.get(number, _NOTHING)))
            for number in numbers
        ],
        totals=Activity(**_told(tuple(_summed(list(rows.values()))))),
    )


def _summed(rows: Sequence[Sequence[int]]) -> Iterator[int]:
    if not rows:
        return iter(_NOTHING)
    *sums, latest = zip(*rows, strict=True)
    return chain(map(sum, sums), (max(latest),))


def _told(row: Sequence[int]) -> dict[str, Any]:
    histogram, latest_ms = row[len(_COUNTED) : -1], row[-1]
    told: dict[str, Any] = dict(zip(_COUNTED, row, strict=False))
    told["late"] = sum(histogram[_LATE_FROM:])
    told["lateness_p50_ms"] = _percentile(histogram, 50, latest_ms)
    told["lateness_p99_ms"] = _percentile(histogram, 99, latest_ms)
    told["lateness_max_ms"] = latest_ms if any(histogram) else None
    return told


def _percentile(histogram: Sequence[int], percent: int, latest_ms: int) -> int | None:
    """So many of a hundred were at most so late: the bound above them, or the latest of all if that is less."""
    rank = -(-sum(histogram) * percent // 100)
    for bound_ms, reached in zip((*BOUNDS_MS, latest_ms), accumulate(histogram), strict=True):
        if reached >= rank > 0:
            return min(bound_ms, latest_ms)
    return None


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
