"""Which occurrences of the past can be launched after the fact.

Only those that were certainly not launched: skipped, missed, paused, or before there was the schedule. Where a launch
may have happened and its record is no longer kept, nobody can know, so it is left out unless the owner insists.

After a record was lost, this holds for everything before the loss ended. In the lost time schedules may have been
created, resumed and changed, and what had been skipped or missed earlier may have been backfilled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tocsin.decide.timeline import Plan

BACKFILL_MAX = 1000
"""How many occurrences one request launches."""
LOOKED_AT_MAX = 10_000
"""How many it looks at for that."""
_FORGOTTEN = "no record of it is kept"
_LOST = "the record of that time, or of a later time, was lost"


class Known(NamedTuple):
    """What is recorded about the past of a schedule."""

    states: Mapping[int, str]
    """By instant: the states of the launches there are; ``unrecorded`` where the record was lost."""
    missed: Sequence[tuple[int, int]]
    """Stretches [from, before) that nobody was in office for, or that were certainly not launched."""
    paused_ms: Sequence[tuple[int, int]]
    """Times [since, until) in which it was paused or deleted."""
    first_known_ms: int
    forgotten_upto_s: int
    """Launches up to this instant may have been forgotten."""
    due_instant_s: int | None
    """What comes next by itself."""
    lost_until_ms: int
    """An occurrence planned before this moment may have been launched, and its record lost."""


class Past(NamedTuple):
    """An occurrence in the range that was asked for, and what is to become of it."""

    instant_s: int
    launch: bool
    why: str


def choose(
    plan: Plan, known: Known, from_s: int, until_s: int, now_s: int, unrecorded: bool
) -> tuple[list[Past], bool]:
    """Every occurrence in ``[from, until)``, and whether there are more than one request covers."""
    launches = 0
    upto_s = min(until_s, now_s + 1)
    if known.due_instant_s is not None:
        upto_s = min(upto_s, known.due_instant_s)
    found: list[Past] = []
    instant = plan.next_instant(from_s - 1)
    while instant is not None and instant < upto_s:
        if launches == BACKFILL_MAX or len(found) == LOOKED_AT_MAX:
            return found, True
        found.append(_judged(instant, known, unrecorded))
        launches += found[-1].launch
        instant = plan.next_instant(instant)
    return found, False


def _judged(instant_s: int, known: Known, unrecorded: bool) -> Past:
    state = known.states.get(instant_s)
    instant_ms = instant_s * 1000
    if state not in (None, "skipped", "not started", "unrecorded"):
        return Past(instant_s, False, f"it was launched: {state}")
    if state == "unrecorded" or instant_ms < known.lost_until_ms:
        return _uncertain(instant_s, _LOST, unrecorded)
    if state is not None:
        return Past(
            instant_s, True, "it was skipped" if state == "skipped" else "it was cancelled before it started"
        )
    if instant_s <= known.forgotten_upto_s:
        return _uncertain(instant_s, _FORGOTTEN, unrecorded)
    if any(begin <= instant_s < end for begin, end in known.missed):
        return Past(instant_s, True, "it was missed")
    if instant_ms < known.first_known_ms:
        return Past(instant_s, True, "there was no such schedule yet")
    if any(begin <= instant_ms < end for begin, end in known.paused_ms):
        return Past(instant_s, True, "it was paused or deleted then")
    return _uncertain(instant_s, _FORGOTTEN, unrecorded)


def _uncertain(instant_s: int, because: str, is_wanted: bool) -> Past:
    if is_wanted:
        return Past(instant_s, True, f"{because}, and launching it nevertheless was asked for")
    return Past(instant_s, False, f"{because}, so it may have been launched")
