"""Entries go in. One file a family of changes; ``apply`` here is the table of contents.

Deterministic: the same entries give the same state on every replica, because nothing here asks a clock, a random
source or the environment. A change of an unknown kind stops the replica loudly. One entry is one transaction
together with its sequence number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from tocsin.errors import Gap, UnknownChange
from tocsin.model import change as c
from tocsin.model.entry import Entry, Position, chain_broken
from tocsin.state.apply import backfill, history, imports, launches, occurrences, office, schedules, tokens
from tocsin.state.apply.context import Context
from tocsin.state.digest import running_digest
from tocsin.state.store import Store, save_meta

_Handler = Callable[[Context, Any], object]

_HANDLERS: dict[type, _Handler] = {
    c.TookOffice: office.took_office,
    c.Renewed: office.renewed,
    c.Resigned: office.resigned,
    c.Returned: office.returned,
    c.Restored: office.restored,
    c.Checkpoint: office.checkpoint,
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
    c.TokenCreated: tokens.created,
    c.TokenRevoked: tokens.revoked,
    c.TokensUsed: tokens.used,
}


def apply(store: Store, seq: int, entry: Entry, raw: bytes) -> list[object]:
    """Apply one entry. Returns one result a change: what it brought about, or a ``Refused`` error.

    An entry of an old term is void: its author was no longer in office when it was written.
    """
    if seq != store.meta.seq + 1:
        raise Gap(f"entry {seq} does not follow {store.meta.seq}, which is the last one applied")
    if entry.prev != store.meta.last_id:
        raise chain_broken(store.meta.position, Position(seq - 1, entry.prev))
    meta = _copy(store.meta)
    results: list[object] = []

    def work(db: sqlite3.Connection) -> None:
        context = Context(db, meta, entry)
        if entry.term >= meta.term:
            for change in entry.changes:
                results.append(_handler(change)(context, change))
        meta.seq, meta.last_id = seq, entry.id
        meta.time_ms = max(meta.time_ms, entry.time_ms)
        meta.digest = running_digest(meta.digest, raw)
        save_meta(db, meta)

    store.transact(work)
    store.meta = meta
    return results


def _handler(change: object) -> _Handler:
    try:
        return _HANDLERS[type(change)]
    except KeyError:
        raise UnknownChange(
            f"this version does not know the change {type(change).__name__}",
            hint="run the version that wrote it, or a newer one",
        ) from None


def _copy(meta: Any) -> Any:
    return type(meta)(**{name: getattr(meta, name) for name in meta.__struct_fields__})
