"""Lists find what is asked for without walking through all of history."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.desk import Desk, schedule_of

from tocsin.model.command import PutSchedule
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

START = 1_700_000_000
OUTCOMES = (
    SUCCEEDED,
    Outcome(Verdict.FAILED, reason="no"),
    Outcome(Verdict.UNKNOWN, reason="who knows"),
    None,
)


@pytest.fixture
def desk() -> Iterator[Desk]:
    """Two schedules, launches in every state, some of them open."""
    desk = Desk(START)
    for id in ("a", "b"):
        desk.command(PutSchedule(schedule_of(id=id, cron="@every 10s")))
    outcomes = itertools.cycle(OUTCOMES)
    for _ in range(12):
        desk.now_ms += 10_000
        desk.turns()
        for lid in list(desk.flights):
            outcome = next(outcomes)
            if outcome is not None:
                desk.end(lid, outcome)
            else:
                del desk.flights[lid]
    yield desk
    desk.close()


@pytest.mark.parametrize("schedule", [None, "a"])
@pytest.mark.parametrize(
    "states", [(), ("failed",), ("failed", "in_doubt"), ("started", "running"), ("succeeded",)]
)
def a_filtered_list_is_what_a_filter_of_the_whole_list_gives(
    desk: Desk, schedule: str | None, states: tuple[str, ...]
) -> None:
    everything = views.launches(desk.db, limit=1000).items
    wanted = [
        view.name
        for view in everything
        if (schedule is None or view.schedule == schedule) and (not states or view.state in states)
    ]
    found = views.launches(desk.db, schedule_id=schedule, states=states, limit=1000).items
    assert [view.name for view in found] == wanted


@pytest.mark.parametrize("limit", [1, 5, 7])
def pages_add_up_to_the_whole_list(desk: Desk, limit: int) -> None:
    whole = [view.name for view in views.launches(desk.db, limit=1000).items]
    found: list[str] = []
    cursor = ""
    while True:
        page = views.launches(desk.db, cursor=cursor, limit=limit)
        found += [view.name for view in page.items]
        cursor = page.cursor
        if not cursor:
            break
    assert found == whole


def rare_states_are_found_through_an_index(desk: Desk) -> None:
    for states, index in ((("failed",), "launch_trouble"), (("running",), "launch_open")):
        assert f"INDEXED BY {index}" in views._best_index(None, states)
        assert views.launches(desk.db, states=states) is not None


def a_page_far_down_costs_no_more_than_the_first(desk: Desk) -> None:
    """Of millions: the index is entered where the page begins."""
    desk.command_many("", [f"many/{number:04d}" for number in range(3_000)])

    def steps(**asked: Any) -> int:
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        desk.db.set_progress_handler(count, 10)
        views.schedules(desk.db, limit=10, **asked)
        desk.db.set_progress_handler(None, 0)
        return counted

    first = steps()
    assert steps(prefix="many/29") < 2 * first
    assert steps(cursor="many/2950") < 2 * first
    assert steps(within=["many/2950"]) < 2 * first
