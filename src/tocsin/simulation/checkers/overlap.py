"""Launches of one schedule do not go on at the same time where its owner forbids it.

``forbid``, ``queue`` and ``replace`` hold in truth: when the first call of a launch reaches its receiver, nothing of
another launch of the schedule goes on. A backfill waits for everything, whatever the policy. And ``replace`` tells
the older to stop.

What is in doubt is over as far as the record is concerned, so it may still go on, or even begin; the same holds for a
call that was cut because its launch was cancelled (a workshop stops what it does, others cannot be made to), for what
a lost journal forgot, and for what a person had called again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    calls_by_name,
    is_doubtful,
    loss_between,
    record,
    resolved_by_hand,
    rows_by_name,
    versions,
)
from tocsin.simulation.history import Call, Final, History, LaunchRow
from tocsin.simulation.receivers import SLOWLY_CONNECTED_S

ORDERED_MS = 10_000
"""So long after a newer occurrence fell due the older one may not have been told to stop."""


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None:
        return
    judged = _Judged(history, final)
    by_schedule: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.had_effect:
            by_schedule[call.schedule].append(call)
    for id, calls in sorted(by_schedule.items()):
        if judged.is_of_interest(id):
            yield from _at_once(history, judged, calls)
    yield from _not_replaced(history, final, judged)


def _at_once(history: History, judged: _Judged, calls: list[Call]) -> Iterator[Finding]:
    going_on: list[tuple[float, float, int, Call]] = []
    for number, call in enumerate(sorted(calls, key=lambda call: call.at_ms)):
        while going_on and going_on[0][0] <= call.at_ms:
            heapq.heappop(going_on)
        if judged.must_be_alone(call):
            for *_, other in sorted(going_on):
                if other.name != call.name and not judged.is_excused(other, call):
                    text = f"{call.name} began on {call.place} while {other.name} went on at {other.place}"
                    yield Finding(call.at_ms, text, call.name)
                    break
        ended_ms = history.ended_ms + 1 if call.ended_ms is None else call.ended_ms
        heapq.heappush(going_on, (ended_ms, call.at_ms, number, call))


class _Judged:
    def __init__(self, history: History, final: Final) -> None:
        self._history = history
        self.rows = rows_by_name(final)
        self.specs = versions(final)
        self._calls = calls_by_name(history)
        self._by_hand = resolved_by_hand(history)
        self._of_interest = {row.id for row in final.versions if row.schedule.overlap != "allow"}
        self._of_interest |= {row.schedule for row in final.launches if row.is_backfill}

    def is_of_interest(self, id: str) -> bool:
        return id in self._of_interest

    def overlap(self, row: LaunchRow) -> str:
        version = self.specs.get((row.schedule, row.version))
        return "allow" if version is None else version.schedule.overlap

    def must_be_alone(self, call: Call) -> bool:
        """Does its launch begin with it, and may nothing else of the schedule go on then?"""
        row = self.rows.get(call.name)
        if row is None or call is not self._calls[call.name][0] or call.name in self._by_hand:
            return False
        return row.is_backfill or self.overlap(row) != "allow"

    def is_excused(self, other: Call, call: Call) -> bool:
        name = other.name
        row = self.rows.get(name)
        if row is None or name in self._history.lies or name in self._by_hand:
            return row is not None or bool(self._history.lost)
        if is_doubtful(row) or is_doubtful(self.rows[call.name]) or call.name in self._history.lies:
            return True
        if row.cancel is not None and other.receiver != "workshop":
            return True
        begun = self.rows[call.name]
        is_allowed = "allow" in (
            self.overlap(begun),
            self.overlap(row),
        )  # the later version of the two is in force
        # A start is recorded when the call goes out, and was decided up to a slow connection earlier.
        if is_allowed and (row.started_ms or 0) >= (begun.started_ms or 0) - SLOWLY_CONNECTED_S * 1000:
            return True  # a backfill that began in the same breath: what falls due does not wait for it
        return loss_between(self._history, other.sent_ms, call.at_ms) is not None


def _not_replaced(history: History, final: Final, judged: _Judged) -> Iterator[Finding]:
    """In the calm: a newer occurrence that waited for an older one had it stopped."""
    ended: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.had_effect and call.receiver == "workshop":
            ended[call.schedule].append(call)
    for row in final.launches:
        if row.is_manual or row.is_backfill or row.started_ms is None or row.planned_ms < history.calm_ms:
            continue
        late_ms = ORDERED_MS + history.clock_error_ms
        if judged.overlap(row) != "replace" or row.started_ms - row.planned_ms <= late_ms:
            continue
        for call in ended[row.schedule]:
            older = judged.rows.get(call.name)
            if older is None or older.instant_s >= row.instant_s or older.cancel is not None:
                continue
            if call.at_ms < row.planned_ms and (call.ended_ms or history.ended_ms) > row.planned_ms + late_ms:
                text = f"{older.name} was not told to stop when {row.name} was to replace it"
                yield Finding(row.planned_ms, text, row.name)


CHECKER = Checker("overlap", "Launches of a schedule are at once only where its owner allows it", check)
