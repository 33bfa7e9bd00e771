"""What is due, asked of the state and decided. Runs on the state's thread; nothing here waits."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from tocsin.decide.due import Decision, DueRow, OpenRow, decide_due
from tocsin.decide.missed import Presence
from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.rule import Overlap, decode_rule
from tocsin.replica.lanes import ROOM_FOR_ALL, Room
from tocsin.replica.outlook import Outlook
from tocsin.state import queries
from tocsin.state.store import Meta, Store


class Agenda(NamedTuple):
    """What is to be done at this moment."""

    decision: Decision
    attempts: c.AttemptsStarted
    expired: c.LaunchesEnded
    next_ms: int | None = None
    """The earliest moment at which something is to be looked at, if there is nothing to be done at this one."""

    def changes(self) -> list[c.Change]:
        """What waited comes first: what is due was decided with that in mind."""
        found: list[c.Change] = []
        if self.attempts.lids:
            found.append(self.attempts)
        if self.expired.lids:
            found.append(self.expired)
        return found + self.decision.changes()


def nothing() -> Agenda:
    """What is decided while the wall clock is not believed."""
    return Agenda(Decision(), c.AttemptsStarted([], []), c.LaunchesEnded([], [], [], [], [], []))


def agenda(
    store: Store, now_ms: int, limit: int, room: Room = ROOM_FOR_ALL, outlook: Outlook | None = None
) -> Agenda:
    """Up to ``limit`` due schedules for which there is room, and as many waiting launches."""
    db, outlook = store.db, outlook or Outlook()
    # What waited comes first to whatever room there is.
    retries = outlook.retries(db, now_ms, limit, room)
    attempts, expired = outlook.queued(db, now_ms, limit, room)
    attempts.lids.extend(retry.lid for retry in retries)
    attempts.attempts.extend(retry.attempt + 1 for retry in retries)
    rows = outlook.rows(db, now_ms, limit, room)
    presence = _presence(store.meta)
    open_beside = _open_where_it_matters(db, rows, now_ms, attempts, expired)
    decision = decide_due(rows, now_ms, presence, open_beside, outlook.without_room)
    ahead_s = store.meta.ahead_until_ms // 1000
    if ahead_s and min((row.instant_s for row in rows), default=ahead_s) <= ahead_s:
        _leave_out_taken(db, decision, ahead_s)
    outlook.decided(decision, now_ms)
    _name_limits(decision, outlook)
    plan = Agenda(decision, _without(attempts, set(decision.cancels.lids)), expired)
    return plan if plan.changes() else plan._replace(next_ms=outlook.next_wake_ms(db))


def _presence(meta: Meta) -> Presence:
    return Presence(
        meta.present_since_ms,
        meta.absent_since_ms,
        meta.doubtful_until_ms,
        (meta.lost_ahead_from_ms, meta.lost_ahead_until_ms),
    )


def _leave_out_taken(db: sqlite3.Connection, decision: Decision, ahead_s: int) -> None:
    """A clock was ahead up to that instant and was put back: an occurrence that was launched under its name then is not
    launched again, and its schedule goes on behind it."""
    pairs = [*zip(decision.sids, decision.instants_s, strict=True)]
    for column in (decision.skipped, decision.queued):
        pairs += zip(column.sids, column.instants_s, strict=True)
    near = [(sid, instant_s) for sid, instant_s in pairs if instant_s <= ahead_s]
    if near:
        decision.leave_out(queries.taken_of(db, *map(list, zip(*near, strict=True))))


def _name_limits(decision: Decision, outlook: Outlook) -> None:
    """What was skipped because it waited too long for a limit says so."""
    skipped = decision.skipped
    for place, sid in enumerate(skipped.sids):
        found = outlook.waited_for(sid)
        if found and skipped.reasons[place].startswith("deadline:"):
            skipped.reasons[place] += f"; it waited: the limit {found} was reached"


def _without(attempts: c.AttemptsStarted, replaced: set[int]) -> c.AttemptsStarted:
    """What is replaced in the same breath is not started for it."""
    if not replaced:
        return attempts
    kept = [pair for pair in zip(attempts.lids, attempts.attempts, strict=True) if pair[0] not in replaced]
    return c.AttemptsStarted([lid for lid, _ in kept], [attempt for _, attempt in kept])


def _open_where_it_matters(
    db: sqlite3.Connection,
    rows: list[DueRow],
    now_ms: int,
    attempts: c.AttemptsStarted,
    expired: c.LaunchesEnded,
) -> dict[int, list[OpenRow]]:
    """Open launches of the due schedules that have an overlap policy (most have none), as they will be when what
    waits has been decided: what starts now waits no longer."""
    starting, over = set(attempts.lids), set(expired.lids)
    asking = [row.sid for row in rows if row.rule and decode_rule(row.rule).overlap is not Overlap.ALLOW]
    found: dict[int, list[OpenRow]] = {}
    if asking:
        for sid, asked_ms, *rest in queries.open_launches(db, asking, now_ms):
            row = OpenRow(*rest)
            if row.lid in starting:
                row = row._replace(state=LaunchState.STARTED)
            # What was asked for after the fact waits for everything, and nothing waits for it.
            only_waits = asked_ms is not None and row.state == LaunchState.QUEUED
            if row.lid not in over and not only_waits:
                found.setdefault(sid, []).append(row)
    return found
