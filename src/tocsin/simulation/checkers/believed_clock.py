"""Nothing is called in a term whose leader has not believed its clock yet: neither what is due nor what a former leader
left open. Whether that is too late by now, or still recognised by its receiver, is a matter of the time.

Whoever asks for a launch by hand has it called at once. What was handed over while the clock was believed may leave
after a step of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import resolved_by_hand
from tocsin.simulation.history import History


def check(history: History) -> Iterator[Finding]:
    by_hand = resolved_by_hand(history)
    for call in history.calls:
        if not call.is_timed and not call.name.endswith("-manual") and call.name not in by_hand:
            text = f"{call.name} was called by {call.replica} in term {call.term}, which has not believed its clock"
            yield Finding(call.at_ms, text, call.name)


CHECKER = Checker("believed clock", "Nothing is called by a clock that is not believed", check)
