"""The leader's wall clock, and next instants that were computed under a wrong one: as they are shown and asked for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from tocsin.model.cluster import ClockState
from tocsin.model.request import Moment


class ClockView(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's wall clock."""

    leader: str
    """Empty: nobody is known to lead, and it is the clock of the replica that answers."""
    is_believed: bool
    state: ClockState
    shows: datetime
    """What the machine's wall clock shows."""
    believed: datetime
    """The time that entries are stamped with."""
    step_s: int
    ahead_until: datetime | None
    """The clock was ahead up to this moment and was put back, and next instants have not been repaired since."""


class ConfirmClockRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``now``: what the clock showed to whoever confirms it. It may have gone on by a few seconds since."""

    now: Moment


class RepairDueRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which schedules to look at."""

    prefix: Annotated[str, msgspec.Meta(max_length=200)] = ""
    preview: bool = False
    after: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Go on behind this id."""


class RepairedView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule whose next instant was later than it should be."""

    schedule: str
    was: datetime | None
    """None: it had none."""
    next: datetime


class RepairView(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a repair."""

    preview: bool
    looked_at: int
    repaired: int
    items: list[RepairedView]
    """The first of them."""
    after: str
    """Ask again with this to go on. Empty: that was all."""
