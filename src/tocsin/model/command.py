"""What a caller may ask for. The leader turns a command into a change at the moment it writes the entry, because
only then the time and the state that it applies to are known. ``about`` names what it is about: no entry holds two
commands about the same."""

from __future__ import annotations

import msgspec

from tocsin.model.schedule import Schedule


class PutSchedule(msgspec.Struct, frozen=True):
    """Create or replace. ``expect``: None anything, 0 the id must be free, n this very version."""

    schedule: Schedule
    expect: int | None = None
    actor: str = ""

    @property
    def about(self) -> str:
        return self.schedule.id


class DeleteSchedule(msgspec.Struct, frozen=True):
    id: str
    expect: int | None = None
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class SwitchSchedule(msgspec.Struct, frozen=True):
    """Pause or resume."""

    id: str
    enabled: bool
    expect: int | None = None
    note: str = ""
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class LaunchNow(msgspec.Struct, frozen=True):
    id: str
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class CancelLaunch(msgspec.Struct, frozen=True):
    name: str
    reason: str = "cancelled by hand"
    actor: str = ""

    @property
    def about(self) -> str:
        return self.name


Command = PutSchedule | DeleteSchedule | SwitchSchedule | LaunchNow | CancelLaunch
