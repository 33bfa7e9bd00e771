"""A caller's command becomes a change, at the time and on the state of the entry that it goes into."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.decide import backfill
from tocsin.decide.due import LOOK_AGAIN_MS
from tocsin.decide.missed import Presence, catch_up_slot
from tocsin.decide.settling import kept_text, reanchored_text, settled_text
from tocsin.decide.timeline import Plan, Slot, first_slot, plan
from tocsin.errors import InvalidSchedule, Refused
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    Command,
    ConfirmClock,
    CreateToken,
    DeleteSchedule,
    LaunchNow,
    MakeCheckpoint,
    NoteTokenUse,
    OpenSession,
    PutSchedule,
    PutSchedules,
    RepairDue,
    ResolveLaunch,
    RevokeToken,
    SwitchSchedule,
)
from tocsin.model.ids import parse_launch_name
from tocsin.model.launch import LaunchState
from tocsin.model.rule import encode_rule
from tocsin.state import past, queries, queued
from tocsin.state.views import decode_spec

BACKFILLS_WAITING_MAX = 20_000
"""They are looked through at every turn, so there must not be any number of them."""


def prepare(db: sqlite3.Connection, command: Command, now_ms: int) -> c.Change:
    """The change that carries out the command, if ``apply`` finds that it still fits."""
    match command:
        case PutSchedule():
            return _put(db, command, now_ms)
        case PutSchedules():
            raise TypeError("many are prepared together, by prepare_many")
        case SwitchSchedule():
            return _switch(db, command, now_ms)
        case DeleteSchedule():
            return c.ScheduleDeleted(command.id, command.expect, command.actor)
        case LaunchNow():
            return c.LaunchRequested(command.id, now_ms // 1000, command.actor)
        case CancelLaunch():
            name = parse_launch_name(command.name)
            return c.CancelRequested(
                name.schedule, name.instant_s, name.manual, command.reason, command.actor
            )
        case ResolveLaunch():
            name = parse_launch_name(command.name)
            again = command.outcome == "relaunch"
            state = None if again else int(LaunchState[command.outcome.upper()])
            return c.LaunchResolved(
                name.schedule, name.instant_s, name.manual, state, command.note, command.actor
            )
        case Backfill():
            chosen = past_occurrences(db, command, now_ms)[0]
            instants = [found.instant_s for found in chosen if found.launch]
            if queued.backfills_waiting(db) + len(instants) > BACKFILLS_WAITING_MAX:
                raise Refused(
                    f"more than {BACKFILLS_WAITING_MAX} launches would wait to be made up for",
                    hint="wait until some of them have ended, or ask for a shorter time",
                )
            return c.BackfillRequested(command.id, instants, command.actor)
        case CreateToken():
            return c.TokenCreated(command.token, command.actor)
        case OpenSession():
            return c.SessionOpened(command.session)
        case RevokeToken():
            return c.TokenRevoked(command.id, command.actor)
        case NoteTokenUse():
            return c.TokensUsed(list(command.used_ms), list(command.used_ms.values()))
        case MakeCheckpoint():
            return c.Checkpoint()
        case ConfirmClock():
            return c.ClockSet(command.now_ms, command.actor, "a person confirmed it", command.stopped_ms)
        case RepairDue():
            return _repair(db, command, now_ms)


def past_occurrences(
    db: sqlite3.Connection, command: Backfill, now_ms: int
) -> tuple[list[backfill.Past], bool]:
    """What a backfill would do: every occurrence in its range, and whether there are more."""
    settled = plan(*past.timing(db, command.id))
    now_s = now_ms // 1000
    known = backfill.Known(
        *past.known(db, command.id, command.from_s, command.until_s, command.recorded_since_s, now_s)
    )
    return backfill.choose(settled, known, command.from_s, command.until_s, now_s, command.unrecorded)


def _put(db: sqlite3.Connection, command: PutSchedule, now_ms: int) -> c.SchedulePut:
    schedule = command.schedule
    found = db.execute("SELECT resolved, spec, enabled FROM schedule WHERE id = ?", (schedule.id,)).fetchone()
    resolved = None if found is None else kept_text(schedule, decode_spec(found[1]), found[0])
    is_resumed = command.restored is not None or (resolved is not None and not found[2])
    if resolved is None:
        resolved = _restored_text(db, command)
    if resolved is None:
        resolved = settled_text(schedule, now_ms // 1000)
    first: Slot | None = None
    if schedule.enabled:
        settled = plan(resolved, schedule.timezone, encode_rule(schedule.rule()))
        first = _first(db, settled, schedule.id, now_ms, is_resumed)
    return c.SchedulePut(
        schedule=schedule,
        resolved=resolved,
        expect=command.expect,
        first_instant_s=None if first is None else first.instant_s,
        first_delay_ms=0 if first is None else first.delay_ms,
        actor=command.actor,
        restored=command.restored,
        skip_past=command.skip_past,
    )


def _restored_text(db: sqlite3.Connection, command: PutSchedule) -> str | None:
    """What is brought back has the timeline that it had: ``@every`` goes on from its old anchor."""
    if command.restored is None:
        return None
    former = db.execute(
        "SELECT resolved, spec FROM revision WHERE id = ? AND version = ?",
        (command.schedule.id, command.restored),
    ).fetchone()
    return None if former is None else kept_text(command.schedule, decode_spec(former[1]), former[0])


def _first(db: sqlite3.Connection, settled: Plan, id: str, now_ms: int, is_resumed: bool) -> Slot | None:
    """Where the timeline begins. What passed while it was paused or deleted was not missed."""
    now_s = now_ms // 1000
    ahead = queries.decided_ahead(db, id, now_s)
    first = first_slot(settled, id, now_s, ahead.upto_s, ahead.unrecorded_s, ahead.taken, ahead.deleted)
    if first is not None and ahead.newest_s is not None and queries.has_launch(db, id, first.instant_s):
        first = first_slot(settled, id, now_s, ahead.newest_s, ahead.unrecorded_s, deleted=ahead.deleted)
    return None if is_resumed and first is not None and first.instant_s <= now_s else first


def _repair(db: sqlite3.Connection, command: RepairDue, now_ms: int) -> c.DueRepaired:
    change = c.DueRepaired([], [], [], [], command.is_last, command.actor, texts := [])
    for wrong in repairs(db, command.ids, now_ms):
        change.sids.append(wrong.sid)
        change.versions.append(wrong.version)
        change.instants_s.append(wrong.to.instant_s)
        change.delays_ms.append(wrong.to.delay_ms)
        texts.append(wrong.text)
    return change


class Repair(NamedTuple):
    """A schedule whose next instant is later than it should be."""

    sid: int
    version: int
    id: str
    from_s: int | None
    """Its next instant as it is; None: it has none."""
    to: Slot
    text: str | None = None
    """The text as it is settled anew; None: the text stays."""


def _sooner(settled: Plan, id: str, instant_s: int, at_ms: int, now_ms: int) -> Slot | None:
    """Its instant is over, and it is to be launched later than jitter and a spread explain; None: it is not."""
    planned = settled.slot(id, instant_s)
    if at_ms <= max(planned.planned_ms, now_ms + max(settled.rule.spread_ms, LOOK_AGAIN_MS)):
        return None
    return max(planned, catch_up_slot(settled, id, instant_s, Presence(now_ms, instant_s * 1000)))


def repairs(db: sqlite3.Connection, ids: Sequence[str], now_ms: int) -> list[Repair]:
    """Those of these schedules that would launch earlier if their next instant were computed now."""
    found: list[Repair] = []
    for sid, version, id, resolved, zone, rule, spec, due_s, at_ms in queries.with_due(db, ids):
        if due_s is not None and due_s * 1000 <= now_ms:
            if at_ms is not None and (slot := _sooner(plan(resolved, zone, rule), id, due_s, at_ms, now_ms)):
                found.append(Repair(sid, version, id, due_s, slot))
            continue
        try:
            text = reanchored_text(decode_spec(spec), resolved, now_ms // 1000)
            first = _first(db, plan(text, zone, rule), id, now_ms, is_resumed=True)
        except InvalidSchedule:  # this machine's time zones are others
            continue
        # With jitter an earlier instant may be planned for a later moment.
        is_earlier = first is not None and (
            due_s is None or at_ms is None or first.instant_s < due_s or first.planned_ms < at_ms
        )
        if first is not None and is_earlier and not queries.has_launch(db, id, first.instant_s):
            found.append(Repair(sid, version, id, due_s, first, None if text == resolved else text))
    return found


def _switch(db: sqlite3.Connection, command: SwitchSchedule, now_ms: int) -> c.ScheduleSwitched:
    first: Slot | None = None
    if command.enabled:
        found = db.execute("SELECT resolved, zone, rule FROM schedule WHERE id = ?", (command.id,)).fetchone()
        if found is not None:
            first = _first(db, plan(*found), command.id, now_ms, is_resumed=True)
    return c.ScheduleSwitched(
        id=command.id,
        enabled=command.enabled,
        expect=command.expect,
        note=command.note,
        first_instant_s=None if first is None else first.instant_s,
        first_delay_ms=0 if first is None else first.delay_ms,
        actor=command.actor,
    )
