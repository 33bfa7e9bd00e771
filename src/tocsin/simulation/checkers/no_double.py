"""Under ``on_doubt: skip`` nothing is done twice.

This is about receivers that do what they are told each time. An attempt is done at most once; a further one is made
only after the former was over and had not succeeded, or was never made at all. A time-out, a lost answer, a dead
leader or a lost journal are no proof of that.

Not counted: launches that a person said were not done or wanted once more, occurrences that an owner insisted on
having launched where nobody knows any more, and those of which the target itself told something untrue.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tocsin.model.command import Backfill
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    REPEATABLE,
    calls_by_name,
    prefers_repeating,
    record,
    resolved_by_hand,
    rows_by_name,
    specs,
    versions,
)
from tocsin.simulation.history import Call, History

_ASKED_FOR = {"relaunch", "skipped", "failed"}
"""What a person may say that lets a launch be made once more, now or by a backfill."""


def check(history: History) -> Iterator[Finding]:
    policy = _Policy(history)
    by_hand = resolved_by_hand(history)
    for name, calls in calls_by_name(history).items():
        done = sorted((call for call in calls if call.had_effect), key=lambda call: call.at_ms)
        if len(done) < 2 or name in history.lies or by_hand.get(name, set()) & _ASKED_FOR:
            continue
        if any(call.receiver in REPEATABLE for call in done) or not policy.is_never_twice(done[0]):
            continue
        for former, later in pairwise(done):
            how = _wrong(former, later)
            if how:
                yield Finding(later.at_ms, f"{name} was done again: {how}", name)


def _wrong(former: Call, later: Call) -> str:
    by = f"by {former.replica} in term {former.term} and by {later.replica} in term {later.term}"
    if former.attempt == later.attempt:
        return f"attempt {later.attempt} was done twice, {by}"
    if former.answer == "succeeded":
        return f"attempt {later.attempt} was made although attempt {former.attempt} had succeeded, {by}"
    if former.answer not in ("failed", "cancelled", ""):
        return f"attempt {later.attempt} was made although attempt {former.attempt} may have been done, {by}"
    if former.ended_ms is None or former.ended_ms > later.sent_ms:
        return f"attempt {later.attempt} was made while attempt {former.attempt} was still going on, {by}"
    return ""


class _Policy:
    """Which launches must not happen twice."""

    def __init__(self, history: History) -> None:
        final = record(history)
        self._rows = rows_by_name(final)
        self._versions = versions(final)
        self._specs = specs(history)
        self._has_losses = bool(history.lost)
        self._insisted = [
            asked.command
            for asked in history.asked
            if isinstance(asked.command, Backfill) and asked.command.unrecorded
        ]

    def is_never_twice(self, call: Call) -> bool:
        if any(
            wish.id == call.schedule and wish.from_s <= call.instant_s < wish.until_s
            for wish in self._insisted
        ):
            return False
        row = self._rows.get(call.name)
        version = None if row is None else self._versions.get((row.schedule, row.version))
        if version is not None and not self._has_losses:
            return not prefers_repeating(version.schedule)
        known = self._specs.get(call.schedule, [])
        return bool(known) and not any(prefers_repeating(spec) for spec in known)


CHECKER = Checker("no double", "Under on_doubt: skip nothing is done twice", check)
