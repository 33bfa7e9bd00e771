"""A launch that failed is tried again as often, and as far apart, as its owner said, whoever leads.

The first wait is ``backoff``, each further one twice the former, none longer than ``max_backoff``; jitter only makes
them longer. A launch that may be called again waits in the same way in doubt: without a ``retry`` of its own up to
eight times, from one second to a minute. The count survives a change of leaders: no leader makes an attempt after a
later one was made. What a person has called again is not counted, and a journal that was lost may cost one more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    calls_by_name,
    clock_was_changed,
    duration_ms,
    is_repeatable,
    loss_between,
    record,
    resolved_by_hand,
    retry_of,
    rows_by_name,
    versions,
)
from tocsin.simulation.history import Call, History, LaunchRow, VersionRow

DRIFT = 0.06
"""A clock may run that much too fast, and the wait be that much shorter."""
IN_DOUBT_AGAIN = 8
IN_DOUBT_FIRST_MS, IN_DOUBT_MAX_MS = 1_000, 60_000


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    rows, specs = rows_by_name(final), versions(final)
    by_hand = resolved_by_hand(history)
    for name, calls in calls_by_name(history).items():
        yield from _order(history, calls)
        row = rows.get(name)
        version = None if row is None else specs.get((row.schedule, row.version))
        if row is None or version is None or name in history.lies:
            continue
        if "relaunch" not in by_hand.get(name, ()):
            yield from _limit(row, version, calls, len(history.lost))
        yield from _spacing(history, row, version, calls)


def _order(history: History, calls: list[Call]) -> Iterator[Finding]:
    in_order = sorted(calls, key=lambda call: (call.term, call.sent_ms))
    highest = in_order[0]
    for call in in_order:
        is_back = call.attempt < highest.attempt
        if is_back and loss_between(history, highest.sent_ms, call.sent_ms) is None:
            text = f"attempt {call.attempt} of {call.name} was made after attempt {highest.attempt}"
            yield Finding(call.at_ms, text, call.name)
        highest = max(highest, call, key=lambda each: each.attempt)


def _limit(row: LaunchRow, version: VersionRow, calls: list[Call], more: int) -> Iterator[Finding]:
    limit = retry_of(version.schedule).limit
    if is_repeatable(version.schedule, calls):
        limit = limit or IN_DOUBT_AGAIN
    attempts = max(row.attempt, calls[-1].attempt)
    if attempts > limit + 1 + more:
        text = f"{row.name} was tried {attempts} times; {limit + 1} are allowed"
        yield Finding(calls[-1].at_ms, text, row.name)


def _spacing(history: History, row: LaunchRow, version: VersionRow, calls: list[Call]) -> Iterator[Finding]:
    for attempt, ended_ms, reason in sorted(row.failed_attempts):
        following = [call for call in calls if call.attempt == attempt + 1]
        known_ms = ended_ms + history.clock_error_ms + 1000
        made = [c for c in calls if c.attempt == attempt and following and c.sent_ms <= known_ms]
        made = [call for call in made if not _is_held_up(history, call)]
        if not made or not following or reason.startswith("in doubt"):
            continue
        begun_ms, next_ms = _over_ms(made, reason), following[0].sent_ms
        if clock_was_changed(history, begun_ms, next_ms) or loss_between(history, begun_ms, next_ms):
            continue
        least_ms = _wait_ms(version, attempt, reason) * (1 - DRIFT) - 2 * history.clock_error_ms - 1
        if next_ms - begun_ms < least_ms:
            text = (
                f"attempt {attempt + 1} of {row.name} was made {next_ms - begun_ms:.0f} ms after attempt {attempt} "
                f"had failed; it was to wait {_wait_ms(version, attempt, reason)} ms"
            )
            yield Finding(next_ms, text, row.name)


def _is_held_up(history: History, call: Call) -> bool:
    """A former leader that was paused right before its call makes it when all others have given it up."""
    return any(later.term > call.term and later.from_ms < call.sent_ms for later in history.authorities)


def _over_ms(made: list[Call], reason: str) -> float:
    """The earliest moment at which anybody can have known that the attempt had failed."""
    only = made[0]
    if len(made) == 1 and only.answer == "failed" and only.ended_ms is not None and "unknown" not in reason:
        return only.ended_ms
    return only.sent_ms


def _wait_ms(version: VersionRow, attempt: int, reason: str) -> int:
    retry = retry_of(version.schedule)
    first_ms, most_ms = duration_ms(retry.backoff), duration_ms(retry.max_backoff)
    if "unknown" in reason and not retry.limit:
        first_ms, most_ms = IN_DOUBT_FIRST_MS, IN_DOUBT_MAX_MS
    return min(first_ms << min(attempt - 1, 40), most_ms)


CHECKER = Checker("retry", "A failed launch is tried again as its owner said, whoever leads", check)
