"""What a caller may ask for. The leader turns a command into a change at the moment it writes the entry, because
only then the time and the state that it applies to are known. ``about`` names what it is about: no entry holds two
commands about the same."""

from __future__ import annotations

from typing import Literal

import msgspec

from tocsin.model.new import NewSchedules
from tocsin.model.schedule import Schedule
from tocsin.model.token import Session, Token


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What all commands have."""

    bearer: str = ""
    """The id of the token that whoever asks came with: the leader looks whether it still gives the right. Empty: none
    was needed where they asked, or the service itself asks."""


class PutSchedule(_Asked, frozen=True):
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


class PutSchedules(_Asked, frozen=True):
    """Create or replace many, each as ``PutSchedule`` would, without one being able to stop the others. Its result
    tells by their place what became of those that were not simply created."""

    new: NewSchedules
    expect: int | None = None
    actor: str = ""
    skip_past: bool = False

    @property
    def about(self) -> str:
        return "many schedules"


class DeleteSchedule(_Asked, frozen=True):
    id: str
    expect: int | None = None
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class SwitchSchedule(_Asked, frozen=True):
    """Pause or resume."""

    id: str
    enabled: bool
    expect: int | None = None
    note: str = ""
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class LaunchNow(_Asked, frozen=True):
    id: str
    actor: str = ""

    @property
    def about(self) -> str:
        return self.id


class CancelLaunch(_Asked, frozen=True):
    name: str
    reason: str = "cancelled by hand"
    actor: str = ""

    @property
    def about(self) -> str:
        return self.name


class ResolveLaunch(_Asked, frozen=True):
    """Say what became of a launch in doubt: succeeded, failed or skipped; or call it again."""

    name: str
    outcome: Literal["succeeded", "failed", "skipped", "relaunch"]
    note: str = ""
    actor: str = ""

    @property
    def about(self) -> str:
        return self.name


class Backfill(_Asked, frozen=True):
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


class CreateToken(_Asked, frozen=True):
    token: Token
    actor: str = ""

    @property
    def about(self) -> str:
        return f"token {self.token.name}"


class OpenSession(_Asked, frozen=True):
    """Somebody has shown a token at the login of the console."""

    session: Session
    actor: str = ""

    @property
    def about(self) -> str:
        return "a login"


class RevokeToken(_Asked, frozen=True):
    """Of a token by its id or name, or of a session by its id."""

    id: str
    actor: str = ""

    @property
    def about(self) -> str:
        return f"token {self.id}"


class NoteTokenUse(_Asked, frozen=True):
    used_ms: dict[str, int]
    actor: str = ""

    @property
    def about(self) -> str:
        return "the use of tokens"


class MakeCheckpoint(_Asked, frozen=True):
    """Every replica makes a snapshot at the same entry."""

    actor: str = ""

    @property
    def about(self) -> str:
        return "a checkpoint"


class ConfirmClock(_Asked, frozen=True):
    """The leader's wall clock, which is not believed, is right."""

    now_ms: int
    """What it showed when whoever asks looked."""
    actor: str = ""
    stopped_ms: int | None = None
    """Since when nothing is decided. Only the leader knows."""

    @property
    def about(self) -> str:
        return "the clock"


class RepairDue(_Asked, frozen=True):
    """Compute the next instants of these schedules anew, where they are later than they should be."""

    ids: list[str]
    is_last: bool = False
    """All schedules were looked at."""
    actor: str = ""

    @property
    def about(self) -> str:
        return "many schedules"


Command = (
    PutSchedule
    | PutSchedules
    | DeleteSchedule
    | SwitchSchedule
    | LaunchNow
    | CancelLaunch
    | ResolveLaunch
    | Backfill
    | CreateToken
    | OpenSession
    | RevokeToken
    | NoteTokenUse
    | MakeCheckpoint
    | ConfirmClock
    | RepairDue
)
