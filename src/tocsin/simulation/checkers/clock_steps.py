"""A clock that steps by weeks, on one machine or on all of them, moves nothing: no occurrence is decided at an instant
that the true time has not reached, and afterwards every schedule goes on where it should.

Only where several machines were started anew while their clocks were wrong they may believe each other: nobody there
remembers another time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.cron import Expression
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import record, versions_by_id, within_window
from tocsin.simulation.history import Final, History, VersionRow

FAR_MS = 86_400_000
"""Smaller steps are for other claims."""
SPARE_S = 120


def check(history: History) -> Iterator[Finding]:
    if _lost_its_memory(history):
        return
    for call in history.calls:
        early_ms = call.instant_s * 1000 - call.at_ms
        if early_ms > FAR_MS and not call.name.endswith("-manual"):
            text = f"{call.name} was called by {call.replica} {early_ms / FAR_MS:.0f} days before its instant"
            yield Finding(call.at_ms, text, call.name)
    for landed in history.landed:
        early_ms = landed.entry.time_ms - landed.at_ms
        if early_ms > FAR_MS:
            text = f"entry {landed.seq} of {landed.author} is stamped {early_ms / FAR_MS:.0f} days ahead of the truth"
            yield Finding(landed.at_ms, text)
    final = record(history)
    if final is not None:
        yield from _due(history, final)


def _due(history: History, final: Final) -> Iterator[Finding]:
    """In the end each schedule waits for its very next occurrence."""
    now_s = int(history.ended_ms // 1000)
    for id, (instant_s, _) in sorted(final.due.items()):
        rows = versions_by_id(final).get(id)
        if instant_s <= now_s + SPARE_S or not rows:
            continue
        following_s = _next_s(rows[-1], now_s + SPARE_S)
        if following_s is not None and following_s < instant_s:
            text = f"{id} waits for {instant_s}, its next occurrence is {following_s}"
            yield Finding(history.ended_ms, text, id)


def _next_s(version: VersionRow, after_s: int) -> int | None:
    schedule = version.schedule
    found = Expression.parse(version.resolved, timezone=schedule.timezone).next_unix(after_s)
    return found if found is not None and within_window(schedule, found) else None


def _lost_its_memory(history: History) -> bool:
    """Were several machines started anew, or their disks lost, while a clock was far off?"""
    far = [fault for fault in history.faults if fault.kind == "far clock"]
    anew = [
        fault
        for fault in history.faults
        if fault.kind in ("power", "lost disks")
        and any(
            fault.at_ms <= (wrong.until_ms or history.ended_ms)
            and wrong.at_ms <= (fault.until_ms or history.ended_ms)
            for wrong in far
        )
    ]
    return len({fault.who for fault in anew}) > 1 or any(fault.kind == "lost disks" for fault in anew)


CHECKER = Checker("clock steps", "A clock that steps by weeks moves nothing", check)
