"""The states of a launch, and how a launch is shown."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec


class LaunchState(enum.IntEnum):
    """Numbers below ``CLOSED_FROM`` are open: something is still to happen."""

    STARTED = 1
    """In the journal; being handed to its target."""
    RUNNING = 2
    """The target accepted it; the outcome comes later."""
    RETRYING = 3
    """An attempt failed; the next one waits for its moment."""
    QUEUED = 4
    """Waits for an earlier launch of the same schedule to end."""
    SUCCEEDED = 10
    FAILED = 11
    SKIPPED = 12
    CANCELLED = 13
    IN_DOUBT = 14


CLOSED_FROM = 10
RECORD_LOST = "missed: the record of this time was lost"
"""How the reason begins of what was given up without anybody knowing whether it had been launched."""
OUTCOME_UNKNOWN = "outcome unknown"
"""How the reason begins of an attempt after which it is called again although it may have gone out."""
HELD_MS = 3_600_000
"""So long a launch in doubt keeps its place in ``overlap`` and limits, if no ``timeout`` is known for it."""
LATE_REPEAT = "its deadline passed before it could be called again, and an earlier call may have gone out"
EARLIER_CALL = "an earlier call may have gone out"
"""Ends the reason of a launch whose last attempt ended for certain, and an earlier one did not."""
LOST_ATTEMPT = "the record of some time after it was lost, and another attempt may have been made"
RESOLVED = "in doubt: "
"""The same of one that a person looked at before it was called again."""


class LaunchKind(enum.IntEnum):
    """Why there is a launch."""

    SCHEDULED = 0
    MANUAL = 1


def shown_reason(state: int, reason: str | None, cancel: str | None) -> str:
    """Of a launch that is to be stopped and has not ended for certain, that too."""
    if cancel is not None and state == LaunchState.IN_DOUBT:
        if reason and EARLIER_CALL in reason:  # nobody keeps where that one was made
            return f"{reason}, and if it runs it is not stopped ({cancel})"
        to_be_stopped = f"it is stopped if the replica that was to call it tells that it runs ({cancel})"
        return f"{reason}; {to_be_stopped}" if reason else to_be_stopped
    if not reason and cancel is not None and state < CLOSED_FROM:
        return f"to be stopped: {cancel}"
    return reason or ""


class LaunchView(msgspec.Struct, frozen=True, kw_only=True):
    """A launch as it is read back."""

    name: str
    schedule: str
    scheduled_at: datetime
    state: str
    reason: str
    attempt: int
    term: int
    replica: str
    version: int
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    lateness_ms: int | None
    retry_at: datetime | None = None
    planned_at: datetime | None = None
    """When it was to start: at its instant, or later by its jitter, or when it was asked for after the fact."""
    backfilled: bool = False


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a launch, in the order of time."""

    at: datetime
    step: str
    """planned, asked for, started, accepted, ended, ...; or what a person did."""
    attempt: int | None = None
    actor: str = ""
    note: str = ""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was not the last one."""

    attempt: int
    started_at: datetime | None
    ended_at: datetime
    reason: str
    exit_code: int | None
