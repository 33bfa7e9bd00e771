"""Occurrences that a person wants launched after the fact.

They keep their own names, so that none can be launched twice: only what has no launch, or one that was skipped, is
taken, and nothing of which a call may have gone out. They wait in line and start one at a time, when nothing else of
their schedule is open.
"""

from __future__ import annotations

from tocsin.errors import NotFound, Refused
from tocsin.model import change as c
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.state.apply import history
from tocsin.state.apply.context import Context
from tocsin.state.tables import was_never_called

_WAITS = "backfill: waits while the schedule is paused or another launch of it is open"


def requested(context: Context, change: c.BackfillRequested) -> object:
    """Returns how many occurrences wait in line now, or why none."""
    db, _, entry = context
    found = db.execute("SELECT sid, version FROM schedule WHERE id = ?", (change.id,)).fetchone()
    if found is None:
        return NotFound(f"there is no schedule {change.id!r}", hint="'tocsin list' shows all")
    sid, version = found
    taken = 0
    for instant_s in change.instants_s:
        former = db.execute(
            f"SELECT lid, version FROM launch WHERE sid = ? AND instant_s = ? AND kind = {LaunchKind.SCHEDULED:d}",
            (sid, instant_s),
        ).fetchone()
        revived = db.execute(
            f"UPDATE launch SET state = {LaunchState.QUEUED:d}, version = ?, asked_ms = ?, ended_ms = NULL, "
            "called_ms = NULL, started_ms = NULL, attempt_ms = NULL, told_ms = NULL, cancel = NULL, reason = ? "
            f"WHERE sid = ? AND instant_s = ? AND kind = {LaunchKind.SCHEDULED:d} "
            "AND doubt IS NULL "
            f"AND (state = {LaunchState.SKIPPED:d} OR (state = {LaunchState.CANCELLED:d} "
            f"AND {was_never_called('launch')}))",
            (version, entry.time_ms, _WAITS, sid, instant_s),
        ).rowcount
        if revived:
            history.version_changed(context, former[0], former[1], version)
        taken += revived or _inserted(context, sid, version, instant_s)
    if not taken:
        return Refused(
            f"there is nothing to launch: no occurrence of {change.id!r} in that time was left out",
            hint="a preview tells what became of each",
        )
    note = f"{taken} occurrence{'' if taken == 1 else 's'}"
    context.record("backfilled", change.id, change.actor, version=version, note=note)
    return taken


def _inserted(context: Context, sid: int, version: int, instant_s: int) -> int:
    """One if it is new; an occurrence that has a launch keeps it."""
    entry = context.entry
    exists = context.db.execute(
        f"SELECT 1 FROM launch WHERE sid = ? AND instant_s = ? AND kind = {LaunchKind.SCHEDULED:d}",
        (sid, instant_s),
    ).fetchone()
    if exists:
        return 0
    (lid,) = context.take_lids(1)
    context.db.execute(
        "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, asked_ms, reason) "
        f"VALUES (?, ?, ?, ?, {LaunchKind.SCHEDULED:d}, {LaunchState.QUEUED:d}, 0, ?, ?, ?)",
        (lid, sid, version, instant_s, entry.term, entry.time_ms, _WAITS),
    )
    return 1
