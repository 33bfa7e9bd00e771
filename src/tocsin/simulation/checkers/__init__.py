"""What is looked at in every simulated history: one claim a file.

A checker knows what was promised (``docs/decisions``, the design), not how it is done: it reads the journal, what
happened at the receivers in truth, and the record, and says where they do not go together. The order here is the
order in which findings are told: what is broken first explains what comes after.
"""

from __future__ import annotations

from tocsin.simulation.checkers import (
    acknowledged_stay,
    answers,
    at_least_once,
    believed_clock,
    calm,
    chain,
    chronos,
    clock_steps,
    deadline,
    entry_size,
    failover,
    fenced,
    kept,
    missed,
    no_double,
    nobody_ends,
    nothing_dropped,
    nothing_early,
    nothing_lost,
    one_office,
    overlap,
    replicas_agree,
    retry,
    rows_true,
    started_first,
)
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History

__all__ = ["ALL", "Checker", "Finding", "judge"]

ALL: tuple[Checker, ...] = tuple(
    part.CHECKER
    for part in (
        one_office,
        acknowledged_stay,
        entry_size,
        answers,
        replicas_agree,
        nobody_ends,
        chain,
        nothing_dropped,
        started_first,
        failover,
        fenced,
        no_double,
        at_least_once,
        nothing_lost,
        rows_true,
        nothing_early,
        clock_steps,
        believed_clock,
        overlap,
        deadline,
        retry,
        missed,
        kept,
        calm,
        chronos,
    )
)


def judge(history: History) -> list[tuple[Checker, Finding]]:
    """Everything that is wrong with it, claim by claim."""
    return [(checker, finding) for checker in ALL for finding in checker.check(history)]
