"""What a caller may ask for. The leader turns a command into a change at the moment it writes the entry, because
only then the time and the state that it applies to are known. ``about`` names what it is about: no entry holds two
commands about the same."""

from __future__ import annotations

from typing import Literal

import msgspec

from tocsin.model.schedule import Schedule
from tocsin.model.token import Token


class PutSchedule(msgspec.Struct, frozen=True):
    """Create or replace. ``expect``: None anything, 0 the id must be free, n this very version."""

    schedule: Schedule
    expect: int | None = None
    actor: str = ""
    restored: int | None = None
    """The former version that this one is a copy of."""
    skip_past: bool = False
    """Do not make up for a moment that has passed."""

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


class ResolveLaunch(msgspec.Struct, frozen=True):
    """Say what became of a launch in doubt: succeeded, failed or skipped; or call it again."""

    name: str
    outcome: Literal["succeeded", "failed", "skipped", "relaunch"]
    note: str = ""
    actor: str = ""

    @property
    def about(self) -> str:
        return self.name


class Backfill(msgspec.Struct, frozen=True):
    """Launch what was not launched in ``[from, until)``. ``unrecorded``: also where no record is kept any more."""

    id: str
    from_s: int
    until_s: int
    unrecorded: bool = False
    recorded_since_s: int = 0
    """Older launches are no longer recorded."""
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class CreateToken(msgspec.Struct, frozen=True):
    token: Token
    actor: str = ""

    @property
    def about(self) -> str:
        return f"token {self.token.name}"


class RevokeToken(msgspec.Struct, frozen=True):
    id: str
    actor: str = ""

    @property
    def about(self) -> str:
        return f"token {self.id}"


class NoteTokenUse(msgspec.Struct, frozen=True):
    used_ms: dict[str, int]
    actor: str = ""

    @property
    def about(self) -> str:
        return "the use of tokens"


class MakeCheckpoint(msgspec.Struct, frozen=True):
    """Every replica makes a snapshot at the same entry."""

    actor: str = ""

    @property
    def about(self) -> str:
        return "a checkpoint"


Command = (
    PutSchedule
    | DeleteSchedule
    | SwitchSchedule
    | LaunchNow
    | CancelLaunch
    | ResolveLaunch
    | Backfill
    | CreateToken
    | RevokeToken
    | NoteTokenUse
    | MakeCheckpoint
)
