"""Limits of rate and concurrency: a herd is smoothed in its order, and nobody else waits for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.replica.limited_desk import START, LimitedDesk

from tocsin.errors import JournalUnavailable
from tocsin.model.command import DeleteSchedule, LaunchNow, PutSchedule
from tocsin.model.launch import LaunchState
from tocsin.model.limit import Limit
from tocsin.model.schedule import convert
from tocsin.replica import lines, lineup, outcomes
from tocsin.replica.lanes import ROOM_FOR_ALL
from tocsin.state import queries
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

PAYROLL = {"team": "payroll"}
Make = Callable[..., LimitedDesk]


@pytest.fixture
def make() -> Iterator[Make]:
    desks: list[LimitedDesk] = []

    def made(*limits: Limit, **given: Any) -> LimitedDesk:
        desks.append(LimitedDesk(*limits, **given))
        return desks[-1]

    yield made
    for desk in desks:
        desk.close()


def a_herd_is_spread_over_as_many_seconds_as_its_rate_asks_for(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="100/s"))
    desk.herd("a", 1_000, labels=PAYROLL)
    desk.run(30)
    assert len(desk.started) == 1_000
    by_second = desk.seconds()
    assert max(by_second.values()) <= 125, "the rate, and in the first second what had gathered"
    assert min(by_second) == 10
    assert 19 <= max(by_second) <= 20
    assert [launch.schedule for launch in desk.started] == sorted(launch.schedule for launch in desk.started)
    assert desk.waits["team=payroll"] == 1_000 - 25


def the_earliest_due_goes_first_whoever_it_belongs_to(make: Make) -> None:
    desk = make(Limit(target="null", rate="10/s", burst=1), Limit(label="team", concurrency=1_000))
    for number in range(40):
        moment = START + 10 + number % 4
        desk.put(f"s{number:02d}", f"@at {moment}", labels={"team": f"t{number % 7}"})
    desk.run(30)
    instants = [launch.instant_s for launch in desk.started]
    assert len(instants) == 40
    assert instants == sorted(instants)


def others_are_on_time_while_a_label_waits(make: Make) -> None:
    desk = make(Limit(label="team", rate="50/s"))
    desk.herd("a", 2_000, labels=PAYROLL)
    desk.herd("z", 200, labels={"team": "sales"})
    desk.herd("zz", 100)
    desk.put("later", "* * * * * *")
    desk.run(30)
    assert (
        max(launch.at_ms for launch in desk.started if launch.schedule.startswith("zz"))
        <= START * 1000 + 10_100
    )
    assert desk.seconds("z")[10] >= 100 + 50
    late = [launch.at_ms - launch.instant_s * 1000 for launch in desk.started if launch.schedule == "later"]
    assert len(late) == 29
    assert max(late) <= 20
    assert 950 <= desk.seconds("a").total() <= 1_050


def a_million_that_wait_are_not_read_again_and_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with small numbers: lines remember few, and hold the rest."""
    monkeypatch.setattr(lines, "LINE_MAX", 100)
    monkeypatch.setattr(lineup, "SLICE", 50)
    monkeypatch.setattr(lineup, "SCANNED_MAX", 500)
    desk = make(Limit(label="team=payroll", rate="200/s"))
    desk.herd("a", 3_000, labels=PAYROLL)
    desk.herd("b", 10)
    seen = _counted(desk)
    desk.run(11)
    assert desk.seconds("b") == {10: 10}
    assert {key: count for key, count in desk.limits.waits.by_limit.items() if count < 2_700} == {}
    desk.run(20)
    names = [launch.schedule for launch in desk.started if launch.schedule.startswith("a")]
    assert len(names) == 3_000
    assert names == sorted(names), "in the order in which they were due"
    assert max(desk.seconds().values()) <= 260
    assert sum(seen) < 3_000 * 30, "each a few times, not at every look"
    assert desk.limits.waits.by_limit == {}


def concurrency_is_never_exceeded_and_always_used(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=7), lasts_ms=500)
    desk.herd("a", 100, labels=PAYROLL)
    desk.run(25)
    assert len(desk.started) == 100
    assert desk.at_once == {(0, ""): 7}
    assert max(launch.at_ms for launch in desk.started) <= START * 1000 + 10_000 + 100 / 7 * 500 + 1_000


def several_limits_must_all_have_room(make: Make) -> None:
    desk = make(
        Limit(target="null", rate="20/s", burst=5),
        Limit(label="team", concurrency=2),
        Limit(target="null", label="tier=slow", rate="1/s", burst=1),
        lasts_ms=200,
    )
    desk.herd("a", 30, labels={"team": "one"})
    desk.herd("b", 30, labels={"team": "two"})
    desk.herd("c", 5, labels={"team": "three", "tier": "slow"})
    desk.run(20)
    assert len(desk.started) == 65
    assert desk.at_once[1, "one"] == desk.at_once[1, "two"] == 2
    assert max(desk.seconds("c").values()) == 1
    assert max(desk.seconds().values()) <= 25


def a_limit_for_a_label_is_one_for_each_of_its_values(make: Make) -> None:
    desk = make(Limit(label="team", rate="10/s", burst=1))
    for team in ("one", "two", "three"):
        desk.herd(team, 50, labels={"team": team})
    desk.run(20)
    for team in ("one", "two", "three"):
        assert 14 <= max(desk.seconds(team)) <= 15
        assert max(desk.seconds(team).values()) <= 11


def what_waits_past_its_deadline_is_skipped_and_says_for_which_limit(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="10/s", burst=1))
    desk.herd("a", 100, labels=PAYROLL, deadline="5s")
    desk.run(20)
    assert 45 <= len(desk.started) <= 55
    assert max(launch.at_ms for launch in desk.started) <= (START + 15) * 1000
    skipped = desk.reasons(LaunchState.SKIPPED)
    assert len(skipped) == 100 - len(desk.started)
    assert set(skipped) == {
        "deadline: it would have started 5 s late, 5 s are allowed; it waited: the limit team=payroll 10/s was reached"
    }
    assert not desk.db.execute("SELECT count(*) FROM due").fetchone()[0]


def a_deadline_holds_even_where_a_limit_never_has_room_again(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=10_000_000)
    desk.herd("a", 20, labels=PAYROLL, deadline="3s")
    desk.run(15)
    assert len(desk.started) == 1
    assert len(desk.reasons(LaunchState.SKIPPED)) == 19
    assert all(
        reason.endswith("the limit team=payroll 1 at once was reached")
        for reason in desk.reasons(LaunchState.SKIPPED)
    )


def deadlines_hold_for_those_that_no_line_remembers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_MAX", 50)
    monkeypatch.setattr(lineup, "SLICE", 100)
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=10_000_000)
    desk.herd("a", 1_000, labels=PAYROLL, deadline="3s")
    desk.run(20)
    assert len(desk.started) == 1
    assert len(desk.reasons(LaunchState.SKIPPED)) == 999


def what_is_caught_up_after_an_absence_waits_for_its_room_too(make: Make) -> None:
    """The oldest occurrence is past its deadline, and needs no room to be skipped. The last one is not, and does."""
    desk = make(Limit(label="team=payroll", concurrency=2), lasts_ms=4_000)
    for number in range(6):
        desk.put(f"a/{number}", "*/5 * * * * *", labels=PAYROLL, deadline="20s", missed="last")
    desk.now_ms += 41_000
    desk.take_office()
    desk.run(3)
    assert len(desk.started) == 2
    desk.run(60)
    assert max(desk.at_once.values()) <= 2


def attempts_wait_for_room_and_count(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="10/s", burst=1))
    desk.outcome = Outcome(Verdict.FAILED, "no")
    desk.herd("a", 20, labels=PAYROLL, retry={"limit": 1, "backoff": "1s", "max_backoff": "1s", "jitter": 0})
    desk.herd("b", 20, retry={"limit": 1, "backoff": "1s", "max_backoff": "1s", "jitter": 0})
    desk.run(20)
    assert max(desk.seconds("a").values()) <= 11
    assert (
        sorted(launch.attempt for launch in desk.started if launch.schedule.startswith("a"))
        == [1] * 20 + [2] * 20
    )
    assert max(desk.seconds("b")) <= 12, "what has no limit does not wait"
    assert max(desk.seconds("a")) >= 13


def a_schedule_that_falls_behind_its_own_limit_loses_no_occurrence(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=2_000)
    desk.put("a", "* * * * * *", labels=PAYROLL)
    desk.run(20)
    instants = [launch.instant_s for launch in desk.started]
    assert instants == list(range(START + 1, START + 1 + len(instants)))
    assert 9 <= len(instants) <= 10


def who_is_late_again_is_found_at_once_beside_those_who_wait(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), Limit(label="team=sales", rate="1/d"))
    desk.herd("z", 20, labels={"team": "sales"})
    desk.run(11)
    desk.put("a", "* * * * * *", labels=PAYROLL)
    desk.lasts_ms = 8_000
    desk.run(2)
    desk.lasts_ms = 10
    desk.run(7.9)
    begun = [launch.at_ms for launch in desk.started if launch.schedule == "a"]
    assert len(begun) == 9
    assert max(after - before for before, after in pairwise(begun[1:])) <= 20


def an_overlap_is_skipped_on_time_although_its_own_launch_holds_the_place(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=2_500)
    desk.put("a", "* * * * * *", labels=PAYROLL, overlap="forbid")
    desk.run(20)
    assert max(launch.at_ms - launch.instant_s * 1000 for launch in desk.started) <= 1
    assert len(desk.reasons(LaunchState.SKIPPED)) >= 12
    assert all(reason.startswith("overlap:") for reason in desk.reasons(LaunchState.SKIPPED))


def a_launch_that_is_to_be_replaced_does_not_keep_its_successor_waiting(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=1_000_000)
    desk.put("a", "* * * * * *", labels=PAYROLL, overlap="replace")
    desk.run(3.5)
    assert len(desk.started) == 1
    assert desk.cancelled, "it is told to stop"


def a_launch_by_hand_starts_at_once_and_counts(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=2), lasts_ms=1_000)
    for number in range(3):
        desk.put(f"a{number}", labels=PAYROLL)
    desk.run(9.9)
    lid = desk.command(LaunchNow("a0"))
    desk.limits.started([(lid, desk.db.execute("SELECT spec FROM schedule WHERE id = 'a0'").fetchone()[0])])
    assert desk.limits.views()[0].under_way == 1
    desk.run(0.5)
    assert len(desk.started) == 1, "the one by hand holds one of the two places"
    assert desk.limits.views()[0].waiting == 2


def what_is_deleted_or_changed_while_it_waits_does_not_start_as_it_was(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=5_000)
    for id in "abcd":
        desk.put(id, labels=PAYROLL)
    desk.run(11)
    assert [launch.schedule for launch in desk.started] == ["a"]
    desk.command(DeleteSchedule("b"))
    desk.put("c", labels={})
    desk.run(1)
    assert [launch.schedule for launch in desk.started] == ["a", "c"], "it is held to that limit no longer"
    desk.run(20)
    assert [launch.schedule for launch in desk.started] == ["a", "c", "d"]


def what_could_not_be_written_down_is_not_forgotten(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make(Limit(label="team=payroll", rate="10/s", burst=5))
    desk.herd("a", 30, labels=PAYROLL)
    written = desk.commit

    def refuse(*changes: Any) -> Any:
        raise JournalUnavailable("no room")

    desk.now_ms = (START + 10) * 1000
    monkeypatch.setattr(desk, "commit", refuse)
    with pytest.raises(JournalUnavailable):
        desk.turn()
    desk.outlook.forget()
    monkeypatch.setattr(desk, "commit", written)
    desk.run(10)
    assert [launch.schedule for launch in desk.started] == [f"a{number:07d}" for number in range(30)]


def what_comes_late_by_nature_is_found_behind_those_who_wait(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="1/s", burst=1))
    desk.herd("a", 50, labels=PAYROLL)
    desk.run(15)
    desk.put("b", f"@at {START + 1}")
    desk.run(2)
    assert desk.seconds("b").total() == 1


def the_loop_sleeps_while_there_is_no_room(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="2/s", burst=1))
    desk.herd("a", 40, labels=PAYROLL)
    desk.run(10.5)
    looks = desk.looks
    desk.run(10)
    assert desk.looks - looks <= 80, "a few looks a second, and not one after the other"


def a_clock_that_was_put_back_starts_nothing_early(make: Make) -> None:
    desk = make(Limit(label="team=payroll", rate="1/s", burst=1))
    desk.herd("a", 10, labels=PAYROLL)
    desk.run(12)
    number = len(desk.started)
    assert number >= 2
    desk.now_ms -= 60_000
    desk.run(30)
    assert len(desk.started) == number


def backfills_and_what_is_queued_wait_for_room_too(make: Make) -> None:
    desk = make(Limit(label="team=payroll", concurrency=1), lasts_ms=1_500)
    for id in "ab":
        desk.command(
            PutSchedule(
                convert(
                    {
                        "id": id,
                        "cron": "* * * * * *",
                        "target": {"kind": "null"},
                        "labels": PAYROLL,
                        "overlap": "queue",
                    }
                )
            )
        )
    desk.run(20)
    assert desk.at_once == {(0, ""): 1}
    assert 12 <= len(desk.started) <= 14


def _counted(desk: LimitedDesk) -> list[int]:
    """How many rows each look reads."""
    source, seen = desk.outlook._due_lines._source, []

    def page(*given: Any) -> Any:
        found = source.page(*given)
        seen.append(len(found.rows))
        return found

    desk.outlook._due_lines._source = source._replace(page=page)
    return seen


def what_is_in_doubt_keeps_its_place_for_a_while(make: Make) -> None:
    desk = make(Limit(target="null", concurrency=1))
    spec = msgspec.msgpack.encode({"target": {"kind": "null"}})
    desk.limits.started([(1, spec)])
    desk.limits.hold([(1, desk.now_ms + 5_000)])
    assert not desk.limits.room(ROOM_FOR_ALL).takes(spec)
    desk.now_ms += 5_000
    assert desk.limits.room(ROOM_FOR_ALL).takes(spec)


def what_was_resolved_and_called_again_is_not_released_with_its_former_doubt(make: Make) -> None:
    desk = make(Limit(target="null", concurrency=1))
    spec = msgspec.msgpack.encode({"target": {"kind": "null"}})
    desk.limits.started([(1, spec)])
    desk.limits.hold([(1, desk.now_ms + 5_000)])
    desk.limits.ended([1])
    desk.limits.started([(1, spec)])
    desk.now_ms += 5_000
    assert not desk.limits.room(ROOM_FOR_ALL).takes(spec)


UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer")
TIMEOUT = {"timeout": "20s", "labels": PAYROLL}


def _repeats_after(seconds: int, **fields: Any) -> dict[str, Any]:
    retry = {"limit": 3, "backoff": f"{seconds}s", "max_backoff": f"{seconds}s", "jitter": 0}
    return {"retry": retry, **TIMEOUT, **fields}


@pytest.mark.parametrize("is_idempotent", [False, True])
def a_call_whose_end_is_unknown_keeps_its_place_while_its_repeat_waits(
    make: Make, monkeypatch: pytest.MonkeyPatch, is_idempotent: bool
) -> None:
    monkeypatch.setattr(outcomes, "recognises", lambda *_: is_idempotent)
    desk = make(Limit(label="team", concurrency=1))
    desk.outcome = UNKNOWN
    desk.put("a", **_repeats_after(60, on_doubt="skip" if is_idempotent else "relaunch"))
    desk.put("b", f"@at {START + 13}", labels=PAYROLL)
    desk.run(20)
    assert desk.limits.views()[0].under_way == 1
    desk.run(20)
    assert [(each.schedule, each.at_ms // 1000 - START) for each in desk.started][:2] == [
        ("a", 10),
        ("b", 30),
    ]


def a_repeat_takes_over_the_place_of_the_call_before_it(make: Make) -> None:
    desk = make(Limit(label="team", concurrency=1), lasts_ms=2_000)
    desk.outcome = UNKNOWN
    desk.put("a", **_repeats_after(5, on_doubt="relaunch"))
    desk.put("b", f"@at {START + 13}", labels=PAYROLL)
    desk.run(15)
    desk.outcome = SUCCEEDED
    desk.run(20)
    found = [(each.schedule, each.attempt, each.at_ms // 1000 - START) for each in desk.started]
    assert found == [("a", 1, 10), ("a", 2, 17), ("b", 1, 19)]


def a_repeat_is_not_released_with_the_doubt_about_the_call_before_it(make: Make) -> None:
    desk = make(Limit(label="team", concurrency=1), lasts_ms=1_000)
    desk.outcome = UNKNOWN
    desk.put("a", **_repeats_after(5, on_doubt="relaunch", timeout="10s"))
    desk.put("b", f"@at {START + 13}", labels=PAYROLL)
    desk.run(12)
    desk.lasts_ms, desk.outcome = 30_000, SUCCEEDED
    desk.run(40)
    found = [(each.schedule, each.attempt, each.at_ms // 1000 - START) for each in desk.started]
    assert found == [("a", 1, 10), ("a", 2, 16), ("b", 1, 46)]


def an_attempt_that_failed_for_certain_does_not_take_the_place_of_one_in_doubt(make: Make) -> None:
    desk = make(Limit(label="team", concurrency=1))
    desk.outcome = Outcome(Verdict.FAILED, "no")
    desk.put("c", **_repeats_after(5))
    desk.run(10.5)
    desk.outcome = UNKNOWN
    desk.put("a", f"@at {START + 12}", **_repeats_after(60, on_doubt="relaunch"))
    desk.run(10)
    assert [each.schedule for each in desk.started] == ["c", "a"]
    desk.outcome = SUCCEEDED
    desk.run(20)
    assert [(each.schedule, each.at_ms // 1000 - START) for each in desk.started[2:]] == [("c", 32)]


def repeats_after_doubt_obey_the_rate_of_their_limit(make: Make) -> None:
    desk = make(Limit(label="team", rate="2/s", burst=1, concurrency=10))
    desk.outcome = UNKNOWN
    desk.herd("a", 10, **_repeats_after(30, on_doubt="relaunch", timeout="1h"))
    desk.run(30)
    assert len(desk.started) == 10
    desk.outcome = SUCCEEDED
    desk.run(60)
    again = [each.at_ms for each in desk.started if each.attempt == 2]
    assert len(again) == 10
    assert min(later - earlier for earlier, later in pairwise(again)) >= 400


def a_repeat_that_failed_leaves_the_place_to_the_call_before_it(make: Make) -> None:
    """Attempt 2 is over for certain, and attempt 1 may still run."""
    desk = make(Limit(label="team", concurrency=1))
    desk.outcome = UNKNOWN
    desk.put("a", **_repeats_after(5, on_doubt="relaunch"))
    desk.put("b", f"@at {START + 13}", labels=PAYROLL)
    desk.run(12)
    desk.outcome = Outcome(Verdict.FAILED, "HTTP 500")
    desk.run(4.5)
    assert [(each.schedule, each.attempt) for each in desk.started] == [("a", 1), ("a", 2)]
    assert desk.limits.views()[0].under_way == 1


def a_repeat_that_succeeds_frees_the_place(make: Make) -> None:
    desk = make(Limit(label="team", concurrency=1))
    desk.outcome = UNKNOWN
    desk.put("a", overlap="forbid", **_repeats_after(5, on_doubt="relaunch", timeout="1h"))
    desk.run(12)
    desk.outcome = SUCCEEDED
    desk.run(10)
    assert desk.limits.views()[0].under_way == 0
    assert queries.held(desk.db, desk.now_ms) == []


@pytest.mark.parametrize("seed", range(20))
def receivers_never_have_more_launches_at_once_than_a_limit_allows(
    make: Make, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """By their own log: a call that timed out goes on at its receiver, for less than the schedule's ``timeout``."""
    chance = random.Random(seed)
    desk = make(Limit(label="team", concurrency=chance.choice([1, 2, 3])))
    for number in range(12):
        repeat = chance.choice([{}, _repeats_after(chance.choice([1, 4, 30]), on_doubt="relaunch")])
        desk.put(f"s{number:02}", f"@at {START + 10 + chance.randrange(20)}", **{**TIMEOUT, **repeat})
    log: dict[int, list[int]] = {}
    """By launch, until when receivers are at work on calls that timed out."""
    settle = desk.end

    def end(lid: int, outcome: Outcome) -> None:
        outcome = chance.choice([UNKNOWN, UNKNOWN, SUCCEEDED, Outcome(Verdict.FAILED, "no")])
        if outcome is UNKNOWN:
            log.setdefault(lid, []).append(desk.now_ms + chance.randrange(19_000))
        elif outcome is SUCCEEDED:
            log.pop(lid, None)
        settle(lid, outcome)

    monkeypatch.setattr(desk, "end", end)
    for _ in range(2_000):
        desk.lasts_ms = chance.choice([100, 1_000])
        desk.run(0.2)
        silent = {lid for lid, moments in log.items() if max(moments) > desk.now_ms}
        assert len(silent | set(desk.flights)) <= (desk.limits.limits[0].concurrency or 0)
    assert not desk.db.execute("SELECT 1 FROM launch WHERE state < 10").fetchall(), "each has had its turns"
