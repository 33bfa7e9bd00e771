"""A caller's command becomes a change, at the time and on the state of the entry that it goes into."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from tocsin.decide.timeline import Plan, Slot, first_slot, plan
from tocsin.model import change as c
from tocsin.model.command import CancelLaunch, Command, DeleteSchedule, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.model.ids import parse_launch_name
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule
from tocsin.state import queries
from tocsin.state.views import decode_spec


def prepare(db: sqlite3.Connection, command: Command, now_ms: int) -> c.Change:
    """The change that carries out the command, if ``apply`` finds that it still fits."""
    match command:
        case PutSchedule():
            return _put(db, command, now_ms)
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


def _put(db: sqlite3.Connection, command: PutSchedule, now_ms: int) -> c.SchedulePut:
    schedule = command.schedule
    found = db.execute("SELECT resolved, spec, enabled FROM schedule WHERE id = ?", (schedule.id,)).fetchone()
    resolved = None if found is None else _settled_before(schedule, found[0], decode_spec(found[1]))
    is_resumed = resolved is not None and not found[2]
    if resolved is None:
        resolved = schedule.expression(anchor=datetime.fromtimestamp(now_ms // 1000, UTC)).resolved
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
    )


def _first(db: sqlite3.Connection, settled: Plan, id: str, now_ms: int, is_resumed: bool) -> Slot | None:
    """Where the timeline begins. What passed while it was paused was not missed, it was paused."""
    now_s = now_ms // 1000
    first = first_slot(settled, id, now_s, queries.launched_upto_s(db, id))
    return None if is_resumed and first is not None and first.instant_s <= now_s else first


def _settled_before(schedule: Schedule, resolved: str, former: Schedule) -> str | None:
    """The settled text, if an edit leaves the text alone: ``@every`` must keep its anchor, in any zone."""
    same_text = schedule.cron == former.cron
    same_meaning = schedule.timezone == former.timezone or "@every" in resolved.lower()
    return resolved if same_text and same_meaning else None


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
