"""What the journal shows that the record cannot: starts that were made twice, too early, or by nobody's order.

The record has one row for each name, so it would hide a second start. The journal holds both. Each entry is held
against what the record says of the same launch; what was seen before is remembered, as far as it is open.

One name may be started twice if an entry between the two says that the first start came to no call, or a person said
so: then a backfill may start it. Of such a launch the record tells the start of the backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, repeat
from typing import NamedTuple, TypeVar

from tocsin.decide.audit import is_occurrence
from tocsin.errors import InvalidSchedule
from tocsin.model import change as c
from tocsin.model.audit import Finding, Force, Started
from tocsin.model.entry import Entry
from tocsin.model.launch import LaunchKind, LaunchState

REMEMBERED_MAX = 100_000
"""So many starts are remembered. What was started before them is found by the record alone."""

_T = TypeVar("_T")
_Ends = c.LaunchesAccepted | c.LaunchesSucceeded | c.LaunchesEnded | c.AttemptsFailed


class Mentioned(NamedTuple):
    """What has to be looked up before entries can be judged."""

    launches: list[tuple[int, int]]
    """Schedule and instant."""
    lids: list[int]
    versions: list[tuple[int, int]]
    """Schedule and version."""
    names: list[tuple[str, int]]
    """A schedule's id, and the instant."""


class Known(NamedTuple):
    """What the record says of it."""

    launches: Mapping[tuple[int, int], Started]
    by_lid: Mapping[int, Started]
    versions: Mapping[tuple[int, int], Force]
    ids: Mapping[int, str]
    sids: Mapping[str, int]
    """Of the names that were mentioned."""
    next_lid: int


class _Start(NamedTuple):
    seq: int
    lid: int | None
    """None: unknown, because the record has been that of a backfill since, which may have a number of its own."""
    was_none: bool = False
    """It came to no call, or a person said so: a backfill may start it."""


class _Call(NamedTuple):
    attempt: int
    term: int
    seq: int


def mentioned(entries: Iterable[tuple[int, Entry]]) -> Mentioned:
    """Each once, in the order in which they come."""
    launches: dict[tuple[int, int], None] = {}
    lids: dict[int, None] = {}
    versions: dict[tuple[int, int], None] = {}
    names: dict[tuple[str, int], None] = {}
    for _, entry in entries:
        for change in entry.changes:
            if isinstance(change, c.LaunchesStarted):
                launches |= dict.fromkeys(zip(change.sids, change.instants_s, strict=True))
                versions |= dict.fromkeys(zip(change.sids, change.versions, strict=True))
            elif isinstance(change, c.AttemptsStarted | c.HandOversWithdrawn | _Ends):
                lids |= dict.fromkeys(change.lids)
            elif isinstance(change, c.BackfillRequested):
                names |= dict.fromkeys((change.id, instant_s) for instant_s in change.instants_s)
            elif isinstance(change, c.LaunchResolved):
                names[change.schedule, change.instant_s] = None
    return Mentioned(list(launches), list(lids), list(versions), list(names))


def _was_not_called(change: c.LaunchResolved) -> bool:
    is_cancelled = change.state == LaunchState.CANCELLED and change.is_uncalled
    return change.state == LaunchState.SKIPPED or is_cancelled


class Retrace:
    """Goes through entries in their order. ``term``: the one in force before the first of them."""

    def __init__(self, term: int = 0) -> None:
        self._term = term
        self._starts: dict[tuple[int, int], _Start] = {}
        """By schedule and instant: its first start, or the first since it was backfilled."""
        self._calls: dict[int, _Call] = {}
        """By number: the attempt that was begun last."""
        self._forgotten_seq = 0
        """The last entry that deleted launches from the record."""

    def judge(self, entries: Sequence[tuple[int, Entry]], known: Known) -> list[Finding]:
        """What is wrong in these. Those of an old term are void, and so is what they say."""
        findings: list[Finding] = []
        for seq, entry in entries:
            if entry.term < self._term:
                continue
            self._term = entry.term
            for change in entry.changes:
                findings += self._of_change(seq, entry, change, known)
        self._forget()
        return findings

    def _of_change(self, seq: int, entry: Entry, change: c.Change, known: Known) -> list[Finding]:
        match change:
            case c.LaunchesStarted():
                return self._of_starts(seq, entry, change, known)
            case c.AttemptsStarted():
                return self._of_attempts(seq, entry, change, known)
            case c.HandOversWithdrawn():
                for lid, attempt in zip(change.lids, change.attempts, strict=True):
                    self._not_called(lid, known, was_none=attempt == 1)
            case c.LaunchesAccepted() | c.LaunchesSucceeded() | c.LaunchesEnded() | c.AttemptsFailed():
                self._note_ends(change, known)
                return _of_ends(seq, change, known)
            case c.LaunchResolved() if _was_not_called(change) and not change.manual:
                self._was_none((known.sids.get(change.schedule, 0), change.instant_s))
            case c.BackfillRequested():
                return self._of_backfill(seq, change, known)
            case c.HistoryForgotten() if change.lids:
                self._forgotten_seq = seq
            case c.Restored():
                self._calls.clear()  # what waited is taken for called
        return []

    def _of_starts(self, seq: int, entry: Entry, change: c.LaunchesStarted, known: Known) -> list[Finding]:
        found: list[Finding] = []
        planned = change.planned_ms or [None] * len(change.sids)
        columns = zip(change.sids, change.versions, change.instants_s, planned, strict=True)
        for sid, version, instant_s, planned_ms in columns:
            row = known.launches.get((sid, instant_s))
            lid = None if row is None or row.is_asked_after(seq) else row.lid
            told = _doubled(self._starts.get((sid, instant_s)), seq, entry.time_ms, row)
            self._starts.setdefault((sid, instant_s), _Start(seq, lid))
            if told:
                found.append(_finding("doubled", sid, instant_s, told, seq, known))
            elif lid is not None:
                self._calls[lid] = _Call(1, entry.term, seq)
            due_ms = instant_s * 1000 if planned_ms is None else planned_ms
            if entry.time_ms < due_ms:
                told = f"it was started {due_ms - entry.time_ms} ms before its planned moment"
                found.append(_finding("early", sid, instant_s, told, seq, known))
            force = known.versions.get((sid, version))
            if force is not None:
                found += _of_version(seq, sid, version, instant_s, force, known)
        return found

    def _of_attempts(self, seq: int, entry: Entry, change: c.AttemptsStarted, known: Known) -> list[Finding]:
        """A new leader may make an attempt again whose fate nobody knows. The same one may not."""
        found: list[Finding] = []
        for lid, attempt in zip(change.lids, change.attempts, strict=True):
            last = self._calls.get(lid)
            row = known.by_lid.get(lid)
            if last is not None and row is not None and attempt <= last.attempt and last.term == entry.term:
                told = f"attempt {attempt} was begun by entry {last.seq}, and again in the same term by entry {seq}"
                found.append(_finding("repeated", row.sid, row.instant_s, told, seq, known))
            self._calls[lid] = _Call(attempt, entry.term, seq)
            name = _occurrence(row)
            if name is not None and (name not in self._starts or self._starts[name].was_none):
                self._starts[name] = _Start(seq, lid)
        return found

    def _note_ends(self, change: _Ends, known: Known) -> None:
        """The number of each launch that ended here, and whether its target was called at all."""
        for lid in change.lids:
            name = _occurrence(known.by_lid.get(lid))
            if name in self._starts and self._starts[name].lid is None:
                self._starts[name] = self._starts[name]._replace(lid=lid)
        if isinstance(change, c.LaunchesEnded):
            for lid, state in zip(change.lids, change.states, strict=True):
                if state == LaunchState.SKIPPED:
                    self._not_called(lid, known)

    def _not_called(self, lid: int, known: Known, was_none: bool = True) -> None:
        """The attempt that was begun last came to no call, so the same one may be begun again. ``was_none``: nor did
        any before it."""
        self._calls.pop(lid, None)
        if was_none:
            self._was_none(_occurrence(known.by_lid.get(lid)))

    def _was_none(self, name: tuple[int, int] | None) -> None:
        if name in self._starts:
            self._starts[name] = self._starts[name]._replace(was_none=True)

    def _of_backfill(self, seq: int, change: c.BackfillRequested, known: Known) -> list[Finding]:
        """Not all that is asked for is taken: the record tells which entry took it."""
        found: list[Finding] = []
        sid = known.sids.get(change.id, 0)
        for instant_s in change.instants_s:
            start, row = self._starts.get((sid, instant_s)), known.launches.get((sid, instant_s))
            if start is None or row is None or row.asked_seq != seq:
                continue
            if not start.was_none and self._is_of(start, row):
                told = (
                    f"it was started by entry {start.seq}, no entry says that this came to no call, and entry {seq} "
                    "asked for it after the fact"
                )
                found.append(_finding("doubled", sid, instant_s, told, seq, known))
            self._was_none((sid, instant_s))
        return found

    def _is_of(self, start: _Start, row: Started) -> bool:
        """Is the record still that of this start? Where it was deleted, a person may have insisted on a backfill."""
        return self._forgotten_seq < start.seq if start.lid is None else start.lid == row.lid

    def _forget(self) -> None:
        """The oldest first: dictionaries keep the order of what came."""
        for start in _surplus(self._starts):
            del self._starts[start]
        for lid in _surplus(self._calls):
            del self._calls[lid]


def _surplus(remembered: Mapping[_T, object]) -> list[_T]:
    return list(islice(remembered, max(0, len(remembered) - REMEMBERED_MAX)))


def _occurrence(row: Started | None) -> tuple[int, int] | None:
    """Schedule and instant. None: it was launched by hand, or is recorded no more."""
    return None if row is None or row.kind != LaunchKind.SCHEDULED else (row.sid, row.instant_s)


def _doubled(first: _Start | None, seq: int, time_ms: int, row: Started | None) -> str:
    if first is not None:
        return f"it was started by entry {first.seq}, and again by entry {seq}"
    if row is None or row.is_asked_after(seq):
        return ""  # of what is recorded no more, the account tells; of a backfill, the entry that asks for it
    if row.asked_ms is not None:
        return f"entry {row.asked_seq} asked for it after the fact, and entry {seq} started it besides"
    if row.started_ms == time_ms:
        return ""
    if row.started_ms is None:
        return f"entry {seq} started it, and by the record it was never started"
    return (
        f"entry {seq} started it, and by the record another one did, {abs(time_ms - row.started_ms)} ms apart"
    )


def _of_version(
    seq: int, sid: int, version: int, instant_s: int, force: Force, known: Known
) -> list[Finding]:
    if force.ended_seq is not None and seq > force.ended_seq:
        told = f"it was started under version {version}, which entry {force.ended_seq} had put an end to"
        return [_finding("not_in_force", sid, instant_s, told, seq, known)]
    if force.settled_seq is not None and seq < force.settled_seq:
        return []  # the text that was in force then may have been another
    try:
        is_right = is_occurrence(force.resolved, force.zone, force.rule, instant_s)
    except InvalidSchedule:
        return []  # the account says so
    if is_right:
        return []
    told = f"it was started, and '{force.resolved}' ({force.zone}), version {version}, has no such instant"
    return [_finding("no_occurrence", sid, instant_s, told, seq, known)]


def _of_ends(seq: int, change: _Ends, known: Known) -> list[Finding]:
    """Attempt 0 is the end of what waited and never began. What is skipped was not called this time, whatever attempts
    it had before: it may have waited for a backfill, or in line when a record was lost."""
    found: list[Finding] = []
    states = change.states if isinstance(change, c.LaunchesEnded) else repeat(None)
    for lid, attempt, state in zip(change.lids, change.attempts, states, strict=False):
        row = known.by_lid.get(lid)
        if attempt == 0 or (row is None and lid < known.next_lid):
            continue  # it is recorded no more
        if row is None:
            told = f"entry {seq} tells how launch number {lid} went on, and none was ever given this number"
            found.append(Finding(kind="no_start", schedule="", at=None, told=told, sequence=seq))
        elif row.started_ms is None and state != LaunchState.SKIPPED and not row.is_asked_after(seq):
            told = f"entry {seq} tells how it went on, and by the record it was never started"
            found.append(_finding("no_start", row.sid, row.instant_s, told, seq, known))
    return found


def _finding(kind: str, sid: int, instant_s: int, told: str, seq: int, known: Known) -> Finding:
    at = datetime.fromtimestamp(instant_s, UTC)
    return Finding(kind=kind, schedule=known.ids.get(sid, ""), at=at, told=told, sequence=seq)
