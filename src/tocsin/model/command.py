"""What a caller may ask for. The leader turns a command into a change at the moment it writes the entry, because
only then the time and the state that it applies to are known."""

from __future__ import annotations

import msgspec

from tocsin.model.schedule import Schedule


class PutSchedule(msgspec.Struct, frozen=True):
    """Create or replace. ``expect``: None anything, 0 the id must be free, n this very version."""

    schedule: Schedule
    expect: int | None = None
    actor: str = ""


class DeleteSchedule(msgspec.Struct, frozen=True):
    id: str
    expect: int | None = None
    actor: str = ""


class SwitchSchedule(msgspec.Struct, frozen=True):
    """Pause or resume."""

    id: str
    enabled: bool
    expect: int | None = None
    note: str = ""
    actor: str = ""


class LaunchNow(msgspec.Struct, frozen=True):
    id: str
    actor: str = ""


class CancelLaunch(msgspec.Struct, frozen=True):
    name: str
    reason: str = "cancelled by hand"
    actor: str = ""


Command = PutSchedule | DeleteSchedule | SwitchSchedule | LaunchNow | CancelLaunch
