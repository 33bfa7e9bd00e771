"""Nothing starts before its moment, by the clock of whoever makes the call.

The moment is the occurrence's instant, or the one that its jitter planned: which lies at most the jitter behind the
instant and before the next one. A clock that was put back between the decision and the call excuses it, and so does,
by the little that they differ, that another one's clock decided.

And nothing starts long before its moment in truth, where one clock alone is wrong and nothing else is: the others tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    clock_was_changed,
    decided_ms,
    duration_ms,
    record,
    rows_by_name,
    timeline,
    versions,
)
from tocsin.simulation.history import Final, History

OFF_MS = 12_000
"""A clock that is off by so much is not trusted."""
PUT_BACK_MS = 60_000
"""So long after a clock was changed an order may leave that was decided before."""


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    rows, decided = rows_by_name(final), decided_ms(history)
    for call in sorted(history.calls, key=lambda call: call.sent_ms):
        moment_ms = call.instant_s * 1000
        row = rows.get(call.name)
        if row is not None and not row.is_manual and not row.is_backfill:
            moment_ms = max(moment_ms, row.planned_ms)
        if call.clock_ms >= moment_ms:
            continue
        is_decided = decided.get((call.schedule, call.instant_s), 0) >= moment_ms
        if is_decided and call.clock_ms >= moment_ms - 2 * history.clock_error_ms:
            continue
        if clock_was_changed(history, call.sent_ms - PUT_BACK_MS, call.sent_ms):
            continue
        text = f"{call.name} was called by {call.replica} {moment_ms - call.clock_ms} ms before its moment"
        yield Finding(call.at_ms, text, call.name)
    if final is not None:
        yield from _planned(final)
    yield from _in_truth(history)


def _in_truth(history: History) -> Iterator[Finding]:
    for call in history.calls:
        early_ms = call.instant_s * 1000 - call.at_ms
        if early_ms < OFF_MS or call.name.endswith("-manual"):
            continue
        from_ms = call.sent_ms - PUT_BACK_MS
        broken = [f for f in history.faults if f.at_ms <= call.sent_ms and (f.until_ms or f.at_ms) >= from_ms]
        if len({fault.who for fault in broken}) == 1 and all("clock" in fault.kind for fault in broken):
            text = f"{call.name} was called by {call.replica} {early_ms:.0f} ms too early, by a wrong clock"
            yield Finding(call.at_ms, text, call.name)


def _planned(final: Final) -> Iterator[Finding]:
    """The planned moment is one that the jitter allows."""
    specs = versions(final)
    timelines = {key: timeline(version) for key, version in specs.items() if version.schedule.jitter}
    for row in final.launches:
        instant_ms = row.instant_s * 1000
        version = specs.get((row.schedule, row.version))
        if row.is_manual or row.is_backfill or version is None or row.planned_ms == instant_ms:
            continue
        jitter_ms = duration_ms(version.schedule.jitter)
        expression = timelines.get((row.schedule, row.version))
        following_s = None if expression is None else expression.next_unix(row.instant_s)
        is_past_next = following_s is not None and row.planned_ms >= following_s * 1000
        if not instant_ms <= row.planned_ms <= instant_ms + jitter_ms or is_past_next:
            text = f"{row.name} was planned {row.planned_ms - instant_ms} ms behind its instant, jitter {jitter_ms} ms"
            yield Finding(row.planned_ms, text, row.name)


CHECKER = Checker("nothing early", "Nothing starts before its moment", check)
