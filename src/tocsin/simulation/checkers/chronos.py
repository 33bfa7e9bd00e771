"""Every target time is met by exactly one completed run, in the sense of Jepsen's test of Chronos: a first, blunt look.

A schedule has a target for each of its instants: from then on, for a few seconds. Each is matched with a run of its
own that began within it; in the order of the targets' ends and of the runs' beginnings this finds as many pairs as
there can be. A target that is left over was not met, a run that is left over was one too many. Names and records are
not looked at.

So it applies only where nothing but "once, on time" is legal: a schedule that had one version all along, allows
overlaps, has neither jitter nor a deadline nor retries, whose every call was done and succeeded, and of which nothing
ended otherwise; and only to targets that lie in no absence, in a world whose clocks were not changed and whose
journal was not lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    REPEATABLE,
    clock_was_changed,
    is_repeatable,
    record,
    timeline,
    versions_by_id,
    within_window,
)
from tocsin.simulation.history import Call, Final, History, LaunchRow, VersionRow

EPSILON_MS = 30_000.0
"""A change of leaders within six seconds is no absence; its successor asks after what was to be called, and waits up
to a quarter of a minute for who is silent."""
FINDINGS_EACH = 3
"""A schedule that was forgotten left thousands of targets over."""
_Window = tuple[float, float]


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None or history.lost or clock_was_changed(history, history.began_ms, history.ended_ms):
        return
    free = _free(history, final)
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        calls[call.schedule].append(call)
    rows: defaultdict[str, list[LaunchRow]] = defaultdict(list)
    for row in final.launches:
        rows[row.schedule].append(row)
    for id, known in versions_by_id(final).items():
        if len(known) == 1 and _applies(known[0], calls[id], rows[id]):
            runs = sorted(call.at_ms for call in calls[id] if call.had_effect)
            yield from islice(_matched(history, known[0], runs, free), FINDINGS_EACH)


def _applies(version: VersionRow, calls: Sequence[Call], rows: Sequence[LaunchRow]) -> bool:
    schedule = version.schedule
    if not version.enabled or version.until_ms is not None or schedule.overlap != "allow":
        return False
    if schedule.jitter or schedule.deadline or schedule.retry or "@at" in version.resolved.lower():
        return False
    if is_repeatable(schedule, []) and any(call.receiver not in REPEATABLE for call in calls):
        return False
    if any(call.answer != "succeeded" or call.attempt > 1 for call in calls if call.had_effect):
        return False
    return all(row.state == "succeeded" and not row.is_manual and not row.is_backfill for row in rows)


def _free(history: History, final: Final) -> list[_Window]:
    """Times around absences, in which nothing is said about how many runs there are."""
    spare_ms = EPSILON_MS + history.clock_error_ms
    return sorted((since_ms - spare_ms, until_ms + spare_ms) for since_ms, until_ms in final.absences)


def _targets(history: History, free: Sequence[_Window], version: VersionRow) -> Iterator[_Window]:
    expression = timeline(version)
    instant_s = expression.next_unix(version.since_ms // 1000)
    while instant_s is not None and instant_s * 1000 < _upto_ms(history):
        inside = [until_ms for since_ms, until_ms in free if since_ms <= instant_s * 1000 < until_ms]
        if inside:  # a year of absence is one step
            instant_s = expression.next_unix(max(instant_s, int(max(inside) / 1000) - 1))
            continue
        if within_window(version.schedule, instant_s):
            early_ms = instant_s * 1000 - history.clock_error_ms
            yield early_ms, instant_s * 1000 + EPSILON_MS + history.clock_error_ms
        instant_s = expression.next_unix(instant_s)


def _upto_ms(history: History) -> float:
    return history.ended_ms - EPSILON_MS - history.clock_error_ms


def _matched(
    history: History, version: VersionRow, runs: Sequence[float], free: Sequence[_Window]
) -> Iterator[Finding]:
    """Both are in order, and all windows are of the same length: the first that fit belong together."""
    id, index = version.id, 0
    for begin_ms, end_ms in _targets(history, free, version):
        while index < len(runs) and runs[index] < begin_ms:
            if not _is_within(runs[index], free):
                yield Finding(runs[index], f"{id} ran at {runs[index]:.0f}, for no target", id)
            index += 1
        if index < len(runs) and runs[index] <= end_ms:
            index += 1
        else:
            yield Finding(end_ms, f"{id} did not run between {begin_ms:.0f} and {end_ms:.0f}", id)
    for run_ms in runs[index:]:
        if run_ms < _upto_ms(history) and not _is_within(run_ms, free):
            yield Finding(run_ms, f"{id} ran at {run_ms:.0f}, for no target", id)


def _is_within(run_ms: float, free: Sequence[_Window]) -> bool:
    return any(since_ms <= run_ms < until_ms + EPSILON_MS for since_ms, until_ms in free)


CHECKER = Checker("chronos", "Every target time is met by one run of its own", check)
