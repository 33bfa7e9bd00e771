"""What a new or changed schedule would do: asked for and answered before anything is written."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from tocsin.model.request import Moment
from tocsin.model.schedule import Schedule

DAYS_MAX = 366


class PreviewRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"from_": "from"}
):
    """A schedule as for PUT, and how far to look. ``from`` is RFC 3339; without it the window begins now."""

    schedule: Schedule
    days: Annotated[int, msgspec.Meta(ge=1, le=DAYS_MAX)] = 14
    from_: Moment | None = None


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A field that would change, ``retry.limit``. ``before`` or ``after`` is left out where it does not exist."""

    field: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


class Move(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """An occurrence that would be launched at another time of the same day."""

    from_: datetime
    to: datetime


class PreviewCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many launches there are in the window before and after the change, and what makes the difference."""

    before: int
    after: int
    appear: int
    vanish: int
    move: int


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of the schedule's zone change, and ``text`` says what becomes of this schedule then."""

    at: datetime
    offset_before_s: int
    offset_after_s: int
    text: str


class PreviewView(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What writing a schedule would change, compared with the stored one of the same id.

    The instants are the nominal ones: ``jitter`` delays each launch, but moves no occurrence. Of each list only the
    first ones are told; ``counts`` has them all. A schedule of very many occurrences is compared up to
    ``counted_until`` only: then ``complete`` is false, and everything here is true of the time until then.
    """

    schedule: str
    change: Literal["new", "changed", "unchanged"]
    version: int
    """Of the stored schedule that it was compared with; 0: there is none."""
    fields: list[FieldChange]
    resolved: str
    timezone: str
    enabled: bool
    from_: datetime
    until: datetime
    counted_until: datetime
    complete: bool
    counts: PreviewCounts
    appear: list[datetime]
    vanish: list[datetime]
    move: list[Move]
    transitions: list[Transition]
    notes: list[str]
    """What else is to be known, each a sentence."""
