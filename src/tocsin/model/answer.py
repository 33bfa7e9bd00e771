"""What the API answers with, beside schedules and launches themselves.

The server encodes these and the client decodes them: one definition each.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tocsin.model.launch import AttemptView, LaunchView, StepView
from tocsin.model.schedule import ScheduleView


class SchedulePage(msgspec.Struct, frozen=True):
    """A part of the list of schedules. ``cursor`` asks for the next part; empty: there is none."""

    items: list[ScheduleView]
    cursor: str = ""


class LaunchPage(msgspec.Struct, frozen=True):
    """A part of the list of launches, the newest first."""

    items: list[LaunchView]
    cursor: str = ""


class LaunchDetail(LaunchView, frozen=True, kw_only=True):
    """A launch with the attempts that came before its last one, and every step that is recorded."""

    attempts: list[AttemptView]
    steps: list[StepView]
    """All that is recorded about it."""


class OutputView(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt printed: its beginning, its end, and how many bytes between them were let go."""

    launch: str
    attempt: int
    head: str
    tail: str = ""
    dropped: int = 0
    complete: bool = True
    """False while it is still running."""
    position: int = 0
    """How many bytes were printed up to the end of this: what ``after`` goes on with."""


class UpcomingView(msgspec.Struct, frozen=True, kw_only=True):
    """The next instants of a schedule. A paused one has them too, but none of them is launched."""

    schedule: str
    timezone: str
    resolved: str
    enabled: bool
    items: list[datetime]


class WhyView(msgspec.Struct, frozen=True, kw_only=True):
    """Why there was a launch at an instant, or why not."""

    schedule: str
    at: datetime
    answer: str
    launches: list[LaunchView]


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """How the service is doing."""

    replica: str
    version: str
    started_at: datetime
    uptime_s: int
    role: str
    """Of this replica: leader, follower, starting, or former, which has resigned and is about to stop."""
    leader: str
    term: int
    sequence: int
    incarnation: str
    digest: str
    schedules: int
    enabled: int
    open: int
    retrying: int
    stalled: int
    """Open for far longer than they should be: past their time-out, or for more than a day without one."""
    lag_ms: int
    """How long the earliest due occurrence is overdue."""
    failed: int
    """Of the last 24 hours."""
    in_doubt: int
    missed: int
    """Of the last 24 hours."""
    next_due: datetime | None
    snapshot_sequence: int | None
    snapshot_age_s: int | None
    tzdata: str
    longest_iteration_ms: int = 0
    """Of this replica's leader loop, since the process started."""
    issues: list[str]
    """What somebody should look at, each a sentence. Empty: all is well."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457 problem details, with what an error of Tocsin knows."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: Any = None
    allowed: str | None = None
    hint: str | None = None
    retryable: bool | None = None
