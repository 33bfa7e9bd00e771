"""What several checkers need to read a history: indices, and the few excuses that hold for more than one claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tocsin.cron import Expression, parse_duration
from tocsin.model import change as c
from tocsin.model.command import PutSchedule, ResolveLaunch
from tocsin.model.schedule import Retry, Schedule
from tocsin.model.target import HttpTarget
from tocsin.simulation.history import Call, Final, History, Landed, LaunchRow, Lost, VersionRow

REPEATABLE = frozenset({"idempotent", "fenced", "herd"})
"""Receivers that do a thing once, however often they are told."""
OPEN = frozenset({"started", "running", "retrying", "queued"})


class InForce(NamedTuple):
    """An entry, and the term that was in force before it. It is void if its own term is lower."""

    landed: Landed
    term: int

    @property
    def is_void(self) -> bool:
        return self.landed.entry.term < self.term


def record(history: History) -> Final | None:
    """What is recorded in the end: as the leader has it, or whoever has heard most."""
    return history.final() or max(history.finals.values(), key=lambda final: final.seq, default=None)


def in_force(history: History) -> Iterator[InForce]:
    """Every entry in the order in which it came to stand, each journal going on where its former one was cut."""
    losses = sorted(history.lost, key=lambda lost: lost.at_ms)
    terms: dict[str, list[tuple[int, int]]] = {}  # by incarnation: from which entry on a term was in force
    done = 0
    for landed in sorted(history.landed, key=lambda landed: landed.at_ms):
        while done < len(losses) and (
            losses[done].at_ms <= landed.at_ms
            or landed.incarnation == losses[done].incarnation != losses[done].former
        ):
            lost, done = losses[done], done + 1
            former = terms.get(lost.former, [])
            terms[lost.incarnation] = [begun for begun in former if begun[0] <= lost.after]
        begun = terms.setdefault(landed.incarnation, [])
        term = begun[-1][1] if begun else 0
        yield InForce(landed, term)
        if landed.entry.term > term:
            begun.append((landed.seq, landed.entry.term))


def epoch(history: History, incarnation: str, seq: int, at_ms: float) -> int:
    """How often the same journal was put back to before this entry: what stood there is another one each time."""
    return sum(
        lost.former == lost.incarnation == incarnation and lost.after < seq and lost.at_ms <= at_ms
        for lost in history.lost
    )


def formers(history: History) -> dict[str, list[str]]:
    """By incarnation: itself and those that it goes on from, the nearest first."""
    origin = {lost.incarnation: lost.former for lost in history.lost if lost.incarnation != lost.former}
    found: dict[str, list[str]] = {}
    for incarnation in {landed.incarnation for landed in history.landed} | set(origin):
        line, former = [incarnation], origin.get(incarnation)
        while former is not None and former not in line:
            line.append(former)
            former = origin.get(former)
        found[incarnation] = line
    return found


def calls_by_name(history: History) -> dict[str, list[Call]]:
    """In the order in which they were sent."""
    found: defaultdict[str, list[Call]] = defaultdict(list)
    for call in sorted(history.calls, key=lambda call: (call.sent_ms, call.at_ms)):
        found[call.name].append(call)
    return found


def rows_by_name(final: Final | None) -> dict[str, LaunchRow]:
    return {} if final is None else {row.name: row for row in final.launches}


def versions_by_id(final: Final | None) -> dict[str, list[VersionRow]]:
    found: defaultdict[str, list[VersionRow]] = defaultdict(list)
    for version in sorted([] if final is None else final.versions, key=lambda row: (row.id, row.version)):
        found[version.id].append(version)
    return found


def versions(final: Final | None) -> dict[tuple[str, int], VersionRow]:
    return {} if final is None else {(row.id, row.version): row for row in final.versions}


def specs(history: History) -> dict[str, list[Schedule]]:
    """All that a schedule ever was, or was asked to be: also what a lost journal knew of it."""
    found: defaultdict[str, list[Schedule]] = defaultdict(list)
    final = record(history)
    for version in [] if final is None else final.versions:
        found[version.id].append(version.schedule)
    for asked in history.asked:
        if isinstance(asked.command, PutSchedule):
            found[asked.command.schedule.id].append(asked.command.schedule)
    return found


def prefers_repeating(schedule: Schedule) -> bool:
    """In doubt it is called again: its owner says so, or says that it does no harm."""
    return schedule.on_doubt == "relaunch" or bool(getattr(schedule.target, "idempotent", False))


def is_repeatable(schedule: Schedule, calls: list[Call]) -> bool:
    return prefers_repeating(schedule) or any(call.receiver in REPEATABLE for call in calls)


def resolved_by_hand(history: History) -> dict[str, set[str]]:
    """By name: what persons said became of it, or wanted. What they say is not checked."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for asked in history.asked:
        if isinstance(asked.command, ResolveLaunch) and asked.outcome not in ("refused", "nobody"):
            found[asked.command.name].add(asked.command.outcome)
    return found


def loss_between(history: History, from_ms: float, until_ms: float) -> Lost | None:
    """A loss of the journal by which something recorded in that time may have been forgotten."""
    for lost in history.lost:
        if lost.since_ms <= until_ms and from_ms <= lost.at_ms:
            return lost
    return None


def clock_was_changed(history: History, from_ms: float, until_ms: float) -> bool:
    """Was some machine's clock put forward or back, or did it run wrongly?"""
    return any(
        "clock" in fault.kind and fault.at_ms <= until_ms and from_ms <= (fault.until_ms or fault.at_ms)
        for fault in history.faults
    )


def timeline(version: VersionRow) -> Expression:
    return Expression.parse(version.resolved, timezone=version.schedule.timezone)


def within_window(schedule: Schedule, instant_s: int) -> bool:
    """Between the moments that the owner gave as start and end."""
    if schedule.start is not None and instant_s < schedule.start.timestamp():
        return False
    return schedule.end is None or instant_s <= schedule.end.timestamp()


def duration_ms(text: str | None) -> int:
    """0: none."""
    return 0 if text is None else parse_duration(text, field="duration") * 1000


def retry_of(schedule: Schedule) -> Retry:
    return schedule.retry or Retry()


def patience_ms(schedule: Schedule) -> int:
    """How long an answer is waited for. 0: a command is waited for as long as it takes."""
    if not isinstance(schedule.target, HttpTarget):
        return 0
    own_ms = duration_ms(schedule.target.timeout)
    return min(own_ms, duration_ms(schedule.timeout) or own_ms)


def is_doubtful(row: LaunchRow) -> bool:
    """Did it pass through doubt? Then it may go on in truth although it is over by the record, or begin late."""
    if row.state == "in_doubt" or row.reason.startswith("resolved"):
        return True
    return any("unknown" in reason or "in doubt" in reason for _, _, reason in row.failed_attempts)


def decided_ms(history: History) -> dict[tuple[str, int], int]:
    """By schedule and instant: the time of the entry that started or queued it. Its answer may have come long after."""
    return {
        (id, instant_s): landed.entry.time_ms
        for landed in history.landed
        for change in landed.entry.changes
        if isinstance(change, c.LaunchesStarted | c.LaunchesQueued)
        for sid, instant_s in zip(change.sids, change.instants_s, strict=True)
        for id in history.schedule_ids.get((landed.incarnation, sid), ())
    }
