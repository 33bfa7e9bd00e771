"""What an entry says, one draft for each thing that it may have brought about.

A draft's slot depends on the entry alone, never on what was refused, filtered or forgotten: it is one half of an
event's id, and whoever resumes relies on it. So a command takes all the places that its side effects could need.
Changes that nobody wants to hear of have no drafts, and neither have changes that this module does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.model.launch import LaunchState

SIDE_SKIPS = 2
"""An edit can skip what was overdue, and the first occurrence of the new version, if that has passed."""
SIDE_REPLACED = 7
"""A run-now that replaces ends what waits. There is one such launch as a rule; more than these are not told of."""
WITHDRAWN = "the leader left office before the call"


class Draft(NamedTuple):
    """A launch is known by its number, or by schedule and instant; its names are looked up later."""

    kind: str
    slot: int = 0
    place: int = 0
    """Of the change in its entry."""
    sid: int | None = None
    lid: int | None = None
    instant_s: int | None = None
    until_s: int | None = None
    attempt: int | None = None
    reason: str = ""
    exit_code: int | None = None
    ended_ms: int | None = None
    retry_at_ms: int | None = None
    term: int | None = None
    replica: str = ""
    state: str | None = None
    """Where the kind of event does not tell it."""
    schedule: str = ""
    actor: str = ""
    side: int = 0
    """Of a command: 0 is the act itself, the others are the side effects that it may have had."""


def drafts(entry: Entry) -> list[Draft]:
    """All of an entry, in order."""
    found: list[Draft] = []
    for place, change in enumerate(entry.changes):
        maker = _MAKERS.get(type(change))
        if maker is not None:
            first = len(found)
            found += (
                draft._replace(slot=first + offset, place=place)
                for offset, draft in enumerate(maker(change, entry))
            )
    return found


def is_command(change: object) -> bool:
    """Is it something that ``apply`` may have refused?"""
    return type(change) in _COMMANDS


# Office


def _took_office(change: c.TookOffice, _: Entry) -> Iterator[Draft]:
    yield Draft("office.taken", term=change.term, replica=change.replica)


def _resigned(_: c.Resigned, entry: Entry) -> Iterator[Draft]:
    yield Draft("office.resigned", term=entry.term)


def _returned(change: c.Returned, entry: Entry) -> Iterator[Draft]:
    yield Draft("service.returned", ended_ms=change.absent_since_ms, term=entry.term)


# Occurrences


def _started(change: c.LaunchesStarted, _: Entry) -> Iterator[Draft]:
    for sid, instant_s in zip(change.sids, change.instants_s, strict=True):
        yield Draft("launch.started", sid=sid, instant_s=instant_s, attempt=1)


def _queued(change: c.LaunchesQueued, _: Entry) -> Iterator[Draft]:
    yield from _recorded("launch.queued", change)


def _skipped(change: c.LaunchesSkipped, _: Entry) -> Iterator[Draft]:
    yield from _recorded("launch.skipped", change)


def _recorded(kind: str, change: c.LaunchesQueued | c.LaunchesSkipped) -> Iterator[Draft]:
    for sid, instant_s, reason in zip(change.sids, change.instants_s, change.reasons, strict=True):
        yield Draft(kind, sid=sid, instant_s=instant_s, attempt=0, reason=reason)


def _missed(change: c.OccurrencesMissed, _: Entry) -> Iterator[Draft]:
    columns = zip(change.sids, change.from_s, change.before_s, change.reasons, strict=True)
    for sid, from_s, before_s, reason in columns:
        yield Draft("occurrences.missed", sid=sid, instant_s=from_s, until_s=before_s, reason=reason)


# Launches


def _attempts_started(change: c.AttemptsStarted, _: Entry) -> Iterator[Draft]:
    for lid, attempt in zip(change.lids, change.attempts, strict=True):
        yield Draft("launch.started", lid=lid, attempt=attempt)


def _cancels_ordered(change: c.CancelsOrdered, _: Entry) -> Iterator[Draft]:
    for lid, reason in zip(change.lids, change.reasons, strict=True):
        yield Draft("launch.cancelling", lid=lid, reason=reason)


def _accepted(change: c.LaunchesAccepted, _: Entry) -> Iterator[Draft]:
    for lid, attempt in zip(change.lids, change.attempts, strict=True):
        yield Draft("launch.running", lid=lid, attempt=attempt)


def _succeeded(change: c.LaunchesSucceeded, entry: Entry) -> Iterator[Draft]:
    ended: Any = repeat(entry.time_ms) if change.ended_ms is None else change.ended_ms
    codes: Any = repeat(None) if change.exit_codes is None else change.exit_codes
    for lid, attempt, ended_ms, code in zip(change.lids, change.attempts, ended, codes, strict=False):
        yield Draft("launch.succeeded", lid=lid, attempt=attempt, ended_ms=ended_ms, exit_code=code)


def _ended(change: c.LaunchesEnded, _: Entry) -> Iterator[Draft]:
    columns = zip(
        change.states,
        change.lids,
        change.attempts,
        change.reasons,
        change.exit_codes,
        change.ended_ms,
        strict=True,
    )
    for state, lid, attempt, reason, code, ended_ms in columns:
        kind = kind_of_state(state)
        yield Draft(kind, lid=lid, attempt=attempt, reason=reason, exit_code=code, ended_ms=ended_ms)


def _attempts_failed(change: c.AttemptsFailed, _: Entry) -> Iterator[Draft]:
    columns = zip(
        change.lids,
        change.attempts,
        change.reasons,
        change.exit_codes,
        change.ended_ms,
        change.retry_at_ms,
        strict=True,
    )
    for lid, attempt, reason, code, ended_ms, retry_at_ms in columns:
        yield Draft(
            "launch.retrying",
            lid=lid,
            attempt=attempt,
            reason=reason,
            exit_code=code,
            ended_ms=ended_ms,
            retry_at_ms=retry_at_ms,
        )


def _withdrawn(change: c.HandOversWithdrawn, entry: Entry) -> Iterator[Draft]:
    for lid, attempt in zip(change.lids, change.attempts, strict=True):
        again_ms = entry.time_ms
        yield Draft("launch.retrying", lid=lid, attempt=attempt - 1, reason=WITHDRAWN, retry_at_ms=again_ms)


# Commands: what became of them is written in the record, and is looked up there


def _schedule_act(change: object, _: Entry) -> Iterator[Draft]:
    for side in range(1, SIDE_SKIPS + 1):
        yield Draft("launch.skipped", side=side)
    yield Draft("occurrences.missed", side=1)
    yield Draft("schedule.")


def _schedules_created(change: c.SchedulesCreated, _: Entry) -> Iterator[Draft]:
    for id in change.new.ids:
        yield Draft("schedule.created", schedule=id, actor=change.actor)


def _launch_requested(change: c.LaunchRequested, _: Entry) -> Iterator[Draft]:
    for side in range(1, SIDE_REPLACED + 1):
        yield Draft("launch.cancelled", side=side)
    yield Draft("launch.started", instant_s=change.instant_s)


def _cancel_requested(change: c.CancelRequested, _: Entry) -> Iterator[Draft]:
    yield Draft("launch.cancelling", reason=change.reason)


def _resolved(change: c.LaunchResolved, _: Entry) -> Iterator[Draft]:
    state = LaunchState.STARTED if change.state is None else LaunchState(change.state)
    yield Draft(
        "launch.resolved",
        reason=change.note,
        state=state.name.lower(),
        exit_code=change.exit_code,
        ended_ms=change.ended_ms,
    )
    if change.state is None:
        yield Draft("launch.started", side=1)


def _backfill_requested(change: c.BackfillRequested, _: Entry) -> Iterator[Draft]:
    for instant_s in change.instants_s:
        yield Draft("launch.queued", instant_s=instant_s)


def kind_of_state(state: int) -> str:
    return f"launch.{LaunchState(state).name.lower()}"


_Maker = Callable[[Any, Entry], Iterator[Draft]]
_COMMANDS: Sequence[type] = (
    c.SchedulePut,
    c.ScheduleDeleted,
    c.ScheduleSwitched,
    c.LaunchRequested,
    c.CancelRequested,
    c.LaunchResolved,
    c.BackfillRequested,
)
_MAKERS: dict[type, _Maker] = {
    c.TookOffice: _took_office,
    c.Resigned: _resigned,
    c.Returned: _returned,
    c.LaunchesStarted: _started,
    c.LaunchesQueued: _queued,
    c.LaunchesSkipped: _skipped,
    c.OccurrencesMissed: _missed,
    c.AttemptsStarted: _attempts_started,
    c.CancelsOrdered: _cancels_ordered,
    c.LaunchesAccepted: _accepted,
    c.LaunchesSucceeded: _succeeded,
    c.LaunchesEnded: _ended,
    c.AttemptsFailed: _attempts_failed,
    c.HandOversWithdrawn: _withdrawn,
    c.SchedulePut: _schedule_act,
    c.SchedulesCreated: _schedules_created,
    c.ScheduleDeleted: _schedule_act,
    c.ScheduleSwitched: _schedule_act,
    c.LaunchRequested: _launch_requested,
    c.CancelRequested: _cancel_requested,
    c.LaunchResolved: _resolved,
    c.BackfillRequested: _backfill_requested,
}
