"""What a schedule's text is settled as when it is written: decided once, stored, and kept by later edits."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.model.schedule import Schedule


def kept_text(schedule: Schedule, former: Schedule, resolved: str) -> str | None:
    """The settled text, if an edit leaves the text alone: ``@every`` must keep its anchor, in any zone."""
    same_text = schedule.cron == former.cron
    same_meaning = schedule.timezone == former.timezone or "@every" in resolved.lower()
    return resolved if same_text and same_meaning else None


def settled_text(schedule: Schedule, now_s: int) -> str:
    """A new text: ``?`` and ``~`` settled by the id, ``@every`` counted from now on."""
    return schedule.expression(anchor=datetime.fromtimestamp(now_s, UTC)).resolved
