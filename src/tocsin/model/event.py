"""What happened, as it is told live and again: one event for each thing that an entry of the journal brought about.

An event's id is ``<sequence>.<slot>-<mark>``: the entry, the place of the event in it, and a mark of the record. They
are the same on every replica and for every reader, whatever it filters; so whoever says which event it saw last is told
exactly what came behind it. When the end of the record was lost, the numbers of lost entries are given a second time,
under another mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from tocsin.errors import InvalidInput

LAUNCH_KINDS = (
    "launch.started",
    "launch.running",
    "launch.retrying",
    "launch.queued",
    "launch.cancelling",
    "launch.succeeded",
    "launch.failed",
    "launch.skipped",
    "launch.cancelled",
    "launch.in_doubt",
    "launch.resolved",
)
SCHEDULE_KINDS = (
    "schedule.created",
    "schedule.edited",
    "schedule.paused",
    "schedule.resumed",
    "schedule.restored",
    "schedule.deleted",
)
KINDS = (
    *LAUNCH_KINDS,
    *SCHEDULE_KINDS,
    "occurrences.missed",
    "office.taken",
    "office.resigned",
    "service.returned",
)
GAP, END = "gap", "end"
"""Told about the stream itself. No filter holds them back."""

_ID = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(?:-([0-9a-f]{8}))?")
MARK_CHARACTERS = 8


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. What a kind of event has nothing to say about is left out."""

    id: str
    at: datetime
    kind: str
    schedule: str | None = None
    """None: it is not about a schedule."""

    # Of a launch
    name: str | None = None
    scheduled_at: datetime | None = None
    state: str | None = None
    attempt: int | None = None
    reason: str = ""
    exit_code: int | None = None
    ended_at: datetime | None = None
    retry_at: datetime | None = None

    # Of what a person did
    version: int | None = None
    actor: str = ""

    # Of missed occurrences, of an absence: from then until then, the end not included
    since: datetime | None = None
    until: datetime | None = None

    # Of an office
    term: int | None = None
    replica: str = ""

    # Of a gap: these entries are no longer kept, so nothing can be told of them. Without numbers: they were lost
    first_sequence: int | None = None
    last_sequence: int | None = None


class Place(NamedTuple):
    """The next thing to be told: a place in an entry."""

    seq: int
    slot: int

    def id(self, mark: str) -> str:
        """What resumes here."""
        return event_id(self.seq, self.slot - 1, mark) if self.slot else _marked(str(self.seq - 1), mark)


def event_id(seq: int, slot: int, mark: str) -> str:
    return _marked(f"{seq}.{slot}", mark)


def _marked(number: str, mark: str) -> str:
    return f"{number}-{mark}" if mark else number


def place_behind(id: str, *, field: str) -> tuple[Place, str]:
    """Where to go on behind that event, and the mark of its record, if it has one. A sequence number alone stands for
    its whole entry; 0 for none."""
    found = _ID.fullmatch(id)
    if found is None or (found[2] is not None and int(found[1]) == 0):
        raise InvalidInput(
            f"{id[:60]!r} is not the id of an event",
            field=field,
            value=id[:200],
            allowed="the id of an event, such as 1042.3-5f0c92ab; or 0: everything that is kept",
        )
    seq = int(found[1])
    place = Place(seq + 1, 0) if found[2] is None else Place(seq, int(found[2]) + 1)
    return place, found[3] or ""


def kinds_of(given: Iterable[str], *, field: str) -> frozenset[str]:
    """The kinds that are asked for, with ``launch.*`` written out. Empty: all."""
    wanted: set[str] = set()
    for pattern in given:
        matching = {kind for kind in KINDS if kind == pattern or _is_family(pattern, kind)}
        if not matching:
            raise InvalidInput(
                f"{pattern[:60]!r} is not a kind of event",
                field=field,
                value=pattern[:200],
                allowed="launch.*, schedule.*, office.* or one of " + ", ".join(KINDS),
            )
        wanted |= matching
    return frozenset(wanted)


def _is_family(pattern: str, kind: str) -> bool:
    return pattern.endswith(".*") and kind.startswith(pattern[:-1])
