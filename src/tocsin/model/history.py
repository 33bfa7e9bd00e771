"""Who did what and when, as it is read back."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tocsin.model.schedule import Schedule


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person or a program."""

    number: int
    """Grows with time. 0: told from the schedule itself."""
    at: datetime
    actor: str
    act: str
    about: str
    """The schedule's id, or the token's name."""
    version: int | None
    """The version of the schedule that it brought about or met."""
    launch: str
    """The launch it was about, if it was about one."""
    note: str


class RecordPage(msgspec.Struct, frozen=True):
    """A part of the record, the newest first."""

    items: list[RecordView]
    cursor: str = ""


class VersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it was for some time."""

    version: int
    since: datetime
    until: datetime | None
    """None: it is still in force."""
    act: str
    actor: str
    note: str
    ended_by: str
    """What ended it: edited, paused, resumed, restored or deleted. Empty: it is still in force."""
    schedule: Schedule


class VersionList(msgspec.Struct, frozen=True):
    """All versions that are kept, the newest first."""

    schedule: str
    items: list[VersionView]


class PastView(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence in the range of a backfill, and what is to become of it."""

    at: datetime
    launch: bool
    why: str


class BackfillView(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill does, or would do."""

    schedule: str
    preview: bool
    """True: nothing was done."""
    launches: int
    """How many occurrences are launched, one at a time, the oldest first."""
    left_out: int
    more: bool
    """The range holds more occurrences than one request covers: ask again behind the last one."""
    items: list[PastView]
