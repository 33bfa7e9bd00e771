"""What may be called again is called until it is known to be done, or its bound is reached.

This is about launches of schedules with ``on_doubt: relaunch``, and of receivers that do a thing once however often
they are told. Recorded as succeeded, such a launch was done. It ends ``in_doubt`` only after as many attempts as its
own ``retry`` allows (without one: eight and the first), because its deadline
had passed when it could have been called again, because a repeat failed for certain, because somebody wanted it
stopped, or without a start on record, where the record of its turn was lost and it went on waiting.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.model.launch import EARLIER_CALL
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    calls_by_name,
    is_repeatable,
    record,
    resolved_by_hand,
    retry_of,
    versions,
)
from tocsin.simulation.history import History

IN_DOUBT_AGAIN = 8
"""So often a launch whose owner says nothing is called again while the answers stay unknown."""


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None:
        return
    specs = versions(final)
    calls = calls_by_name(history)
    by_hand = resolved_by_hand(history)
    for row in final.launches:
        version = specs.get((row.schedule, row.version))
        made = calls.get(row.name, [])
        if version is None or row.name in history.lies or not is_repeatable(version.schedule, made):
            continue
        when = float(row.ended_ms or row.planned_ms)
        if row.state == "succeeded" and "succeeded" not in by_hand.get(row.name, ()):
            if not any(call.had_effect for call in made):
                yield Finding(when, f"{row.name} is recorded as succeeded and was never done", row.name)
        elif (
            row.state == "in_doubt"
            and row.started_ms is not None
            and not row.cancel
            and not row.reason.endswith(EARLIER_CALL)
        ):
            limit = retry_of(version.schedule).limit or IN_DOUBT_AGAIN
            if row.attempt <= limit:
                text = f"{row.name} was given up in doubt after attempt {row.attempt}; {limit + 1} were to be made"
                yield Finding(when, text, row.name)


CHECKER = Checker("at least once", "What may be called again is not given up before its bound", check)
