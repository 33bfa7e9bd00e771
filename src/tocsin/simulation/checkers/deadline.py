"""A start later than the deadline is not a start but a skip; and nothing is skipped as too late that was not.

Lateness is counted from the planned moment, by the clock of whoever decided, and again by the clock of whoever called:
the first call of a launch is its start, and the record is to say so. A process that was paused between its last look at
the clock and the call, or whose clock was set then, is excused for calling late, but the record is to say that it was
late. A launch that waited for
an earlier one is judged by the version that is in force when its turn comes. Whoever asks for an occurrence after the
fact knows that it is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import calls_by_name, duration_ms, is_doubtful, record, versions_by_id
from tocsin.simulation.history import Call, Final, History, LaunchRow, VersionRow
from tocsin.simulation.receivers import SLOWLY_CONNECTED_S

SPARE_MS = 1_000
"""Between the look at the clock and the call, at the most."""


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    by_id, calls = versions_by_id(final), calls_by_name(history)
    yield from _calls(history, final, by_id, calls)
    for row in [] if final is None else final.launches:
        if row.is_manual or row.is_backfill:
            continue
        is_too_late = row.state == "skipped" and row.reason.startswith("deadline")
        moment_ms = row.ended_ms if is_too_late else row.started_ms
        if moment_ms is None or (row.attempt > 1 and is_doubtful(row)):
            continue  # the first call may have been in time, and nobody knows it
        rules = [rule for rule in by_id.get(row.schedule, []) if _concerns(rule, row, moment_ms)]
        late_ms = moment_ms - row.planned_ms
        if is_too_late and rules and not any(_is_past(rule, late_ms, row) for rule in rules):
            text = f"{row.name} was skipped as too late when it was {late_ms} ms late"
            yield Finding(moment_ms, text, row.name)
        if not is_too_late and any(_is_excused(history, call) for call in calls.get(row.name, ())[:1]):
            continue  # the record is to say that it was late
        if not is_too_late and rules and all(_is_past(rule, late_ms, row) for rule in rules):
            deadline_ms = max(duration_ms(rule.schedule.deadline) for rule in rules)
            text = f"{row.name} was started {late_ms} ms late; its deadline is {deadline_ms} ms"
            yield Finding(moment_ms, text, row.name)


def _calls(
    history: History,
    final: Final | None,
    by_id: Mapping[str, list[VersionRow]],
    calls: Mapping[str, list[Call]],
) -> Iterator[Finding]:
    """First calls, by the clocks of the machines that made them."""
    for row in [] if final is None else final.launches:
        made = calls.get(row.name)
        if row.is_manual or row.is_backfill or not made:
            continue
        rules = [rule for rule in by_id.get(row.schedule, []) if rule.version == row.version]
        # A clock that has just stepped is not believed: whoever has ordered before goes on counting evenly.
        late_ms = round(min(made[0].clock_ms, made[0].sent_ms)) - row.planned_ms - SPARE_MS
        # A refused attempt is no call, but it was made in time: a further attempt has no deadline.
        is_first = made[0].attempt == 1 and not _is_excused(history, made[0])
        if is_first and rules and all(_is_past(rule, late_ms, row) for rule in rules):
            text = (
                f"{row.name} was called for the first time {late_ms + SPARE_MS} ms late, behind its deadline"
            )
            yield Finding(made[0].at_ms, text, row.name)
        is_plain = row.attempt == 1 and not row.failed_attempts and row.state in ("succeeded", "failed")
        if is_plain and len(made) == 1 and row.started_ms is not None and not history.lost:
            # A call that was slow to go out may find its clock stepped meanwhile: the record has the believed time.
            before_ms = round(min(made[0].clock_ms, made[0].sent_ms)) - row.started_ms
            if before_ms > SPARE_MS + history.clock_error_ms:
                text = f"{row.name} is recorded as started {before_ms} ms before it was called"
                yield Finding(made[0].at_ms, text, row.name)


def _is_excused(history: History, call: Call) -> bool:
    """Was its caller paused, or its clock set, between the decision and the call?"""
    decided_ms = call.sent_ms - SLOWLY_CONNECTED_S * 1000 - SPARE_MS
    for fault in history.faults:
        until_ms = (fault.until_ms or history.ended_ms) + SPARE_MS
        is_within = fault.at_ms <= call.sent_ms and decided_ms <= until_ms
        if "pause" in fault.kind and fault.at_ms <= call.sent_ms <= until_ms:
            return True
        if fault.kind == "clock" and fault.who == call.replica and is_within:
            return True
    return False


def _concerns(version: VersionRow, row: LaunchRow, moment_ms: int) -> bool:
    is_in_force = version.since_ms <= moment_ms and (
        version.until_ms is None or moment_ms <= version.until_ms
    )
    return version.version == row.version or is_in_force


def _is_past(version: VersionRow, late_ms: int, row: LaunchRow) -> bool:
    deadline_ms = duration_ms(version.schedule.deadline)
    if not deadline_ms:
        return False
    is_jitter_hidden = (
        row.planned_ms == row.instant_s * 1000
    )  # of what waited or was skipped it is not recorded
    spare_ms = duration_ms(version.schedule.jitter) if is_jitter_hidden and row.state != "skipped" else 0
    return late_ms > deadline_ms + spare_ms


CHECKER = Checker("deadline", "Nothing starts behind its deadline, nothing is skipped before it", check)
