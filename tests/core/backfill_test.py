"""Launching after the fact: only what was certainly not launched, once, and in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.core.desk import START, Desk, at, only_flight, put

from tocsin.errors import NotFound, Refused
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    DeleteSchedule,
    LaunchNow,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.replica.outcomes import changes_of
from tocsin.replica.prepare import past_occurrences
from tocsin.replica.reports import Reports
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict


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


def what_was_skipped_before_its_call_begins_with_the_first_attempt(desk: Desk) -> None:
    """It waited for a slot until its deadline had passed."""
    put(desk, deadline="1s", cron="@at 2023-11-14T22:14:20Z")
    at(desk, 60)
    flight = desk.flights.pop(only_flight(desk))
    desk.commit(*changes_of(Reports(expired=[flight]), {}, desk.now_ms))
    assert _minutes_total(desk, "started") == 0
    assert backfill(desk, 50, 70) == 1
    desk.turns()
    assert desk.flights[only_flight(desk)].order.attempt == 1
    assert (_minutes_total(desk, "started"), _minutes_total(desk, "retries")) == (1, 0)


def the_start_of_a_backfill_is_that_of_its_first_attempt(desk: Desk) -> None:
    paused(desk, retry={"limit": 1, "backoff": "10s", "jitter": 0})
    backfill(desk, 50, 70)
    desk.turns()
    started_ms = desk.now_ms
    desk.end(only_flight(desk), Outcome(Verdict.FAILED, "no"))
    desk.now_ms += 20_000
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    (launch,) = [view for view in views.launches(desk.db).items if view.attempt == 2]
    assert launch.started_at == datetime.fromtimestamp(started_ms / 1000, UTC)


def _minutes_total(desk: Desk, column: str) -> int:
    (total,) = desk.db.execute(f"SELECT coalesce(sum({column}), 0) FROM minute").fetchone()
    return int(total)


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


def a_backfill_is_not_repeated_when_its_record_was_forgotten(desk: Desk) -> None:
    """A stretch that was missed or paused stays known for longer than the launches that made up for it."""
    paused(desk)
    backfill(desk, 1, 305)
    assert drained(desk) == [60, 120, 180, 240, 300]
    lids = [lid for (lid,) in desk.db.execute("SELECT lid FROM launch ORDER BY lid LIMIT 3")]
    desk.commit(c.HistoryForgotten(lids, 0))
    with pytest.raises(Refused, match="nothing to launch"):
        backfill(desk, 1, 305)
    assert backfill(desk, 1, 305, unrecorded=True) == 3


def what_is_older_than_all_records_may_have_been_launched_by_a_former_life(desk: Desk) -> None:
    put(desk, cron="* * * * *")
    with pytest.raises(Refused, match="nothing to launch"):
        desk.command(Backfill("s", START - 600, START, recorded_since_s=START))


def an_occurrence_resolved_as_skipped_and_backfilled_is_a_further_attempt(desk: Desk) -> None:
    """A command that was claimed as attempt 1 would answer for that one again and run nothing."""
    put(desk)
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="cut"))
    desk.command(ResolveLaunch(f"s-{START + 60}", "skipped"))
    assert backfill(desk, 1, 61) == 1
    desk.turns()
    assert [flight.order.attempt for flight in desk.flights.values()] == [2]


def what_waits_with_an_attempt_behind_it_ends_when_its_schedule_is_deleted(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="cut"))
    desk.command(ResolveLaunch(f"s-{START + 60}", "skipped"))
    backfill(desk, 1, 61)
    desk.command(DeleteSchedule("s"))
    desk.turns()
    assert desk.states_of("s") == {START + 60: "skipped"}


def a_pause_stops_a_backfill_until_it_is_resumed(desk: Desk) -> None:
    paused(desk)
    backfill(desk, 1, 305)
    desk.command(SwitchSchedule("s", False))
    desk.turns()
    assert not desk.flights
    desk.command(SwitchSchedule("s", True))
    desk.turns()
    assert len(desk.flights) == 1


def what_waited_under_a_deleted_schedule_does_not_start_under_the_next(desk: Desk) -> None:
    paused(desk)
    backfill(desk, 1, 305)
    desk.command(DeleteSchedule("s"))
    put(desk)
    desk.turns()
    assert not desk.flights


def the_oldest_comes_first_also_when_it_was_skipped_before(desk: Desk) -> None:
    put(desk, cron="* * * * *", overlap="forbid")
    at(desk, 40)
    at(desk, 100)
    desk.end(only_flight(desk), SUCCEEDED)
    assert backfill(desk, -90, 101) == 3
    assert drained(desk) == [-80, -20, 100]


def a_launch_cancelled_while_it_waited_can_be_backfilled(desk: Desk) -> None:
    paused(desk)
    backfill(desk, 1, 70)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    assert backfill(desk, 1, 70) == 1


def a_thousand_launched_ones_do_not_hide_what_was_left_out_behind_them(desk: Desk) -> None:
    put(desk, cron="* * * * * *")
    backfill(desk, -1005, -5)
    desk.db.execute("UPDATE launch SET state = 10, started_ms = 1")
    assert backfill(desk, -1005, 0) == 5


def more_than_can_be_looked_through_at_every_turn_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.replica.prepare.BACKFILLS_WAITING_MAX", 3)
    put(desk, cron="* * * * *")
    with pytest.raises(Refused, match="more than 3"):
        backfill(desk, -300, 0)
