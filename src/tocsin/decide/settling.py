"""What a schedule's text is settled as when it is written: decided once, stored, and kept by later edits."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.decide.timeline import Plan, Slot, first_slot, plan
from tocsin.model.new import NewSchedules
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Checked, Schedule


def kept_text(schedule: Schedule, former: Schedule, resolved: str) -> str | None:
    """The settled text, if an edit leaves the text alone: ``@every`` must keep its anchor, in any zone."""
    same_text = schedule.cron == former.cron
    same_meaning = schedule.timezone == former.timezone or "@every" in resolved.lower()
    return resolved if same_text and same_meaning else None


def settled_text(schedule: Schedule, now_s: int) -> str:
    """A new text: ``?`` and ``~`` settled by the id, ``@every`` counted from now on."""
    return schedule.expression(anchor_of(now_s)).resolved


def anchor_of(now_s: int) -> datetime:
    """The moment that ``@every`` counts from, of what is written now."""
    return datetime.fromtimestamp(now_s, UTC)


def add_new(new: NewSchedules, checked: Checked, spec: bytes, now_s: int) -> None:
    """One more schedule, whose id was never in use, settled as of now."""
    schedule, expression, rule = checked
    if "@every" in expression.resolved:
        expression = schedule.expression(anchor_of(now_s))
    resolved, raw_rule = expression.resolved, encode_rule(rule)
    first: Slot | None = None
    if schedule.enabled and "@at" in resolved:
        # Moments are mostly unlike each other: to remember a plan for each would cost more than it spares.
        first = first_slot(Plan(expression, rule), schedule.id, now_s, -1)
    elif schedule.enabled:
        first = first_slot(plan(resolved, schedule.timezone, raw_rule), schedule.id, now_s, -1)
    new.ids.append(schedule.id)
    new.specs.append(spec)
    new.resolved.append(resolved)
    new.zones.append(schedule.timezone)
    new.rules.append(raw_rule)
    new.enabled.append(schedule.enabled)
    new.first_instants_s.append(None if first is None else first.instant_s)
    new.first_delays_ms.append(0 if first is None else first.delay_ms)
