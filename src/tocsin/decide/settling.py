"""What a schedule's text is settled as when it is written: decided once, stored, and kept by later edits."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.cron import Expression
from tocsin.decide.timeline import Plan, first_slot
from tocsin.model.new import NewRow
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


def reanchored_text(schedule: Schedule, resolved: str, now_s: int) -> str:
    """The settled text. An ``@every`` that was made while the clock was ahead counts from then: it is to count from
    now."""
    is_own_anchor = "@every" in resolved.lower() and " from " not in schedule.cron.lower()
    if not is_own_anchor or Expression.parse(resolved).previous_unix(now_s + 1) is not None:
        return resolved
    return settled_text(schedule, now_s)


def anchor_of(now_s: int) -> datetime:
    """The moment that ``@every`` counts from, of what is written now."""
    return datetime.fromtimestamp(now_s, UTC)


def new_row(checked: Checked, spec: bytes, now_s: int) -> NewRow:
    """A schedule whose id was never in use, settled as of now."""
    schedule, expression, rule = checked
    resolved = expression.resolved
    if "@every" in resolved:
        expression = schedule.expression(anchor_of(now_s))
        resolved = expression.resolved
    # A plan of its own: most texts of a long list are unlike each other.
    first = first_slot(Plan(expression, rule), schedule.id, now_s, -1) if schedule.enabled else None
    instant_s, delay_ms = (None, 0) if first is None else first
    zone, enabled = schedule.timezone, schedule.enabled
    return schedule.id, spec, resolved, zone, encode_rule(rule), enabled, instant_s, delay_ms
