"""A leader that is wedged is followed by another one.

The thread that renews the lease goes on when the loop, the state or the disk of a leader stands still. So that such a
leader does not keep its office for ever, another one takes over while the wedge lasts, if nothing else is broken.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.model import change as c
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import Fault, History

WEDGE = "wedge"
TAKEN_MS = 12_000
"""So long after the beginning of a wedge another one leads: 5 s until it is noticed, the lease, an election."""
AFTERMATH_MS = 30_000
"""What was broken so short a time before may still have its effects."""


def check(history: History) -> Iterator[Finding]:
    for fault in history.faults:
        until_ms = history.ended_ms if fault.until_ms is None else fault.until_ms
        if fault.kind != WEDGE or until_ms - fault.at_ms < TAKEN_MS or not _is_alone(history, fault):
            continue
        if history.replicas == 1 or _leader(history, fault.at_ms) != fault.who:
            continue
        if not any(fault.at_ms < at_ms <= fault.at_ms + TAKEN_MS for at_ms, _ in _elections(history)):
            text = f"{fault.text}, and after {TAKEN_MS / 1000:.0f} s no other replica leads"
            yield Finding(fault.at_ms, text)


def _is_alone(history: History, fault: Fault) -> bool:
    """Was nothing else broken, shortly before or meanwhile?"""
    return not any(
        other is not fault
        and other.at_ms < fault.at_ms + TAKEN_MS
        and (other.until_ms is None or other.until_ms > fault.at_ms - AFTERMATH_MS)
        for other in history.faults
    )


def _elections(history: History) -> Iterator[tuple[float, str]]:
    for landed in history.landed:
        for change in landed.entry.changes:
            if isinstance(change, c.TookOffice):
                yield landed.at_ms, change.replica
            elif isinstance(change, c.Resigned):
                yield landed.at_ms, ""


def _leader(history: History, at_ms: float) -> str:
    """Who led at that moment, for long enough to have begun."""
    found = [who for when_ms, who in _elections(history) if when_ms < at_ms - 1_000]
    return found[-1] if found else ""


CHECKER = Checker("fail-over", "A leader that is wedged is followed by another one", check)
