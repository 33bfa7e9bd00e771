"""A start later than the deadline is not a start but a skip; and nothing is skipped as too late that was not.

Lateness is counted from the planned moment, by the clock of whoever decided. A launch that waited for an earlier one
is judged by the version that is in force when its turn comes. Whoever asks for an occurrence after the fact knows
that it is late.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import duration_ms, record, versions_by_id
from tocsin.simulation.history import History, LaunchRow, VersionRow


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    by_id = versions_by_id(final)
    for row in [] if final is None else final.launches:
        if row.is_manual or row.is_backfill:
            continue
        is_too_late = row.state == "skipped" and row.reason.startswith("deadline")
        moment_ms = row.ended_ms if is_too_late else row.started_ms
        if moment_ms is None:
            continue
        rules = [rule for rule in by_id.get(row.schedule, []) if _concerns(rule, row, moment_ms)]
        late_ms = moment_ms - row.planned_ms
        if is_too_late and rules and not any(_is_past(rule, late_ms, row) for rule in rules):
            text = f"{row.name} was skipped as too late when it was {late_ms} ms late"
            yield Finding(moment_ms, text, row.name)
        if not is_too_late and rules and all(_is_past(rule, late_ms, row) for rule in rules):
            deadline_ms = max(duration_ms(rule.schedule.deadline) for rule in rules)
            text = f"{row.name} was started {late_ms} ms late; its deadline is {deadline_ms} ms"
            yield Finding(moment_ms, text, row.name)


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
