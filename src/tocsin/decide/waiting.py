"""Launches that wait: queued behind an earlier one, or for the moment of their next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tocsin.decide.timeline import plan
from tocsin.errors import InvalidSchedule
from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.rule import Overlap


class QueuedRow(NamedTuple):
    """A queued launch whose schedule has nothing else open."""

    lid: int
    instant_s: int
    attempt: int
    asked_ms: int | None
    id: str
    resolved: str
    zone: str
    rule: bytes | None
    is_held: int = 0
    """A launch of the schedule is in doubt and keeps its place."""


class RetryRow(NamedTuple):
    """A launch whose next attempt is due."""

    lid: int
    attempt: int


def decide_waiting(
    queued: Sequence[QueuedRow], retries: Sequence[RetryRow], now_ms: int
) -> tuple[c.AttemptsStarted, c.LaunchesEnded]:
    """Which of them start now, and which have waited past their deadline."""
    started = c.AttemptsStarted([], [])
    ended = c.LaunchesEnded([], [], [], [], [], [])
    for row in queued:
        try:
            settled = plan(row.resolved, row.zone, row.rule)
        except InvalidSchedule:
            continue  # it waits until its zone can be read again
        deadline_ms = settled.rule.deadline_ms
        late_ms = now_ms - settled.slot(row.id, row.instant_s).planned_ms
        # Whoever asks for an occurrence after the fact knows that it is late; and what was called before has started.
        if deadline_ms and late_ms > deadline_ms and row.asked_ms is None and not row.attempt:
            ended.lids.append(row.lid)
            ended.attempts.append(row.attempt)
            ended.states.append(LaunchState.SKIPPED)
            ended.reasons.append(
                f"deadline: it waited {late_ms / 1000:.0f} s, {deadline_ms // 1000} s are allowed"
            )
            ended.ended_ms.append(now_ms)
            ended.exit_codes.append(None)
        elif not row.is_held or settled.rule.overlap is Overlap.ALLOW:
            started.lids.append(row.lid)
            started.attempts.append(row.attempt + 1)
    for retry in retries:
        started.lids.append(retry.lid)
        started.attempts.append(retry.attempt + 1)
    return started, ended
