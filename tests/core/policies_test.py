"""Each policy of a schedule, on the real state and decisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.decide.missed import CATCH_UP_MAX
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def an_occurrence_starts_at_its_instant_and_never_before(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 60) * 1000 - 1
    desk.turns()
    assert desk.states_of("s") == {}
    at(desk, 60)
    assert desk.states_of("s") == {START + 60: "started"}


def a_late_turn_keeps_the_nominal_timeline(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 185) * 1000 + 400
    desk.turns()
    assert list(desk.states_of("s")) == [START + 60, START + 120, START + 180]
    at(desk, 240)
    assert START + 240 in desk.states_of("s")


def the_start_and_the_next_instant_are_one_entry(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 60) * 1000
    before = len(desk.records)
    desk.turn()
    assert len(desk.records) == before + 1
    assert desk.db.execute("SELECT instant_s FROM due").fetchone() == (START + 120,)


def missed_last_launches_only_the_newest_and_accounts_for_the_rest(desk: Desk) -> None:
    put(desk, missed="last")
    desk.now_ms = (START + 630) * 1000
    desk.take_office()
    desk.turns()
    assert desk.states_of("s") == {START + 600: "started"}
    assert desk.db.execute("SELECT from_s, before_s FROM missed").fetchall() == [(START + 60, START + 600)]


def missed_skip_launches_none_of_them(desk: Desk) -> None:
    put(desk, missed="skip")
    desk.now_ms = (START + 630) * 1000
    desk.take_office()
    desk.turns()
    assert desk.states_of("s") == {}
    assert desk.db.execute("SELECT from_s, before_s FROM missed").fetchall() == [(START + 60, START + 601)]
    at(desk, 660)
    assert desk.states_of("s") == {START + 660: "started"}


def a_single_missed_occurrence_that_is_skipped_is_a_launch_with_a_reason(desk: Desk) -> None:
    put(desk, missed="skip")
    desk.now_ms = (START + 90) * 1000
    desk.take_office()
    desk.turns()
    assert desk.states_of("s") == {START + 60: "skipped"}
    (reason,) = desk.db.execute("SELECT reason FROM launch").fetchone()
    assert reason.startswith("missed: nothing was decided at that time")


def missed_all_launches_every_one_of_them(desk: Desk) -> None:
    put(desk, missed="all")
    desk.now_ms = (START + 630) * 1000
    desk.take_office()
    desk.turns()
    assert list(desk.states_of("s")) == [START + 60 * n for n in range(1, 11)]


def missed_all_is_bounded_and_says_what_it_gave_up(desk: Desk) -> None:
    put(desk, cron="@every 1s", missed="all")
    away_s = CATCH_UP_MAX + 500
    desk.now_ms = (START + away_s) * 1000 + 1
    desk.take_office()
    desk.turns()
    launched = desk.states_of("s")
    assert len(launched) == CATCH_UP_MAX
    assert max(launched) == START + away_s
    ((from_s, before_s),) = desk.db.execute("SELECT from_s, before_s FROM missed").fetchall()
    assert (from_s, before_s) == (START + 1, min(launched))


def catching_up_after_a_year_does_not_walk_through_every_second(desk: Desk) -> None:
    put(desk, cron="@every 1s", missed="last")
    put(desk, id="c", cron="* * * * * *", timezone="Europe/Berlin", missed="skip")
    desk.now_ms = (START + 365 * 86_400) * 1000
    desk.take_office()
    desk.turns()
    assert list(desk.states_of("s")) == [START + 365 * 86_400 - 1, START + 365 * 86_400]


def the_spread_keeps_catching_up_within_its_time(desk: Desk) -> None:
    for number in range(40):
        put(desk, id=f"s{number}", missed="last", catch_up_spread="5m")
    desk.now_ms = (START + 3630) * 1000
    desk.take_office()
    desk.turns()
    early = len(desk.flights)
    planned = sorted(at for (at,) in desk.db.execute("SELECT at_ms FROM due"))
    assert early <= 5
    assert len({at // 10_000 for at in planned}) > 10, "they burst together"
    assert planned[-1] <= desk.now_ms + 300_000


def the_spread_of_all_keeps_the_order(desk: Desk) -> None:
    put(desk, missed="all", catch_up_spread="2m")
    desk.now_ms = (START + 630) * 1000
    desk.take_office()
    seen: list[int] = []
    for second in range(630, 630 + 121):
        at(desk, second)
        seen += [instant for instant in desk.states_of("s") if instant not in seen]
    assert seen[:10] == [START + 60 * n for n in range(1, 11)]
    assert seen == sorted(seen)


def a_second_absence_leaves_what_is_left_its_spread(desk: Desk) -> None:
    """Otherwise an outage in the middle of catching up ends in the burst that the spread is there to prevent."""
    put(desk, cron="@every 10s", missed="all", catch_up_spread="2m")
    desk.now_ms = (START + 605) * 1000
    desk.take_office()
    at(desk, 605 + 30)
    early = len(desk.flights)
    assert 10 < early < 20
    desk.now_ms = (START + 605 + 60) * 1000
    desk.take_office()
    numbers = [early]
    for second in range(665, 665 + 120, 10):
        at(desk, second)
        numbers.append(len(desk.flights))
    assert max(later - former for former, later in pairwise(numbers)) < 10
    assert numbers[-1] > 55


def a_stall_of_the_leader_counts_as_absence(desk: Desk) -> None:
    put(desk, cron="@every 1s", missed="last")
    at(desk, 1)
    desk.now_ms = (START + 100) * 1000
    desk.returned(absent_since_ms=(START + 1) * 1000)
    desk.turns()
    assert list(desk.states_of("s")) == [START + 1, START + 99, START + 100]


def a_start_past_the_deadline_is_a_skip(desk: Desk) -> None:
    put(desk, deadline="30s")
    desk.now_ms = (START + 95) * 1000
    desk.turns()
    assert desk.states_of("s") == {START + 60: "skipped"}
    (reason,) = desk.db.execute("SELECT reason FROM launch").fetchone()
    assert reason == "deadline: it would have started 35 s late, 30 s are allowed"


def a_start_within_the_deadline_is_a_start(desk: Desk) -> None:
    put(desk, deadline="30s")
    at(desk, 90)
    assert desk.states_of("s") == {START + 60: "started"}


def overlap_allow_starts_beside_an_open_launch(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    at(desk, 120)
    assert list(desk.states_of("s").values()) == ["started", "started"]


def overlap_forbid_skips_while_one_is_open(desk: Desk) -> None:
    put(desk, overlap="forbid")
    at(desk, 60)
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "skipped"
    desk.end(only_flight(desk), SUCCEEDED)
    at(desk, 180)
    assert desk.states_of("s")[START + 180] == "started"


def overlap_forbid_counts_a_launch_that_waits_for_its_retry(desk: Desk) -> None:
    put(desk, overlap="forbid", retry={"limit": 3, "backoff": "10m"})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    at(desk, 120)
    assert desk.states_of("s") == {START + 60: "retrying", START + 120: "skipped"}


def overlap_queue_holds_exactly_one(desk: Desk) -> None:
    put(desk, overlap="queue")
    for second in (60, 120, 180):
        at(desk, second)
    assert list(desk.states_of("s").values()) == ["started", "queued", "skipped"]
    desk.end(only_flight(desk), SUCCEEDED)
    desk.turns()
    assert list(desk.states_of("s").values()) == ["succeeded", "started", "skipped"]


def a_queued_launch_past_its_deadline_is_skipped(desk: Desk) -> None:
    put(desk, overlap="queue", deadline="90s")
    at(desk, 60)
    at(desk, 120)
    desk.now_ms = (START + 300) * 1000
    desk.end(only_flight(desk), SUCCEEDED)
    desk.turns()
    assert desk.states_of("s")[START + 120] == "skipped"


def overlap_replace_stops_the_old_one_before_the_new_one_starts(desk: Desk) -> None:
    put(desk, overlap="replace")
    at(desk, 60)
    old = only_flight(desk)
    at(desk, 120)
    assert old in desk.cancelled
    assert list(desk.states_of("s").values()) == ["started", "queued"]
    desk.end(old, Outcome(Verdict.CANCELLED))
    desk.turns()
    assert list(desk.states_of("s").values()) == ["cancelled", "started"]
    (reason,) = desk.db.execute("SELECT reason FROM launch WHERE state = 13").fetchone()
    assert reason == f"replaced by s-{START + 120}"


def a_retry_waits_twice_as_long_each_time_and_then_gives_up(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 3, "backoff": "10s", "jitter": 0})
    at(desk, 60)
    waits = []
    for _ in range(3):
        desk.end(only_flight(desk), FAILED)
        (retry_at_ms,) = desk.db.execute("SELECT retry_at_ms FROM launch").fetchone()
        waits.append((retry_at_ms - desk.now_ms) // 1000)
        desk.now_ms = retry_at_ms - 1
        desk.turns()
        assert not desk.flights, "a retry must not come early"
        desk.now_ms = retry_at_ms
        desk.turns()
    assert waits == [10, 20, 40]
    desk.end(only_flight(desk), FAILED)
    assert desk.states_of("s") == {START + 60: "failed"}
    assert desk.db.execute("SELECT count(*) FROM attempt").fetchone() == (3,)


def a_retry_survives_a_change_of_leader(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 2, "backoff": "10s", "jitter": 0})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    desk.now_ms += 3_000
    desk.take_office()
    desk.turns()
    assert not desk.flights
    at(desk, 70)
    (flight,) = desk.flights.values()
    assert (flight.order.attempt, flight.order.name) == (2, f"s-{START + 60}")


def a_permanent_failure_is_not_tried_again(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 5})
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.FAILED, reason="404", permanent=True))
    assert desk.states_of("s") == {START + 60: "failed"}


def doubt_is_not_a_failure_and_is_never_retried_under_skip(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 5})
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="timed out"))
    assert desk.states_of("s") == {START + 60: "in_doubt"}


def doubt_is_called_again_under_relaunch(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", on_doubt="relaunch")
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="timed out"))
    assert desk.states_of("s") == {START + 60: "retrying"}
    at(desk, 63)
    desk.end(only_flight(desk), SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "succeeded"}


def an_outcome_of_a_former_attempt_changes_nothing(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 3, "backoff": "1s"})
    at(desk, 60)
    lid = only_flight(desk)
    first = desk.flights[lid]
    desk.end(lid, FAILED)
    at(desk, 65)
    second = desk.flights[lid]
    desk.flights[lid] = first
    desk.end(lid, SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "started"}
    desk.flights[lid] = second
    desk.end(lid, SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "succeeded"}


def jitter_stays_before_the_next_occurrence_and_is_the_same_every_time(desk: Desk) -> None:
    put(desk, cron="@every 10s", jitter="1h")
    first = desk.db.execute("SELECT at_ms, instant_s FROM due").fetchone()
    assert 0 <= first[0] - first[1] * 1000 < 10_000
    planned = []
    for second in range(1, 200):
        at(desk, second)
        planned.append(desk.db.execute("SELECT at_ms, instant_s FROM due").fetchone())
    assert all(0 <= at_ms - instant_s * 1000 < 10_000 for at_ms, instant_s in planned)
    assert len({at_ms - instant_s * 1000 for at_ms, instant_s in planned}) > 5


def lateness_counts_from_the_planned_moment(desk: Desk) -> None:
    put(desk, cron="@every 10m", jitter="5m")
    at_ms, instant_s = desk.db.execute("SELECT at_ms, instant_s FROM due").fetchone()
    desk.now_ms = at_ms + 7
    desk.turns()
    assert desk.db.execute("SELECT planned_ms, started_ms, instant_s FROM launch").fetchone() == (
        at_ms,
        at_ms + 7,
        instant_s,
    )


def start_and_end_bound_the_timeline(desk: Desk) -> None:
    put(desk, start="2023-11-14T22:16:20Z", end="2023-11-14T22:18:20Z")
    for second in range(0, 600, 20):
        at(desk, second)
    assert list(desk.states_of("s")) == [START + 180, START + 240, START + 300]
    assert desk.db.execute("SELECT count(*) FROM due").fetchone() == (0,)


def a_clock_stepped_back_launches_nothing_twice(desk: Desk) -> None:
    put(desk)
    at(desk, 600)
    launched = list(desk.states_of("s"))
    desk.now_ms = START * 1000
    desk.turns()
    put(desk, description="edited while the clock is wrong")
    put(desk, cron="@every 30s", description="and its timing as well")
    at(desk, 590)
    fresh = set(desk.states_of("s")) - set(launched)
    assert fresh == {START + second for second in range(30, 591, 60)}, "what was not launched before the step"
    at(desk, 720)
    assert max(desk.states_of("s")) == START + 720


def a_year_ends_and_clocks_change_without_a_double_or_a_hole() -> None:
    """Every half hour of local time in Berlin through new year, and through both changes of the clocks."""
    for night in (
        1_704_062_700,
        1_711_840_500,
        1_729_981_500,
    ):  # 2023-12-31, 2024-03-30, 2024-10-26, 22:45Z or so
        desk = Desk(night)
        put(desk, id="wild", cron="*/30 * * * *", timezone="Europe/Berlin")
        put(desk, id="fixed", cron="30 0,1,2,3,4 * * *", timezone="Europe/Berlin")
        for minute in range(8 * 60):
            desk.now_ms = (night + minute * 60) * 1000
            desk.turns()
        wild = list(desk.states_of("wild"))
        assert wild == list(range(wild[0], wild[0] + 1800 * len(wild), 1800))
        assert len(wild) == 16
        assert len(desk.states_of("fixed")) == 5
        desk.close()


def what_waits_starts_before_it_is_decided_who_waits_next(desk: Desk) -> None:
    """The one before ended: the queued one starts, so the place in the queue is free for the new one."""
    put(desk, overlap="queue")
    at(desk, 60)
    at(desk, 120)
    desk.end(only_flight(desk), SUCCEEDED)
    at(desk, 180)
    assert list(desk.states_of("s").values()) == ["succeeded", "started", "queued"]


def doubt_follows_the_owners_retry_policy_where_there_is_one(desk: Desk) -> None:
    retry = {"limit": 1, "backoff": "1s", "jitter": 0}
    put(desk, cron=f"@at {START + 60}", on_doubt="relaunch", retry=retry)
    at(desk, 60)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="timed out"))
    at(desk, 61)
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="timed out"))
    assert desk.states_of("s") == {START + 60: "in_doubt"}


def lateness_of_what_was_caught_up_with_counts_from_its_instant(desk: Desk) -> None:
    put(desk, missed="all", catch_up_spread="1m")
    desk.now_ms = (START + 90) * 1000
    desk.take_office()
    desk.now_ms += 60_000
    desk.turns()
    planned_ms, instant_s = desk.db.execute("SELECT planned_ms, instant_s FROM launch").fetchone()
    assert (planned_ms, instant_s) == (None, START + 60)


def a_start_that_was_withdrawn_is_the_same_attempt_again(desk: Desk) -> None:
    from tocsin.model import change as c

    put(desk, cron=f"@at {START + 60}")
    at(desk, 60)
    lid = only_flight(desk)
    del desk.flights[lid]
    desk.commit(c.HandOversWithdrawn([lid], [1]))
    assert desk.states_of("s") == {START + 60: "retrying"}
    desk.turns()
    assert desk.flights[lid].order.attempt == 1
    desk.end(lid, SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "succeeded"}


def a_schedule_that_cannot_be_read_any_more_holds_nobody_up_and_comes_back(desk: Desk) -> None:
    put(desk, id="good")
    put(desk, id="bad", timezone="Europe/Berlin", cron="* * * * *")
    desk.db.execute("UPDATE schedule SET zone = 'Atlantis/Capital' WHERE id = 'bad'")
    at(desk, 60)
    assert desk.states_of("good") == {START + 60: "started"}
    assert desk.states_of("bad") == {}
    desk.db.execute("UPDATE schedule SET zone = 'Europe/Berlin' WHERE id = 'bad'")
    at(desk, 130)
    assert len(desk.states_of("bad")) >= 1


def a_retry_that_falls_due_with_its_replacement_is_not_made(desk: Desk) -> None:
    put(desk, overlap="replace", retry={"limit": 3, "backoff": "1m", "jitter": 0})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    desk.now_ms = (START + 120) * 1000
    desk.turns()
    assert list(desk.states_of("s").values()) == ["cancelled", "started"]
    assert [flight.order.scheduled_at_s for flight in desk.flights.values()] == [START + 120]
