"""What fell due while nobody was in office is dealt with as its owner said.

An occurrence whose planned moment lies in an absence, and that was not started before it was over, was missed. Under
``skip`` none of them starts; under ``last`` at most one a schedule and absence, and no later one is there; under
``all`` they start in their order, the newest thousand at the most, and with ``catch_up_spread`` not faster than the
absence shrunk into that spread. Nothing is given up as missed that no absence, no loss of the record and no edit
explains.

Absences that overlap (the journal was lost in one, a clock was put back) are left out where starts are counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tocsin.cron import Expression
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import decided_ms, duration_ms, record, timeline, versions
from tocsin.simulation.history import Final, History, LaunchRow, MissedRow, VersionRow

ALL_MAX = 1000
"""So many missed occurrences of one schedule are launched at the most."""
_NOBODY = "missed: nothing was decided at that time"
_Absence = tuple[int, int]


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None:
        return
    specs = versions(final)
    timelines = {key: timeline(version) for key, version in specs.items()}
    yield from _given_up(history, final, specs, timelines)
    decided = decided_ms(history)
    for (key, absence), rows in sorted(_caught_up(final, specs, decided).items()):
        in_order = sorted(rows, key=lambda row: row.instant_s)
        yield from _started(specs[key], absence, in_order, timelines[key], decided)
        if specs[key].schedule.missed == "all":
            ends = [until_ms for _, until_ms in final.absences]
            yield from _spread(specs[key], absence, in_order, ends)


def _caught_up(
    final: Final, specs: dict[tuple[str, int], VersionRow], decided: dict[tuple[str, int], int]
) -> dict[tuple[tuple[str, int], _Absence], list[LaunchRow]]:
    """Launches that were started after an absence in which their moment lay. What was started before it was over, and
    was called later because the answer of the journal was lost, is late and not missed."""
    apart = _apart(final.absences)
    begins = [since_ms for since_ms, _ in apart]
    found: defaultdict[tuple[tuple[str, int], _Absence], list[LaunchRow]] = defaultdict(list)
    for row in final.launches:
        key = row.schedule, row.version
        if row.is_manual or row.is_backfill or row.started_ms is None or key not in specs:
            continue
        # A moment that is the very beginning had its entry already.
        index = bisect_right(begins, row.planned_ms - 1) - 1
        if index < 0 or decided.get((row.schedule, row.instant_s), row.started_ms) < apart[index][1]:
            continue
        if _planned_by_ms(row, specs[key]) < apart[index][1] <= row.started_ms:
            found[key, apart[index]].append(row)
    return found


def _planned_by_ms(row: LaunchRow, version: VersionRow) -> int:
    """The latest that its moment can have been: of what had to wait its jitter is not recorded."""
    is_hidden = row.planned_ms == row.instant_s * 1000
    return row.planned_ms + (duration_ms(version.schedule.jitter) if is_hidden else 0)


def _apart(absences: list[_Absence]) -> list[_Absence]:
    ordered = sorted(absences)
    touching = {absence for pair in pairwise(ordered) if pair[1][0] < pair[0][1] for absence in pair}
    return [absence for absence in ordered if absence not in touching and absence[0] < absence[1]]


def _started(
    version: VersionRow,
    absence: _Absence,
    rows: list[LaunchRow],
    expression: Expression,
    decided: dict[tuple[str, int], int],
) -> Iterator[Finding]:
    schedule = version.schedule
    first, last = rows[0], rows[-1]
    when = float(last.started_ms or 0)
    where = f"the absence from {absence[0]} to {absence[1]}"
    if version.since_ms > absence[0]:
        return  # it was written after the absence had begun: a moment of the past that was asked for
    if schedule.missed == "skip":
        yield Finding(when, f"{first.name} was missed in {where} and launched, under 'skip'", first.name)
    elif schedule.missed == "last":
        if len(rows) > 1:
            text = f"{len(rows)} launches of {version.id} were made up for after {where}, under 'last'"
            yield Finding(when, text, last.name)
        following_s = expression.next_unix(last.instant_s)
        late_ms = absence[1] - duration_ms(schedule.jitter)
        if following_s is not None and following_s * 1000 < late_ms and _is_within(version, following_s):
            text = f"{last.name} was made up for after {where}, and {following_s} would have been the last"
            yield Finding(when, text, last.name)
    else:
        yield from _all(version, rows, decided)


def _is_within(version: VersionRow, instant_s: int) -> bool:
    end = version.schedule.end
    return end is None or instant_s <= end.timestamp()


def _all(
    version: VersionRow, rows: list[LaunchRow], decided: dict[tuple[str, int], int]
) -> Iterator[Finding]:
    if len(rows) > ALL_MAX:
        text = f"{len(rows)} launches of {version.id} were made up for, {ALL_MAX} are the most"
        yield Finding(float(rows[-1].started_ms or 0), text, version.id)
    for former, later in pairwise(rows):
        # What a leader that died had begun is called in its turn by the next one: its start may be recorded later than
        # it was decided.
        is_comparable = version.schedule.overlap == "allow" and former.term == later.term
        former_ms, later_ms = (
            min(decided.get((row.schedule, row.instant_s), row.started_ms or 0), row.started_ms or 0)
            for row in (former, later)
        )
        if is_comparable and former_ms > later_ms:
            text = f"{later.name} was made up for before {former.name}"
            yield Finding(float(later.started_ms or 0), text, later.name)
            break


def _spread(
    version: VersionRow, absence: _Absence, rows: list[LaunchRow], ends: list[int]
) -> Iterator[Finding]:
    """A launch that is missed once more while it waits has another place: those that are left share the spread."""
    spread_ms = duration_ms(version.schedule.catch_up_spread)
    begins = {absence[1]: absence[0]}
    for row in rows if spread_ms else []:
        end_ms = max((ms for ms in ends if absence[1] < ms <= (row.started_ms or 0)), default=absence[1])
        begin_ms = begins.setdefault(end_ms, row.instant_s * 1000)
        part = (row.instant_s * 1000 - begin_ms) / (end_ms - begin_ms)
        early_ms = end_ms + spread_ms * min(max(part, 0.0), 1.0) - (row.started_ms or 0)
        if early_ms > 5:  # each place is rounded, and counted on from the one before
            text = f"{row.name} was made up for {early_ms:.0f} ms before its place in the spread"
            yield Finding(float(row.started_ms or 0), text, row.name)
            break


def _given_up(
    history: History,
    final: Final,
    specs: dict[tuple[str, int], VersionRow],
    timelines: dict[tuple[str, int], Expression],
) -> Iterator[Finding]:
    ends = sorted(until_ms for _, until_ms in final.absences)
    for missed in final.missed:
        if wrong := _wrong(history, missed, ends, specs, timelines):
            about = f"{missed.schedule} from {missed.from_s} to {missed.before_s} ({missed.reason})"
            yield Finding(missed.at_ms, f"given up as missed: {about}, and {wrong}", missed.schedule)
    by_key = {(row.schedule, row.instant_s): row for row in final.launches if not row.is_manual}
    for row in by_key.values():
        if row.state == "skipped" and row.reason.startswith(_NOBODY):
            if not any(row.planned_ms < until_ms <= (row.ended_ms or 0) for until_ms in ends):
                text = f"{row.name} was given up as missed, and somebody was in office"
                yield Finding(float(row.ended_ms or 0), text, row.name)
            version = specs.get((row.schedule, row.version))
            if version is not None and version.schedule.missed != "skip":
                text = f"{row.name} was given up as missed under '{version.schedule.missed}'"
                yield Finding(float(row.ended_ms or 0), text, row.name)


def _wrong(
    history: History,
    missed: MissedRow,
    ends: list[int],
    specs: dict[tuple[str, int], VersionRow],
    timelines: dict[tuple[str, int], Expression],
) -> str:
    key = missed.schedule, missed.version
    if not missed.reason:
        return "no reason is given"
    if "lost" in missed.reason:
        return "" if history.lost else "no record was lost"
    if not missed.reason.startswith(_NOBODY) or key not in specs:
        return ""
    jitter_ms = duration_ms(specs[key].schedule.jitter)
    last_s = timelines[key].previous_unix(missed.before_s)
    over = [until for until in ends if until <= missed.at_ms and (last_s or 0) * 1000 < until]
    if not over:
        return "somebody was in office"
    policy = specs[key].schedule.missed
    following_s = timelines[key].next_unix(missed.before_s)
    is_last = following_s is None or any(following_s * 1000 >= until - jitter_ms for until in over)
    if policy == "last" and not is_last and _is_within(specs[key], following_s or 0):
        return "what is kept is not the last"
    if policy == "all":
        kept = max(
            timelines[key].count_between(missed.before_s - 1, (until - 1) // 1000, ALL_MAX) for until in over
        )
        if kept < ALL_MAX - 1:
            return f"only {kept} are kept of {ALL_MAX} that may be"
    return ""


CHECKER = Checker("missed", "What nobody was in office for is dealt with as its owner said", check)
