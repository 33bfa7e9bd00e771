"""A receiver that compares terms does nothing for a former leader once it has heard of a later one.

The order carries the term. Whatever a receiver that fences has seen of a higher term, done or not, bars the lower
ones of the same schedule at the same place. The term in which the caller led when it sent the order, by the journal,
counts as well: an order that carries another one fences nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tocsin.model import change as c
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import Call, History


def check(history: History) -> Iterator[Finding]:
    terms = _Terms(history)
    calls = sorted((call for call in history.calls if call.receiver == "fenced"), key=lambda call: call.at_ms)
    highest: dict[tuple[str, str, bool], tuple[int, Call]] = {}
    for call in calls:
        wrong = ""
        for is_told, term in ((True, call.term), (False, terms.of(call))):
            key = call.place, call.schedule, is_told
            seen, by = highest.setdefault(key, (term, call))
            if term > seen:
                highest[key] = term, call
            elif term < seen and call.had_effect:
                wrong = f"in term {term} although {call.place} had heard of term {seen}, from {by.replica}"
        if wrong:
            yield Finding(call.at_ms, f"{call.name} was done for {call.replica} {wrong}", call.name)


class _Terms:
    """When each process began to lead in which term."""

    def __init__(self, history: History) -> None:
        self._begun: defaultdict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        for landed in sorted(history.landed, key=lambda landed: landed.at_ms):
            if any(isinstance(change, c.TookOffice) for change in landed.entry.changes):
                self._begun[landed.author, landed.process].append((landed.at_ms, landed.entry.term))

    def of(self, call: Call) -> int:
        """The last one that its caller had begun; where the journal does not tell, what the order says."""
        begun = self._begun.get((call.replica, call.process), [])
        index = bisect_right(begun, call.sent_ms, key=lambda each: each[0])
        return begun[index - 1][1] if index else call.term


CHECKER = Checker("fenced", "A receiver that compares terms does nothing for a former leader", check)
