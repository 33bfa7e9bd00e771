"""A leader decides on nothing that cannot be applied.

Such a change is left out of the entry and stops nobody, so no other checker would notice: it is a defect of a decision,
and no fault explains it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History


def check(history: History) -> Iterator[Finding]:
    for at_ms, replica, what in history.dropped:
        yield Finding(at_ms, f"{replica} could not apply what it decided: {what[:400]}")


CHECKER = Checker("nothing dropped", "Every change that a leader proposes can be applied", check)
