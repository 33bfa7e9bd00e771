"""Launching after the fact: only what was certainly not launched, once, and in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.desk import START, Desk, at, put

from tocsin.errors import NotFound, Refused
from tocsin.model.command import Backfill, DeleteSchedule, LaunchNow, SwitchSchedule
from tocsin.replica.prepare import past_occurrences
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def backfill(desk: Desk, begin: int, end: int, **more: bool) -> int:
    return desk.command(Backfill("s", START + begin, START + end, **more))


def drained(desk: Desk) -> list[int]:
    """Let everything that waits run, one after the other; the instants in the order they were handed over."""
    order: list[int] = []
    for _ in range(200):
        desk.turns()
        if not desk.flights:
            return order
        assert len(desk.flights) == 1, "one at a time"
        (lid,) = desk.flights
        order.append(desk.flights[lid].order.scheduled_at_s - START)
        desk.end(lid, SUCCEEDED)
    raise AssertionError("it never ends")


def paused(desk: Desk, **fields: object) -> None:
    put(desk, **fields)
    desk.command(SwitchSchedule("s", False))
    desk.now_ms += 310_000
    desk.command(SwitchSchedule("s", True))


def what_was_paused_is_launched_once_in_order_and_under_its_own_names(desk: Desk) -> None:
    paused(desk)
    assert backfill(desk, 1, 305) == 5
    assert drained(desk) == [60, 120, 180, 240, 300]
    assert set(desk.states_of("s").values()) == {"succeeded"}
    with pytest.raises(Refused, match="nothing to launch"):
        backfill(desk, 1, 305)


def occurrences_before_the_schedule_existed_can_be_launched(desk: Desk) -> None:
    put(desk, cron="* * * * *")
    assert backfill(desk, -300, 0) == 5


def what_was_launched_is_never_launched_again(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    (lid,) = desk.flights
    desk.end(lid, SUCCEEDED)
    with pytest.raises(Refused, match="nothing to launch"):
        backfill(desk, 1, 61)


def what_is_still_to_come_is_left_to_the_timeline(desk: Desk) -> None:
    put(desk)
    with pytest.raises(Refused, match="nothing to launch"):
        backfill(desk, 1, 10_000)


def a_skipped_occurrence_is_revived_under_its_own_name(desk: Desk) -> None:
    put(desk, overlap="forbid")
    at(desk, 60)
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "skipped"
    (lid,) = desk.flights
    desk.end(lid, SUCCEEDED)
    assert backfill(desk, 100, 121) == 1
    assert drained(desk) == [120]
    assert len(desk.launches()) == 2


def what_has_no_record_any_more_is_left_out_unless_asked_for(desk: Desk) -> None:
    put(desk)
    for second in (60, 120, 180):
        at(desk, second)
        for lid in list(desk.flights):
            desk.end(lid, SUCCEEDED)
    desk.db.execute("DELETE FROM launch WHERE instant_s = ?", (START + 60,))
    found, more = past_occurrences(desk.db, Backfill("s", START + 1, START + 181), desk.now_ms)
    assert [past.launch for past in found] == [False, False, False]
    assert "no record" in found[0].why
    assert not more
    assert backfill(desk, 1, 181, unrecorded=True) == 1


def a_backfill_waits_for_open_launches_and_does_not_stand_in_their_way(desk: Desk) -> None:
    paused(desk, overlap="queue")
    assert backfill(desk, 1, 305) == 5
    assert len(desk.flights) == 0
    at(desk, 360)
    # The oldest of the past may have started first; the live one then waits for that one alone.
    (lid,) = desk.flights
    desk.end(lid, SUCCEEDED)
    desk.turns()
    (lid,) = desk.flights
    assert desk.flights[lid].order.scheduled_at_s == START + 360


def a_deadline_does_not_skip_what_was_asked_for_after_the_fact(desk: Desk) -> None:
    paused(desk, deadline="10s")
    backfill(desk, 1, 305)
    assert drained(desk) == [60, 120, 180, 240, 300]


def a_launch_by_hand_is_not_refused_for_what_only_waits(desk: Desk) -> None:
    paused(desk, overlap="forbid")
    backfill(desk, 1, 305)
    assert desk.command(LaunchNow("s"))


def what_waits_ends_as_skipped_when_the_schedule_is_deleted(desk: Desk) -> None:
    paused(desk)
    backfill(desk, 1, 305)
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert set(desk.states_of("s").values()) == {"skipped"}


def lateness_counts_from_when_it_was_asked_for(desk: Desk) -> None:
    paused(desk)
    backfill(desk, 1, 70)
    desk.now_ms += 2_000
    desk.turns()
    assert views.launch(desk.db, f"s-{START + 60}").lateness_ms == 2_000


def a_range_of_more_than_a_request_may_cover_says_that_there_is_more(desk: Desk) -> None:
    put(desk, cron="* * * * * *")
    found, more = past_occurrences(desk.db, Backfill("s", START - 5_000, START), desk.now_ms)
    assert (len(found), more) == (1000, True)


def a_backfill_of_nothing_that_exists_is_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound):
        backfill(desk, 1, 100)
