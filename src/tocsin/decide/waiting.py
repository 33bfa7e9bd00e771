"""Launches that wait: queued behind an earlier one, or for the moment of their next attempt."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.decide.timeline import plan
from tocsin.errors import InvalidSchedule
from tocsin.model.rule import Overlap


class QueuedRow(NamedTuple):
    """A queued launch whose schedule has nothing else open."""

    lid: int
    instant_s: int
    is_started: int
    """A person has it called again. False also of one that may have been called in a record that was lost."""
    asked_ms: int | None
    id: str
    resolved: str
    zone: str
    rule: bytes | None
    is_held: int = 0
    """A launch of the schedule is in doubt and keeps its place."""


class QueuedDecision(NamedTuple):
    """What becomes of a queued launch."""

    may_start: bool
    expires_ms: int | None = None
    """From this moment on the launch is skipped; None: it has no deadline."""
    skip_reason: str = ""
    """Empty: the launch is not skipped."""


class RetryRow(NamedTuple):
    """A launch whose next attempt is due."""

    lid: int
    attempt: int


def decide_queued(row: QueuedRow, now_ms: int) -> QueuedDecision:
    """Whether it starts now, if there is room, and whether it has waited past its deadline."""
    try:
        settled = plan(row.resolved, row.zone, row.rule)
    except InvalidSchedule:
        return QueuedDecision(may_start=False)  # it waits until its zone can be read again
    rule, expires_ms = settled.rule, None
    # A person who asks for an occurrence after the fact knows that it is late; a launch whose call is recorded has
    # started.
    if rule.deadline_ms and row.asked_ms is None and not row.is_started:
        planned_ms = settled.slot(row.id, row.instant_s).planned_ms
        expires_ms = planned_ms + rule.deadline_ms + 1
        if expires_ms <= now_ms:
            waited_s, allowed_s = (now_ms - planned_ms) / 1000, rule.deadline_ms // 1000
            reason = f"deadline: it waited {waited_s:.0f} s, {allowed_s} s are allowed"
            return QueuedDecision(may_start=False, skip_reason=reason)
    return QueuedDecision(not row.is_held or rule.overlap is Overlap.ALLOW, expires_ms)
