"""The steps of a launch, told one by one.

What the journal holds has a time. Between the entry that decides an attempt and the answer of its target lie two steps
that have none: the entry is acknowledged, and only then is the target called. They are told where they belong, and no
time is made up for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from tocsin.model.answer import LaunchDetail
from tocsin.model.launch import RESOLVED, StepView
from tocsin.state.beside import Office

_ENTRIES = {
    "started",
    "accepted by its target",
    "launched",
    "cancelled",
    "resolved",
    "asked for after the fact",
}
"""Whose time is that of the entry: so whoever was in office then wrote it. How an attempt ended is told by its target,
with a time of its own."""
_TITLES = {
    "planned": "Planned",
    "asked for after the fact": "Asked for after the fact",
    "launched": "Asked for by hand",
    "cancelled": "Cancelling asked for",
    "resolved": "Resolved",
    "accepted by its target": "Accepted by its target",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "skipped": "Not launched",
    "in_doubt": "In doubt",
}
_ENDS = ("succeeded", "failed", "skipped", "cancelled", "in_doubt")


class Told(NamedTuple):
    """One step. ``at``: None where no time of its own is recorded."""

    title: str
    mark: str
    """The state that it is drawn as; empty: none in particular."""
    at: datetime | None = None
    after_ms: int | None = None
    """Since the step before it that has a time."""
    words: str = ""
    note: str = ""
    actor: str = ""
    office: Office | None = None
    is_hollow: bool = False
    """It has no time of its own, or is still to come."""


def told(launch: LaunchDetail, offices: Mapping[int, Office], *, is_alone: bool) -> list[Told]:
    """In the order of time. ``is_alone``: there is one replica only, and a majority is its own disk."""
    found: list[Told] = []
    before: datetime | None = None
    for place, step in enumerate(launch.steps):
        after_ms = None if before is None else _ms(step.at) - _ms(before)
        office = offices.get(_ms(step.at)) if step.step in _ENTRIES else None
        if step.step == "started" and step.attempt == launch.attempt and launch.replica:
            office = Office(launch.term, launch.replica)
        found.extend(_of(step, launch, after_ms, office, launch.steps[place + 1 :], is_alone))
        before = step.at
    return found


def entry_times(steps: Sequence[StepView]) -> list[int]:
    """The times of those that are entries of the journal, in milliseconds."""
    return [_ms(step.at) for step in steps if step.step in _ENTRIES]


def _of(
    step: StepView,
    launch: LaunchDetail,
    after_ms: int | None,
    office: Office | None,
    rest: Sequence[StepView],
    is_alone: bool,
) -> Iterator[Told]:
    one = Told("", "", step.at, after_ms, note=step.note, actor=step.actor, office=office)
    if step.step == "started":
        words = "The decision was written to the journal." if step.attempt == 1 else ""
        yield one._replace(title=f"Attempt {step.attempt} decided", mark="started", words=words)
        yield _hand_over(step, launch, rest, is_alone)
    elif step.step == "attempt ended":
        mark = "in_doubt" if step.note.startswith(RESOLVED) else "failed"
        yield one._replace(title=f"Attempt {step.attempt} ended", mark=mark)
    elif step.step == "next attempt planned":
        yield one._replace(title=f"Attempt {step.attempt} planned for", is_hollow=True)
    elif step.step in _ENDS and not step.actor:
        title = "Cancelled" if step.step == "cancelled" else _TITLES[step.step]
        yield one._replace(title=title, mark=step.step)
    else:
        yield one._replace(
            title=_TITLES.get(step.step, step.step.capitalize()), mark="", words=_words(step, launch)
        )


def _words(step: StepView, launch: LaunchDetail) -> str:
    if step.step != "planned":
        return ""
    if launch.planned_at is not None and launch.planned_at != launch.scheduled_at and not launch.backfilled:
        return "Its moment by the schedule, moved by its jitter."
    return "Its moment by the schedule."


def _hand_over(step: StepView, launch: LaunchDetail, rest: Sequence[StepView], is_alone: bool) -> Told:
    by = "is safe on disk" if is_alone else "is acknowledged by a majority of the replicas"
    is_past = any(later.attempt == step.attempt and later.step != "planned" for later in rest)
    if is_past or launch.attempt != step.attempt:
        title = "Acknowledged, then handed over"
        words = f"Nothing reaches a target before the entry {by}. Neither moment is recorded on its own."
        words = words if step.attempt == 1 else ""  # once is enough
    else:
        title = "Being handed over"
        words = f"Once the entry {by}, its target is called."
    return Told(title, "", words=words, is_hollow=True)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
