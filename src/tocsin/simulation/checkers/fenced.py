"""A receiver that compares terms does nothing for a former leader once it has heard of a later one.

The order carries the term. Whatever a receiver that fences has seen of a higher term, done or not, bars the lower
ones of the same schedule at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import Call, History


def check(history: History) -> Iterator[Finding]:
    highest: dict[tuple[str, str], Call] = {}
    for call in sorted(history.calls, key=lambda call: call.at_ms):
        if call.receiver != "fenced":
            continue
        seen = highest.setdefault((call.place, call.schedule), call)
        if call.term > seen.term:
            highest[call.place, call.schedule] = call
        elif call.term < seen.term and call.had_effect:
            text = (
                f"{call.name} was done for {call.replica} in term {call.term} although {call.place} had heard of "
                f"term {seen.term}, from {seen.replica}"
            )
            yield Finding(call.at_ms, text, call.name)


CHECKER = Checker("fenced", "A receiver that compares terms does nothing for a former leader", check)
