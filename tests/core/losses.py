"""A desk whose record was lost, and what became of the occurrences of the lost time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.core.desk import START, Desk

from tocsin.model import change as c

MINUTE = 60
EACH = "* * * * *"
"""Its occurrences are 40 seconds after the minutes of the tests."""


@contextlib.contextmanager
def new_desk() -> Iterator[Desk]:
    desk = Desk(START)
    try:
        yield desk
    finally:
        desk.close()


def restored(desk: Desk, since_s: int, now_s: int) -> None:
    """The record ends at one moment and goes on at another."""
    desk.now_ms = (START + now_s) * 1000
    term = desk.store.meta.term + 1
    desk.commit(c.TookOffice(term, "desk"), c.Restored((START + since_s) * 1000))
    desk.turns()


def states(desk: Desk) -> dict[int, str]:
    """By minutes since the start."""
    return {(instant - START) // MINUTE: state for instant, state in desk.states_of("s").items()}


def given_up(desk: Desk) -> list[tuple[int, int, str]]:
    """Stretches of occurrences that were given up, in minutes, and the one skipped alone."""
    rows = desk.db.execute("SELECT from_s, before_s, reason FROM missed ORDER BY from_s").fetchall()
    found = [((a - START) // MINUTE, (b - 1 - START) // MINUTE, reason) for a, b, reason in rows]
    alone = desk.db.execute("SELECT instant_s, reason FROM launch WHERE state = 12").fetchall()
    return sorted([*found, *(((i - START) // MINUTE, (i - START) // MINUTE, why) for i, why in alone)])
