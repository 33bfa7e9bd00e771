"""When nothing is broken any more, the service catches up.

In the end everybody is there, somebody leads and all say so; nobody is behind; nothing that is due waits; no launch
stays open longer than its target and its policies explain; whoever asks is answered. And from half a minute into the
calm on, launches start on time.

Launches that have to wait by their own policy (queue, replace, catching up in order, a backfill, a person's run-now)
are not on time by design, and neither is what a crowd of orders stands before.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from tocsin.model.schedule import Schedule
from tocsin.model.target import ExecTarget, HttpTarget
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    OPEN,
    calls_by_name,
    duration_ms,
    patience_ms,
    record,
    retry_of,
    versions,
    versions_by_id,
)
from tocsin.simulation.history import Call, Final, History, LaunchRow, VersionRow
from tocsin.simulation.receivers import SLOWLY_CONNECTED_S

SETTLED_MS = 30_000
"""So long after the last fault everything is as usual again."""
ON_TIME_MS = 2_000
OVERDUE_MS = 10_000
HEARD_MS = 2_000
"""Entries of the last moment may not have reached everybody."""
CONCLUDED_MS = 20_000
"""So long after its end a launch may be open: a silent replica is waited for."""
CALLED_MS = 90_000
"""So long an order may wait for its call."""
CROWD = 200
"""With so many orders under way others wait for their turn."""
DOUBT_BACKOFF_MAX_MS = 60_000


def check(history: History) -> Iterator[Finding]:
    yield from _led(history)
    yield from _heard(history)
    yield from _answered(history)
    final = record(history)
    if final is not None:
        yield from _overdue(history, final)
        yield from _still_open(history, final)
        yield from _on_time(history, final)


def _led(history: History) -> Iterator[Finding]:
    everybody = {applied.replica for applied in history.applied}
    for replica in sorted(everybody - set(history.finals)):
        yield Finding(history.ended_ms, f"{replica} is not there in the end")
    leaders = {final.leader for final in history.finals.values()}
    if history.finals and (len(leaders) != 1 or "" in leaders or not leaders <= set(history.finals)):
        told = ", ".join(
            f"{name} says {final.leader or 'nobody'}" for name, final in sorted(history.finals.items())
        )
        yield Finding(history.ended_ms, f"it is not clear who leads in the end: {told}")


def _heard(history: History) -> Iterator[Finding]:
    if not history.landed:
        return
    last = max(history.landed, key=lambda landed: landed.at_ms)
    cuts = [(lost.at_ms, lost.after) for lost in history.lost if lost.incarnation == last.incarnation]
    settled = [
        landed.seq
        for landed in history.landed
        if landed.incarnation == last.incarnation
        and landed.at_ms < history.ended_ms - HEARD_MS
        and not any(landed.at_ms <= at_ms and landed.seq > after for at_ms, after in cuts)
    ]
    for replica, final in sorted(history.finals.items()):
        if final.seq < max(settled, default=0):
            text = f"{replica} has applied {final.seq} entries in the end, of {max(settled)}"
            yield Finding(history.ended_ms, text)


def _answered(history: History) -> Iterator[Finding]:
    for asked in history.asked:
        what = f"{type(asked.command).__name__} of {asked.command.about}, asked of {asked.replica}"
        if not asked.outcome and asked.at_ms < history.ended_ms - SETTLED_MS:
            yield Finding(asked.at_ms, f"nobody answered {what}", asked.command.about)
        elif asked.at_ms > history.calm_ms + SETTLED_MS and asked.outcome in ("nobody", "uncertain"):
            text = f"{what} was not served although nothing was broken: {asked.outcome} {asked.told}"
            yield Finding(asked.at_ms, text, asked.command.about)


def _overdue(history: History, final: Final) -> Iterator[Finding]:
    spare_ms = OVERDUE_MS + history.clock_error_ms
    for id, (instant_s, at_ms) in sorted(final.due.items()):
        if at_ms < history.ended_ms - spare_ms:
            late_s = (history.ended_ms - at_ms) / 1000
            yield Finding(history.ended_ms, f"{id} at {instant_s} has been due for {late_s:.0f} s", id)


def _still_open(history: History, final: Final) -> Iterator[Finding]:
    calls = calls_by_name(history)
    specs = versions(final)
    newest = {id: rows[-1] for id, rows in versions_by_id(final).items()}
    under_way = Counter(call.receiver for call in history.calls if call.ended_ms is None)
    is_crowded = any(count >= CROWD for count in under_way.values())
    beside: defaultdict[str, list[LaunchRow]] = defaultdict(list)
    for row in final.launches:
        beside[row.schedule].append(row)
    for row in final.launches:
        if row.state not in OPEN:
            continue
        if row.state == "queued":
            why = _queued(history, row, beside[row.schedule], newest.get(row.schedule))
        elif row.state == "retrying":
            why = _retrying(history, row, specs.get((row.schedule, row.version)))
        else:
            version = specs.get((row.schedule, row.version))
            why = _under_way(history, row, version, calls.get(row.name, []), is_crowded)
        if why:
            yield Finding(history.ended_ms, f"{row.name} is still {row.state}: {why}", row.name)


def _queued(history: History, row: LaunchRow, beside: list[LaunchRow], newest: VersionRow | None) -> str:
    if row.is_backfill and newest is not None and not newest.enabled:
        return ""
    others = [other for other in beside if other.name != row.name]
    if any(other.state in OPEN and other.state != "queued" for other in others):
        return ""
    limit_ms = history.ended_ms - CONCLUDED_MS - history.clock_error_ms
    if any((other.held_ms or 0) > limit_ms for other in others):
        return ""
    if max([history.calm_ms, row.planned_ms, *(other.ended_ms or 0 for other in others)]) < limit_ms:
        return "nothing else of its schedule is open"
    return ""


def _retrying(history: History, row: LaunchRow, version: VersionRow | None) -> str:
    if version is None:
        return ""
    failed_ms = max((ended_ms for _, ended_ms, _ in row.failed_attempts), default=0)
    due_ms = max(failed_ms, history.calm_ms) + _wait_max_ms(version.schedule)
    if due_ms < history.ended_ms - CONCLUDED_MS - history.clock_error_ms:
        return "its next attempt should have been made long ago"
    return ""


def _under_way(
    history: History, row: LaunchRow, version: VersionRow | None, calls: list[Call], is_crowded: bool
) -> str:
    if version is None:
        return ""
    waited_ms = patience_ms(version.schedule)
    made = [call for call in calls if call.attempt == row.attempt]
    if made:
        ends = [_over_ms(call, waited_ms) for call in calls if call.had_effect or call in made]
        over_ms = max([history.calm_ms, *ends])
        return "its call ended long ago" if over_ms < history.ended_ms - CONCLUDED_MS else ""
    failed_ms = max((ended_ms for _, ended_ms, _ in row.failed_attempts), default=0)
    since_ms = max(history.calm_ms, float(row.started_ms or 0), failed_ms + _wait_max_ms(version.schedule))
    if since_ms + waited_ms < history.ended_ms - CALLED_MS and not is_crowded:
        return "no call of it was ever made"
    return ""


def _over_ms(call: Call, waited_ms: int) -> float:
    """When whoever made the call knew how it ended, or gave up waiting."""
    if not call.had_effect:
        return call.at_ms + waited_ms
    ended_ms = math.inf if call.ended_ms is None else call.ended_ms
    return call.sent_ms + waited_ms if waited_ms else ended_ms


def _wait_max_ms(schedule: Schedule) -> float:
    retry = retry_of(schedule)
    most_ms = duration_ms(retry.max_backoff) if retry.limit else DOUBT_BACKOFF_MAX_MS
    return most_ms * (1 + retry.jitter)


def _on_time(history: History, final: Final) -> Iterator[Finding]:
    specs = versions(final)
    from_ms = history.calm_ms + SETTLED_MS
    for row in final.launches:
        version = specs.get((row.schedule, row.version))
        if row.is_manual or row.is_backfill or version is None or row.started_ms is None:
            continue
        schedule = version.schedule
        waits = schedule.overlap in ("queue", "replace") or schedule.missed == "all"
        if waits or row.planned_ms < max(from_ms, version.since_ms):
            continue
        late_ms = row.started_ms - row.planned_ms - _connecting_ms(schedule)
        if late_ms > ON_TIME_MS + history.clock_error_ms:
            text = f"{row.name} was started {late_ms} ms late although nothing was broken"
            yield Finding(row.started_ms, text, row.name)


def _connecting_ms(schedule: Schedule) -> int:
    """A launch has started when its call went out."""
    target = schedule.target
    is_slow = (isinstance(target, HttpTarget) and "-slow" in target.url) or (
        isinstance(target, ExecTarget) and target.shell == "slow"
    )
    return round(SLOWLY_CONNECTED_S * 1000) if is_slow else 0


CHECKER = Checker("calm", "After the faults the service catches up and is on time", check)
