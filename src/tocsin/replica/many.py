"""Many schedules at once: those that are simply new go into one change of columns, the rest one by one.

Runs on the state that the entry is appended to, so what is found free here is free when it is applied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from tocsin.errors import TocsinError
from tocsin.model import change as c
from tocsin.model.command import PutSchedule, PutSchedules
from tocsin.replica.prepare import prepare
from tocsin.state import queries
from tocsin.state.apply.schedules import Put
from tocsin.state.views import decode_spec


class Many(NamedTuple):
    """The changes of one command, and where in its list each result belongs."""

    changes: list[c.Change]
    places: list[int]
    """Of those that are put one by one: the last ones of the changes."""
    answers: dict[int, Any]
    """By their place: what became of those that are not simply created."""
    simple: Sequence[int] = ()
    """The places of those that are simply created, by the first of the changes."""

    def result(self, results: Sequence[Any]) -> dict[int, Any]:
        """By their place: what became of each that was not simply created."""
        one_by_one = results[len(results) - len(self.places) :]
        answers = {**self.answers, **dict(zip(self.places, one_by_one, strict=True))}
        if self.simple and results and isinstance(results[0], TocsinError):
            answers |= dict.fromkeys(self.simple, results[0])
        return answers


def prepare_many(db: sqlite3.Connection, command: PutSchedules, now_ms: int) -> Many:
    """Each of them as it would be by itself."""
    new = command.new
    known = queries.in_use(db, new.ids)
    answers: dict[int, Any] = {}
    places: list[int] = []
    for place, id in enumerate(new.ids) if known else ():
        present = known.get(id)
        if present is not None and present[1] == new.specs[place]:  # the same list was sent before
            answers[place] = Put(present[0], "unchanged")
        elif id in known:
            places.append(place)
    # What has passed meanwhile is for its policies to judge.
    places += [
        place
        for place, instant_s in enumerate(new.first_instants_s)
        if instant_s is not None
        and instant_s * 1000 + new.first_delays_ms[place] < now_ms
        and new.ids[place] not in known
    ]
    left_out = {*places, *answers}
    simply = new.without(left_out)
    simple = [place for place in range(len(new)) if place not in left_out] if left_out else range(len(new))
    changes: list[c.Change] = [c.SchedulesCreated(simply, command.actor)] if len(simply) else []
    singly: list[int] = []
    for place in places:
        schedule = decode_spec(new.specs[place])
        one = PutSchedule(schedule, expect=command.expect, actor=command.actor, skip_past=command.skip_past)
        try:
            changes.append(prepare(db, one, now_ms))
            singly.append(place)
        except TocsinError as wrong:
            answers[place] = wrong
    return Many(changes, singly, answers, simple)
