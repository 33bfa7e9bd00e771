"""What becomes of occurrences that fell due. Every change here also moves the due row, in the same transaction."""

from __future__ import annotations

from itertools import repeat

from tocsin.model import change as c
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.state import minutes
from tocsin.state.apply.context import HERD, Context, is_uniform, numbers

_INSERT = (
    "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, started_ms, ended_ms, "
    "reason) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_STARTED = (
    "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, planned_ms, started_ms) "
    f"VALUES (?, ?, ?, ?, {LaunchKind.SCHEDULED:d}, {LaunchState.STARTED:d}, 1, ?, ?, ?)"
)
_INSERT_HERD = (
    "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, started_ms) "
    f"SELECT ? + key, value, ?, ?, {LaunchKind.SCHEDULED:d}, {LaunchState.STARTED:d}, 1, ?, ? FROM json_each(?)"
)


def started(context: Context, change: c.LaunchesStarted) -> range:
    """The hot path. Returns the numbers of the new launches, in the order of the change's columns."""
    lids = context.take_lids(len(change.sids))
    _insert_started(context, change, lids)
    minutes.count_starts(context.db, context.entry.time_ms, change.instants_s, change.planned_ms)
    context.move_due(change.sids, change.next_instants_s, change.next_delays_ms)
    return lids


def _insert_started(context: Context, change: c.LaunchesStarted, lids: range) -> None:
    db, _, entry = context
    is_herd = len(lids) >= HERD and change.planned_ms is None
    if is_herd and is_uniform(change.instants_s) and is_uniform(change.versions):
        version, instant_s = change.versions[0], change.instants_s[0]
        db.execute(
            _INSERT_HERD, (lids[0], version, instant_s, entry.term, entry.time_ms, numbers(change.sids))
        )
        return
    planned = repeat(None) if change.planned_ms is None else iter(change.planned_ms)
    rows = zip(
        lids,
        change.sids,
        change.versions,
        change.instants_s,
        repeat(entry.term),
        planned,
        repeat(entry.time_ms),
        strict=False,
    )
    db.executemany(_INSERT_STARTED, rows)


def queued(context: Context, change: c.LaunchesQueued) -> range:
    return _recorded(context, change, LaunchState.QUEUED)


def skipped(context: Context, change: c.LaunchesSkipped) -> range:
    minutes.count_skips(context.db, context.entry.time_ms, change.reasons)
    return _recorded(context, change, LaunchState.SKIPPED)


def _recorded(context: Context, change: c.LaunchesQueued | c.LaunchesSkipped, state: LaunchState) -> range:
    db, _, entry = context
    lids = context.take_lids(len(change.sids))
    ended_ms = entry.time_ms if state is LaunchState.SKIPPED else None
    rows = [
        (lid, sid, version, instant_s, int(state), 0, entry.term, None, None, ended_ms, reason)
        for lid, sid, version, instant_s, reason in zip(
            lids, change.sids, change.versions, change.instants_s, change.reasons, strict=True
        )
    ]
    db.executemany(_INSERT, rows)
    context.move_due(change.sids, change.next_instants_s, change.next_delays_ms)
    return lids


def missed(context: Context, change: c.OccurrencesMissed) -> None:
    """A whole stretch in one row: nobody enumerates what a year's outage missed."""
    at_ms = context.entry.time_ms
    rows = zip(
        change.sids,
        change.from_s,
        change.before_s,
        change.versions,
        repeat(at_ms, len(change.sids)),
        change.reasons,
        strict=True,
    )
    context.db.executemany("INSERT OR REPLACE INTO missed VALUES (?, ?, ?, ?, ?, ?)", rows)
    minutes.count(context.db, at_ms, missed=len(change.sids))


def due_moved(context: Context, change: c.DueMoved) -> None:
    context.move_due(change.sids, change.next_instants_s, change.next_delays_ms)
