"""One entry in an open transaction: each change goes to its handler, then the few facts that are not rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tocsin.errors import UnknownChange
from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.state.apply import (
    backfill,
    clock,
    epochs,
    history,
    imports,
    launches,
    occurrences,
    office,
    schedules,
    tokens,
)
from tocsin.state.apply.context import Context
from tocsin.state.digest import running_digest
from tocsin.state.store import Meta, save_meta

_Handler = Callable[[Context, Any], object]

_HANDLERS: dict[type, _Handler] = {
    c.TookOffice: office.took_office,
    c.Resigned: office.resigned,
    c.Returned: office.returned,
    c.Restored: office.restored,
    c.ClockSet: clock.clock_set,
    c.ClockDoubted: clock.clock_doubted,
    c.Checkpoint: office.checkpoint,
    c.EntrySkipped: office.entry_skipped,
    c.LaunchesStarted: occurrences.started,
    c.LaunchesQueued: occurrences.queued,
    c.LaunchesSkipped: occurrences.skipped,
    c.OccurrencesMissed: occurrences.missed,
    c.DueMoved: occurrences.due_moved,
    c.AttemptsStarted: launches.attempts_started,
    c.CancelsOrdered: launches.cancels_ordered,
    c.LaunchesAccepted: launches.accepted,
    c.LaunchesSucceeded: launches.succeeded,
    c.LaunchesEnded: launches.ended,
    c.AttemptsFailed: launches.attempts_failed,
    c.HandOversWithdrawn: launches.hand_overs_withdrawn,
    c.HistoryForgotten: history.forgotten,
    c.SchedulePut: schedules.put,
    c.SchedulesCreated: imports.created,
    c.ScheduleDeleted: schedules.deleted,
    c.ScheduleSwitched: schedules.switched,
    c.LaunchRequested: launches.requested,
    c.CancelRequested: launches.cancel_requested,
    c.LaunchResolved: launches.resolved,
    c.BackfillRequested: backfill.requested,
    c.DueRepaired: clock.due_repaired,
    c.TokenCreated: tokens.created,
    c.SessionOpened: tokens.session_opened,
    c.TokenRevoked: tokens.revoked,
    c.TokensUsed: tokens.used,
}


def execute(db: sqlite3.Connection, meta: Meta, entry: Entry) -> list[object]:
    """The changes of one entry, which change ``meta`` too. One result each: what it brought about, or a ``Refused``
    error. An entry of an old term is void: its author no longer held the lease when it was written."""
    if entry.term < meta.term:
        return []
    context = Context(db, meta, entry)
    epochs.leapt(context, meta.time_ms, entry.time_ms)
    return [handle(context, change) for change in entry.changes]


def handle(context: Context, change: c.Change) -> object:
    try:
        handler = _HANDLERS[type(change)]
    except KeyError:
        raise UnknownChange(
            f"this version does not know the change {type(change).__name__}",
            hint="run the version that wrote it, or a newer one",
        ) from None
    return handler(context, change)


def finish(
    db: sqlite3.Connection, meta: Meta, seq: int, entry: Entry, raw: bytes, results: Sequence[object]
) -> None:
    """Save the facts: after this the transaction can be committed."""
    meta.seq, meta.last_id = seq, entry.id
    if not any(type(change) is c.ClockSet for change in entry.changes):  # it says what time it is
        if entry.time_ms < meta.time_ms:  # by a little: names up to there may have been launched
            meta.ahead_until_ms = max(meta.ahead_until_ms, meta.time_ms)
        meta.time_ms = max(meta.time_ms, entry.time_ms)
    meta.digest = running_digest(meta.digest, raw, results)
    save_meta(db, meta)


def copy_of(meta: Meta) -> Meta:
    return msgspec.structs.replace(meta)
