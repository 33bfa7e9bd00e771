"""An audit: what was expected of schedules in a time, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

LATE_MS = 5_000
"""A start later than this after its planned moment is late. A change of leaders takes less."""
SKIPPED_FOR = (
    "missed",
    "lost_record",
    "overlap",
    "deadline",
    "deleted",
    "edited",
    "imported",
    "resolved",
    "other",
)
"""Why occurrences were not launched, in classes:

``missed`` nothing was decided then; ``lost_record`` a journal was lost, and it may have been launched; ``overlap`` and
``deadline`` the policies; ``deleted`` and ``edited`` the schedule was, or was paused, before it could be launched;
``imported`` its moment had passed when it came; ``resolved`` a person, or the replica that was to call, said so.
"""
FINDINGS = (
    "doubled",
    "repeated",
    "unaccounted",
    "early",
    "no_occurrence",
    "not_in_force",
    "no_start",
    "unreadable",
)
HARMLESS = ("unreadable",)
"""Kinds of findings that are about the audit itself, and not about what was launched."""


# What is judged


class Version(NamedTuple):
    """What was in force of a schedule, and for how long."""

    version: int
    since_ms: int
    until_ms: int
    enabled: bool
    resolved: str
    zone: str
    rule: bytes | None


class Row(NamedTuple):
    """A launch, as far as it is judged."""

    instant_s: int
    version: int
    state: int
    planned_ms: int | None
    asked_ms: int | None
    started_ms: int | None
    reason: str | None


class Past(NamedTuple):
    """What is recorded about one schedule in the time that is judged."""

    sid: int
    id: str
    versions: Sequence[Version]
    rows: Sequence[Row]
    missed: Sequence[tuple[int, int, str]]
    """Stretches [from, before) that were given up, and why."""
    due_instant_s: int | None
    """The first instant that is not decided yet. None: there is none to come."""
    forgotten_upto_s: int = -1
    """Launches up to this instant may be no longer recorded."""
    kept_since_s: int = 0
    """What is older may be no longer recorded: history has an age and a size."""
    passed_upto_s: Mapping[int, int] = {}
    """By version: the newest instant that an earlier one had decided: where it begins if a clock was put back."""
    settled_anew: frozenset[int] = frozenset()
    """Versions whose next instant was repaired: an ``@every`` may have been counted from another moment before."""
    spec: bytes = b""
    """The newest version of the schedule, as written."""


class Started(NamedTuple):
    """A launch that the state knows, as the journal's entries are held against it."""

    lid: int
    sid: int
    instant_s: int
    kind: int
    attempt: int
    started_ms: int | None
    """The first start, or the first since it was backfilled."""
    asked_ms: int | None = None
    """When a person asked for it after the fact, the last time."""
    asked_seq: int | None = None
    """The entry of that. None: it was not asked for, or nobody knows any more by which entry."""

    def is_asked_after(self, seq: int) -> bool:
        """Was it backfilled behind that entry? Then the record says nothing of what the entry started or ended."""
        return self.asked_ms is not None and (self.asked_seq is None or seq < self.asked_seq)


class Force(NamedTuple):
    """A version, the schedule's id, and the entry that put an end to it (None: none that is recorded)."""

    id: str
    resolved: str
    zone: str
    rule: bytes | None
    ended_seq: int | None
    settled_seq: int | None = None
    """The last entry that repaired its next instant. An ``@every`` may have been counted from another moment before."""


# What is told


class AuditCounts(msgspec.Struct, kw_only=True):
    """The occurrences of a time, by what became of them.

    ``expected`` is the sum of ``succeeded``, ``failed``, ``cancelled``, ``in_doubt``, ``skipped``, ``open``,
    ``waiting``, ``forgotten`` and ``unaccounted``; ``started`` that of ``on_time``, ``late`` and ``backfilled``.
    """

    expected: int = 0
    """Reckoned anew from the text of every version that was in force."""
    started: int = 0
    on_time: int = 0
    late: int = 0
    """Started more than 5 s after the planned moment."""
    backfilled: int = 0
    """Started because a person asked for it after the fact."""
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    in_doubt: int = 0
    skipped: dict[str, int] = {}
    """By reason."""
    open: int = 0
    waiting: int = 0
    """Not decided yet, or waiting for another launch to end."""
    forgotten: int = 0
    """Their history is no longer kept."""
    unaccounted: int = 0
    """Expected, and nothing is recorded: there must be none."""
    doubled: int = 0
    """Started twice, by what the journal says: there must be none."""
    latest_ms: int = 0
    """How late the latest one started."""

    @property
    def skips(self) -> int:
        return sum(self.skipped.values())

    def add(self, other: AuditCounts) -> None:
        for name in self.__struct_fields__:
            if name == "skipped":
                for reason, number in other.skipped.items():
                    self.skipped[reason] = self.skipped.get(reason, 0) + number
            elif name == "latest_ms":
                self.latest_ms = max(self.latest_ms, other.latest_ms)
            else:
                setattr(self, name, getattr(self, name) + getattr(other, name))


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must not be."""

    kind: str
    """One of ``FINDINGS``."""
    schedule: str
    at: datetime | None
    """The instant that it is about."""
    told: str
    """In words."""
    sequence: int | None = None
    """The journal's entry that shows it."""


class AuditItem(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one schedule."""

    schedule: str
    counts: AuditCounts
    judged_until: datetime | None = None
    """Where the work for one schedule ended: what comes after is not in the account. None: nowhere."""
    at_least: bool = False
    """What was given up or forgotten is more than could be counted."""


class JournalCover(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the journal that was read."""

    entries: int
    since: datetime | None
    """The first entry of that time. From here on doubling and order are judged by the journal. None: there is none."""
    until: datetime | None
    whole: bool
    """Nothing of that time had been trimmed. Else what is older than the first entry is judged by the record alone."""


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an audit. Whoever asks adds the parts up; ``cursor`` asks for the next, empty: there is none."""

    since: datetime
    until: datetime
    items: list[AuditItem]
    """Schedules of which an occurrence was expected or recorded."""
    schedules: int
    """How many were looked at for this page."""
    counts: AuditCounts
    """Of this page."""
    findings: list[Finding]
    findings_left_out: int = 0
    journal: JournalCover | None = None
    """What this page read of the journal, if it did: the journal comes first, then the schedules."""
    lost_record: bool = False
    """In this time or later a journal was lost and restored: what is not recorded may have been launched."""
    cursor: str = ""
