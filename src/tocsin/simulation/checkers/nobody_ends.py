"""No replica ends by itself, other than for a reason that a fault explains.

A defect of the program (a wrong type, a broken assertion, an entry it does not know, a state that differs from the
others') is never explained by a fault. What is wrong with a disk or with a journal is, if something was done to one
before; anything else, if something was broken at that time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History

AFTERMATH_MS = 60_000.0
_DEFECT = re.compile(
    r"\b(Assertion|Attribute|Index|Key|Lookup|Name|NotImplemented|Recursion|Type|UnboundLocal|Value|ZeroDivision)Error\b"
    r"|\bUnknownChange\b|\bDiverged\b|\bdiverged\b|InvalidStateError|IntegrityError|ProgrammingError"
)
_STORAGE = re.compile(
    r"WrongIncarnation|\bGap\b|StateDamaged|SnapshotDamaged|damaged|incarnation|snapshot|backup|disk|journal",
    re.I,
)
_TOUCHES_STORAGE = re.compile(
    r"disk|snapshot|backup|journal|recover|restore|corrupt|damage|truncat|trim|lost", re.I
)


def check(history: History) -> Iterator[Finding]:
    for at_ms, replica, why in sorted(history.ended_badly):
        if not _is_explained(history, at_ms, why):
            yield Finding(at_ms, f"{replica} ended by itself: {why}")


def _is_explained(history: History, at_ms: float, why: str) -> bool:
    if _DEFECT.search(why):
        return False
    before = [fault for fault in history.faults if fault.at_ms <= at_ms]
    if _STORAGE.search(why):
        is_lost = any(lost.at_ms <= at_ms for lost in history.lost)
        return is_lost or any(_TOUCHES_STORAGE.search(f"{fault.kind} {fault.text}") for fault in before)
    return any(at_ms <= (fault.until_ms or fault.at_ms) + AFTERMATH_MS for fault in before)


CHECKER = Checker("nobody ends", "No replica ends by itself without a fault that explains it", check)
