"""Whose wall clock is right, and what becomes of the state when it was not."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.decide.clock import (
    AGREE_MS,
    Bounds,
    Expected,
    Opinion,
    Verdict,
    judge,
    judge_by_leader,
    step_of,
)
from tocsin.model import change as c
from tocsin.model.cluster import ClockState
from tocsin.model.command import ConfirmClock, DeleteSchedule, RepairDue, SwitchSchedule
from tocsin.replica.prepare import repairs
from tocsin.state import queries, retention
from tocsin.state.queries import NEAR_S
from tocsin.targets.contract import SUCCEEDED, Outcome
from tocsin.targets.contract import Verdict as Verdict_

DAY_S = 86_400
AHEAD_S = 40 * DAY_S
_FAR = AGREE_MS + 1
_DAYS = AHEAD_S * 1000


@pytest.mark.parametrize(
    ("own", "others", "known", "verdict"),
    [
        ("steady", [], 1, Verdict.RIGHT),
        ("stepped", [], 1, Verdict.OPEN),
        ("unknown", [], 1, Verdict.OPEN),
        ("stepped", [(0, "steady")], 2, Verdict.RIGHT),
        ("stepped", [(-_DAYS, "steady")], 2, Verdict.WRONG),
        ("steady", [(_DAYS, "stepped")], 2, Verdict.RIGHT),
        ("stepped", [(0, "stepped")], 2, Verdict.OPEN),
        ("steady", [(_FAR, "steady")], 2, Verdict.OPEN),
        ("unknown", [(0, "unknown")], 2, Verdict.OPEN),
        ("unknown", [(_FAR, "unknown")], 2, Verdict.OPEN),
        ("unknown", [(-_DAYS, "fresh")], 2, Verdict.WRONG),
        ("fresh", [(_DAYS, "steady")], 2, Verdict.WRONG),
        ("steady", [(_FAR, "steady"), (_FAR, "steady")], 3, Verdict.WRONG),
        ("steady", [(_FAR, "steady"), (0, "steady")], 3, Verdict.RIGHT),
        ("steady", [(AGREE_MS, "steady"), (AGREE_MS, "steady")], 3, Verdict.RIGHT),
        ("steady", [(_FAR, "steady"), (-_FAR, "steady")], 3, Verdict.OPEN),
        ("steady", [(_DAYS, "stepped"), (_DAYS, "stepped")], 3, Verdict.RIGHT),
        ("stepped", [(0, "stepped"), (-_DAYS, "steady")], 3, Verdict.WRONG),
        ("stepped", [(0, "stepped"), (0, "stepped")], 3, Verdict.OPEN),
        ("unknown", [(0, "unknown"), (0, "unknown")], 3, Verdict.OPEN),
        ("unknown", [(0, "unknown"), (0, "fresh")], 3, Verdict.RIGHT),
        ("unknown", [], 3, Verdict.OPEN),
        ("stepped", [(-_DAYS, "steady")], 3, Verdict.WRONG),
        ("stepped", [(0, "stepped"), (0, "fresh")], 3, Verdict.OPEN),
        ("fresh", [(0, "stepped"), (0, "stepped")], 3, Verdict.OPEN),
        ("stepped", [(-_DAYS, "fresh")], 2, Verdict.WRONG),
        ("steady", [(_DAYS, "fresh"), (_DAYS, "fresh")], 3, Verdict.RIGHT),
        ("fresh", [(-_DAYS, "steady"), (0, "fresh")], 3, Verdict.WRONG),
        ("fresh", [(-_DAYS, "fresh"), (0, "fresh")], 3, Verdict.RIGHT),
        ("fresh", [(-_DAYS, "fresh")], 3, Verdict.OPEN),
        ("doubted", [(0, "fresh")], 3, Verdict.RIGHT),
        ("fresh", [(0, "doubted")], 3, Verdict.RIGHT),
        ("doubted", [(0, "doubted")], 3, Verdict.OPEN),
    ],
)
def who_did_not_step_decides(
    own: ClockState, others: list[tuple[int, ClockState]], known: int, verdict: Verdict
) -> None:
    assert judge(Opinion(0, own), [Opinion(*other) for other in others], known) is verdict


@pytest.mark.parametrize(
    ("leader_ms", "others", "verdict"),
    [
        (None, [(_FAR, "steady")], Verdict.OPEN),
        (0, [(_FAR, "steady")], Verdict.RIGHT),
        (AGREE_MS, [(_FAR, "steady")], Verdict.RIGHT),
        (-_FAR, [(-_FAR, "steady")], Verdict.WRONG),
        (_FAR, [(_FAR, "steady")], Verdict.WRONG),
        (_FAR, [(_FAR, "fresh")], Verdict.WRONG),
        (_FAR, [(_FAR + AGREE_MS, "steady")], Verdict.WRONG),
        (_FAR, [(_FAR + AGREE_MS + 1, "steady")], Verdict.OPEN),
        (_FAR, [(-_FAR, "steady")], Verdict.OPEN),
        (_FAR, [(-_FAR, "steady"), (_FAR, "steady")], Verdict.WRONG),
        (_FAR, [(_FAR, "stepped")], Verdict.OPEN),
        (_FAR, [(_FAR, "doubted")], Verdict.OPEN),
        (_FAR, [(_FAR, "unknown")], Verdict.OPEN),
        (_FAR, [], Verdict.OPEN),
    ],
)
def where_clocks_differ_the_one_that_agrees_with_the_last_leader_is_right(
    leader_ms: int | None, others: list[tuple[int, ClockState]], verdict: Verdict
) -> None:
    assert judge_by_leader(leader_ms, [Opinion(*other) for other in others]) is verdict


@pytest.mark.parametrize(
    ("ahead_s", "is_cold", "is_off"),
    [
        (0, False, False),
        (30, False, False),
        (31, False, True),
        (-30, False, False),
        (-31, False, True),
        (31, True, False),
        (7 * DAY_S, True, False),
        (7 * DAY_S + 1, True, True),
        (-31, True, True),
    ],
)
def a_clock_is_off_beyond_its_bounds(ahead_s: int, is_cold: bool, is_off: bool) -> None:
    step_ms = step_of(Expected(START * 1000, is_cold), (START + ahead_s) * 1000, Bounds())
    assert step_ms == (ahead_s * 1000 if is_off else 0)


def _put_back(desk: Desk) -> None:
    """The clock was forty days ahead, decided by it, and is right now."""
    desk.now_ms = (START + AHEAD_S) * 1000
    desk.returned(START * 1000)
    desk.turns()
    desk.now_ms = (START + 60) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))


def a_clock_that_goes_back_leaves_no_entry_time_in_the_future() -> None:
    desk = Desk(START)
    _put_back(desk)
    meta = desk.store.meta
    assert meta.time_ms == desk.now_ms
    assert meta.present_since_ms <= desk.now_ms
    assert meta.ahead_until_ms >= (START + AHEAD_S) * 1000
    assert meta.is_due_ahead
    assert not desk.db.execute("SELECT 1 FROM absence WHERE until_ms > ?", (desk.now_ms,)).fetchall()


def a_repair_computes_the_next_instant_that_is_not_before_now_and_was_not_launched() -> None:
    desk = Desk(START)
    put(desk, id="hourly", cron="0 * * * *")
    put(desk, id="yearly", cron="0 0 1 1 *")
    before = _due(desk)
    _put_back(desk)
    assert _due(desk)["hourly"] > START + AHEAD_S
    (wrong,) = repairs(desk.db, ["hourly", "yearly"], desk.now_ms)
    assert wrong.id == "hourly"
    assert desk.command(RepairDue(["hourly", "yearly"], is_last=True)) == 1
    assert _due(desk) == before
    assert repairs(desk.db, ["hourly", "yearly"], desk.now_ms) == []
    assert not desk.store.meta.is_due_ahead


@pytest.mark.parametrize("id", [f"s{number}" for number in range(30)])
def a_repair_computes_the_first_instant_also_where_jitter_plans_it_behind_the_next(id: str) -> None:
    desk = Desk(START + DAY_S)
    begin = datetime.fromtimestamp(START + DAY_S, UTC)
    put(desk, id=id, cron="@every 37s", jitter="1h", start=begin)
    assert _due(desk)[id] == START + DAY_S + 37
    desk.now_ms = START * 1000
    desk.command(ConfirmClock(desk.now_ms))
    desk.command(RepairDue([id], is_last=True))
    assert _due(desk)[id] == START + DAY_S + 32  # counted from now


@pytest.mark.parametrize("how", ["edit", "pause", "recreate"])
def no_schedule_stays_bound_to_a_future_that_did_not_happen(how: str) -> None:
    desk = Desk(START)
    put(desk, id="s", cron="0 * * * *")
    _put_back(desk)
    if how == "edit":
        put(desk, id="s", cron="30 * * * *")
        assert _due(desk)["s"] % 3600 == 1800
    elif how == "pause":
        desk.command(SwitchSchedule("s", False))
        desk.command(SwitchSchedule("s", True))
    else:
        desk.command(DeleteSchedule("s"))
        put(desk, id="s", cron="0 * * * *")
    assert _due(desk)["s"] <= START + 60 + 3600


def an_occurrence_that_was_launched_under_its_future_name_is_not_launched_again() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="0 0 * * *", missed="all")
    _put_back(desk)
    launched = _instants(desk)
    assert len(launched) >= 40
    assert desk.command(RepairDue(["s"], is_last=True)) == 0
    assert _due(desk)["s"] > START + AHEAD_S, "each of them was launched under its name"
    put(desk, id="s", cron="0 */12 * * *", missed="all")
    assert START < _due(desk)["s"] <= START + DAY_S, "what was not launched is due"
    at(desk, AHEAD_S + 2 * DAY_S)
    assert len(_instants(desk)) == len(set(_instants(desk))) >= 80


def a_name_that_was_launched_ahead_is_kept_until_its_schedule_has_passed_it() -> None:
    """The clock is back and its instant has come, but the schedule is late."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="all")
    at(desk, 600)
    launched = set(_instants(desk))
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)
    desk.now_ms = (START + 60) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    put(desk, id="s", cron="*/30 * * * * *", missed="all")
    desk.now_ms = (START + 700) * 1000
    assert _due(desk)["s"] < START + 600
    _forget(desk, 1)
    desk.turns()
    assert len(desk.flights) > 5
    assert not launched & {flight.order.scheduled_at_s for flight in desk.flights.values()}


def retention_deletes_no_name_of_a_future_that_may_not_happen() -> None:
    """The clock was set forward by a person: launches since then are kept until somebody would have noticed."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    at(desk, 60)
    desk.end(only_flight(desk), SUCCEEDED)
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann"))
    desk.now_ms = (START + AHEAD_S) * 1000
    desk.returned((START + 60) * 1000)
    for second in range(0, 300, 60):
        at(desk, AHEAD_S + second)
        for lid in list(desk.flights):
            desk.end(lid, SUCCEEDED)
    first, *ahead = _instants(desk)
    assert _forget(desk, keep_each=1) == [first]
    desk.now_ms = (START + 120) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s"], is_last=True))
    assert _due(desk)["s"] <= START + 240
    assert _forget(desk, keep_each=1) == [], "their time has not come"
    assert _instants(desk) == ahead


@pytest.mark.parametrize("hours", [1, 6, 24 * 6])
def names_launched_by_a_clock_that_was_ahead_after_a_reboot_are_kept_until_it_is_put_back(hours: int) -> None:
    """It was believed: for all that is known, the machine was down for so long."""
    ahead_s = hours * 3600
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="last")
    _launch_all(desk, 60)
    desk.now_ms = (START + ahead_s) * 1000
    desk.take_office(is_counted=False)
    for minute in range(10):
        _launch_all(desk, ahead_s + minute * 60)
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    desk.now_ms = (START + 180) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s"], is_last=True))
    assert START + 180 < _due(desk)["s"] <= START + 240
    assert not desk.store.meta.is_due_ahead


def names_of_a_clock_that_was_ahead_may_be_deleted_and_the_schedule_goes_on_before_them() -> None:
    """Nothing told that the clock might be ahead: the time of the entries leapt, that is all."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    _launch_all(desk, 60)
    launched = _launched_ahead(desk, 6 * 3600)
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    assert len(_instants(desk)) == 2
    _right_again(desk, 180)
    assert START + 180 < _due(desk)["s"] <= START + 240
    assert not desk.store.meta.is_due_ahead
    again = set[int]()
    for minute in range(3, 6 * 60 + 30):
        again |= _launched(desk, minute * 60)
        desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    assert not again & launched
    assert len(again | launched) >= 6 * 60 + 30 - 4, "none is left out"


@pytest.mark.parametrize("hours", [2, 8])
def a_second_clock_that_is_ahead_leaves_the_schedule_its_present(hours: int) -> None:
    """A board without a battery is wrong at each start, and never by the same."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    _launch_all(desk, 60)
    for ahead_h, second in ((6, 180), (hours, 600)):
        _launched_ahead(desk, ahead_h * 3600)
        desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
        _right_again(desk, second)
        assert START + second < _due(desk)["s"] <= START + second + 60
        _launch_all(desk, second + 60)


@pytest.mark.parametrize("is_counted", [False, True])
def a_clock_that_is_put_right_in_two_steps_leaves_the_schedule_its_present(is_counted: bool) -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    put(desk, id="t", cron="@every 1h", missed="skip")
    _launch_all(desk, 60)
    _launched_ahead(desk, 6 * 3600, is_counted=is_counted)
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    first_s = 3 * 3600 + 700
    _right_again(desk, first_s)
    for minute in range(10):
        _launch_all(desk, first_s + minute * 60)
        desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    second = 60 + 9 * 60 + 9 * 60 + 10
    _right_again(desk, second)
    assert START + second < _due(desk)["s"] <= START + second + 60
    assert not desk.store.meta.is_due_ahead


def an_at_of_a_wrong_time_whose_record_is_deleted_is_not_launched_again() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    put(desk, id="once", cron=f"@at {START + 7_260}")
    _launched_ahead(desk, 7_200)
    desk.forget_on(desk.retention(age_s=1, each=1, total=1_000))
    _right_again(desk, 120)
    put(desk, id="once", cron=f"@at {START + 7_260}", timeout="5s")
    assert "once" not in _due(desk)
    put(desk, id="once", cron=f"@at {START + 7_000}")
    assert _due(desk)["once"] == START + 7_000


@pytest.mark.parametrize("seed", range(40))
def after_any_wrong_times_a_schedule_goes_on_and_launches_nothing_twice(seed: int) -> None:
    """The clock is wrong by this and that, forward and back, believed by reboots and by persons; history is short."""
    chance, desk = random.Random(seed), Desk(START)
    missed = chance.choice(["skip", "last", "all"])
    put(desk, id="s", cron="* * * * *", missed=missed)
    launched, true_s, ahead_s = set[int](), 60, 0
    for _ in range(12):
        was_s, ahead_s = ahead_s, chance.choice([0, 0, 1_800, 3_600, 3 * 3_600, 6 * 3_600, 2 * DAY_S])
        desk.now_ms = (START + true_s + was_s) * 1000
        if ahead_s < was_s or (ahead_s > was_s and chance.random() < 0.3):
            desk.command(ConfirmClock((START + true_s + ahead_s) * 1000))
        desk.now_ms = (START + true_s + ahead_s) * 1000
        if ahead_s > was_s:
            desk.take_office(is_counted=chance.random() < 0.5)
        if ahead_s < was_s:
            desk.command(RepairDue(["s"], is_last=True))
        if ahead_s < was_s and not ahead_s:
            assert not desk.store.meta.is_due_ahead
            # What was given up in the next moments stays so.
            free_s = START + (true_s + NEAR_S) // 60 * 60 + 40
            while free_s in launched:
                free_s += 60
            assert _due(desk)["s"] <= free_s, f"{_due(desk)['s'] - free_s} s are left out"
        for _ in range(chance.randint(2, 12)):
            found = _launched(desk, true_s + ahead_s)
            assert not found & launched, f"{found & launched} are launched twice"
            launched |= found
            true_s += 60
            if chance.random() < 0.5:
                desk.forget_on(desk.retention(age_s=chance.choice([600, DAY_S]), each=2, total=1_000))


def _launched_ahead(desk: Desk, ahead_s: int, *, is_counted: bool = True) -> set[int]:
    """For ten minutes, by a clock that shows that much more."""
    desk.now_ms += ahead_s * 1000
    desk.take_office(is_counted=is_counted)
    first_s = desk.now_ms // 1000 - START
    return {instant_s for minute in range(10) for instant_s in _launched(desk, first_s + minute * 60)}


def _launched(desk: Desk, second: int) -> set[int]:
    at(desk, second)
    found = set()
    for lid in list(desk.flights):
        found |= set(desk.db.execute("SELECT instant_s FROM launch WHERE lid = ?", (lid,)).fetchone())
        desk.end(lid, SUCCEEDED)
    return found


def _right_again(desk: Desk, second: int) -> None:
    desk.now_ms = (START + second) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue([id for (id,) in desk.db.execute("SELECT id FROM schedule")], is_last=True))


def many_launches_at_once_leave_room_for_those_of_the_present_after_a_clock_was_ahead() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="*/10 * * * * *", missed="all")
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann"))
    desk.now_ms = (START + AHEAD_S) * 1000
    for step in range(30):
        _launch_all(desk, AHEAD_S + step * 10)
    desk.now_ms = START * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s"], is_last=True))
    desk.forget_on(desk.retention(age_s=AHEAD_S, each=5, total=10_000))
    for step in range(200):
        _launch_all(desk, step * 10)
    desk.forget_on(desk.retention(age_s=AHEAD_S, each=5, total=10_000))
    assert len([instant_s for instant_s in _instants(desk) if instant_s < START + 2000]) == 5


@pytest.mark.parametrize("is_confirmed", [True, False])
def launches_of_a_wrong_time_push_no_true_history_out_of_the_total(is_confirmed: bool) -> None:
    desk, ahead_s = Desk(START), 6 * 3600
    put(desk, id="s", cron="*/10 * * * * *", missed="skip")
    for step in range(40):
        _launch_all(desk, step * 10)
    keep = {"age_s": DAY_S, "each": 1_000, "total": 30}
    desk.forget(**keep)
    assert len(_instants(desk)) == 30
    if is_confirmed:
        desk.command(ConfirmClock(desk.now_ms + ahead_s * 1000, actor="ann"))
    desk.now_ms += ahead_s * 1000
    if not is_confirmed:
        desk.take_office(is_counted=False)
    for step in range(50):
        _launch_all(desk, 390 + ahead_s + step * 10)
        desk.forget(**keep)
    true = [instant_s for instant_s in _instants(desk) if instant_s < START + ahead_s]
    assert len(true) == 30, "the clock may be ahead"
    _right_again(desk, 400)
    for step in range(41, 60):
        _launch_all(desk, step * 10)
        desk.forget(**keep)
    true = [instant_s for instant_s in _instants(desk) if instant_s < START + ahead_s]
    assert len(true) == 30


def an_absence_whose_length_is_known_holds_nothing_back() -> None:
    """The machine slept, or the service was down: the clock that never steps has counted the time."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="last")
    _launch_all(desk, 60)
    desk.now_ms = (START + 3600) * 1000
    desk.take_office()
    for minute in range(10):
        _launch_all(desk, 3600 + minute * 60)
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    assert len(_instants(desk)) == 2


def a_machine_that_is_off_every_night_keeps_no_more_than_its_last_day() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="0 * * * *", missed="skip")
    put(desk, id="former", cron="0 * * * *", missed="skip")
    for day in range(5):
        desk.now_ms = (START + day * DAY_S) * 1000
        desk.take_office(is_counted=False)
        for hour in range(16):
            _launch_all(desk, day * DAY_S + hour * 3600)
        if day == 0:
            desk.command(DeleteSchedule("former"))
        desk.forget_on(desk.retention(age_s=90 * DAY_S, each=2, total=1_000))
    assert 10 < len(_instants(desk)) <= 2 + 16 + 2
    desk.now_ms += 7 * DAY_S * 1000
    desk.forget_on(desk.retention(age_s=90 * DAY_S, each=2, total=1_000))
    assert len(_instants(desk)) == 2 + 2


def after_ten_times_the_length_of_an_absence_history_is_deleted_again() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="last")
    _launch_all(desk, 60)
    desk.now_ms = (START + 3600) * 1000
    desk.take_office(is_counted=False)
    for minute in range(10):
        _launch_all(desk, 3600 + minute * 60)
    desk.now_ms = (START + 3600 + 10 * 3540 - 1) * 1000
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    assert len(_instants(desk)) > 10
    desk.now_ms += 1_000
    desk.forget_on(desk.retention(age_s=DAY_S, each=2, total=1_000))
    assert len(_instants(desk)) == 2


def launches_of_a_future_that_did_not_happen_leave_room_for_real_ones() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="skip")
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann"))
    desk.now_ms = (START + AHEAD_S) * 1000
    desk.returned(START * 1000)
    for minute in range(8):
        _launch_all(desk, AHEAD_S + minute * 60)
    desk.now_ms = (START + 60) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s"], is_last=True))
    for minute in range(2, 12):
        _launch_all(desk, minute * 60)
        desk.forget_on(desk.retention(age_s=AHEAD_S, each=5, total=1_000))
    real = [instant_s for instant_s in _instants(desk) if instant_s <= START + 720]
    assert len(real) == 5
    assert max(real) > START + 600


def _launch_all(desk: Desk, second: int) -> None:
    at(desk, second)
    for lid in list(desk.flights):
        desk.end(lid, SUCCEEDED)


def a_clock_that_was_set_forward_makes_nothing_old() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *")
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann"))
    desk.now_ms = (START + AHEAD_S) * 1000
    keep = desk.retention(age_s=DAY_S, each=1_000, total=1_000)
    records = desk.db.execute("SELECT count(*) FROM record").fetchone()
    desk.forget_on(keep)
    assert desk.db.execute("SELECT count(*) FROM record").fetchone() == records
    desk.now_ms += 9 * DAY_S * 1000
    desk.forget_on(desk.retention(age_s=DAY_S, each=1_000, total=1_000))
    assert desk.db.execute("SELECT count(*) FROM record").fetchone() == (0,)


def a_clock_that_is_put_back_in_two_steps_keeps_the_names_until_it_is_right() -> None:
    desk = Desk(START)
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann"))
    assert desk.store.meta.proven_upto_s == START
    desk.now_ms = (START + AHEAD_S + 60) * 1000
    desk.command(ConfirmClock(desk.now_ms - 3_600_000, actor="ann"))
    assert desk.store.meta.proven_upto_s == START + 60
    desk.now_ms -= 3_600_000
    desk.command(ConfirmClock((START + 60) * 1000, actor="ann"))
    assert desk.store.meta.proven_upto_s > START + 10 * AHEAD_S


def what_is_proven_again_is_proven() -> None:
    desk = Desk(START)
    desk.command(ConfirmClock((START + DAY_S) * 1000, actor="ann"))
    desk.now_ms = (START + 30 * DAY_S) * 1000
    desk.command(ConfirmClock((START + 31 * DAY_S) * 1000, actor="ann"))
    assert desk.store.meta.proven_upto_s == START + 30 * DAY_S


def what_may_have_been_launched_and_was_deleted_is_not_launched_again_and_the_issue_stays() -> None:
    """The clock was wrong from the start, so that nobody kept the names."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *")
    desk.db.execute("INSERT INTO forgotten SELECT sid, 0, 0, ? FROM schedule", (START + AHEAD_S,))
    _put_back(desk)
    desk.command(RepairDue(["s"], is_last=True))
    assert _due(desk)["s"] > START + AHEAD_S
    assert desk.store.meta.is_due_ahead
    desk.command(DeleteSchedule("s"))
    desk.command(RepairDue([], is_last=True))
    assert not desk.store.meta.is_due_ahead


def what_a_clock_that_was_wrong_from_the_start_launched_and_deleted_is_a_stretch_ahead() -> None:
    """Nobody saw a leap. The schedule goes on before that stretch and behind it, also when more was deleted since."""
    desk = Desk(START + AHEAD_S)
    put(desk, id="s", cron="* * * * *")
    for minute in range(1, 6):
        at(desk, AHEAD_S + 60 * minute)
        desk.end(only_flight(desk), SUCCEEDED)
    ahead = set(_instants(desk))
    _forget(desk, keep_each=0)
    assert not _instants(desk)
    desk.now_ms = START * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s"], is_last=True))
    assert _due(desk)["s"] <= START + 60
    for minute in range(1, 4):
        at(desk, 60 * minute)
        desk.end(only_flight(desk), SUCCEEDED)
    _forget(desk, keep_each=0)
    put(desk, id="s", cron="* * * * *", description="another")
    assert START + 180 < _due(desk)["s"] <= START + 240
    desk.now_ms = (START + AHEAD_S - 30) * 1000
    desk.take_office()
    launched: set[int] = set()
    for second in range(AHEAD_S - 30, AHEAD_S + 600, 30):
        launched |= _launched(desk, second)
    assert not launched & ahead
    assert max(launched) > max(ahead)


def nothing_is_cancelled_for_an_occurrence_that_was_launched_ahead() -> None:
    """It replaces nothing when its time comes."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", overlap="replace")
    ahead = _launched_ahead(desk, 3600)
    _right_again(desk, 60)
    desk.now_ms = (min(ahead) - 30) * 1000
    desk.take_office()
    desk.turns()
    (running,) = desk.flights
    at(desk, min(ahead) - START)
    assert not desk.cancelled
    assert running in desk.flights


def what_waits_until_a_moment_of_a_wrong_time_waits_as_long_from_now_on() -> None:
    desk = Desk(START)
    desk.now_ms = (START + AHEAD_S) * 1000
    desk.returned(START * 1000)
    put(
        desk, id="retry", cron=f"@at {START + AHEAD_S + 1}", retry={"limit": 5, "backoff": "30s", "jitter": 0}
    )
    put(desk, id="doubt", cron=f"@at {START + AHEAD_S + 1}", timeout="90s")
    at(desk, AHEAD_S + 1)
    for lid, flight in list(desk.flights.items()):
        desk.end(lid, FAILED if flight.order.schedule == "retry" else Outcome(Verdict_.UNKNOWN, "no answer"))
    desk.now_ms = (START + 60) * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    waits = desk.db.execute("SELECT max(retry_at_ms), max(held_ms) FROM launch").fetchone()
    assert waits == (desk.now_ms + 30_000, desk.now_ms + 90_000)


@pytest.mark.parametrize("missed", ["skip", "last"])
def what_fell_due_before_a_clock_was_confirmed_is_missed_for_whoever_leads_next(missed: str) -> None:
    """The leader is killed right after the confirmation."""
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed=missed)
    at(desk, 60)
    desk.end(only_flight(desk), SUCCEEDED)
    desk.now_ms = (START + 600) * 1000  # nothing was decided for nine minutes, by the time that was believed
    desk.command(ConfirmClock((START + AHEAD_S) * 1000, actor="ann", stopped_ms=(START + 60) * 1000))
    desk.now_ms = (START + AHEAD_S) * 1000 + 500
    desk.take_office()
    desk.turns()
    assert len(desk.flights) == (missed == "last")
    (absence,) = desk.db.execute("SELECT * FROM absence WHERE until_ms > ?", (START * 1000,)).fetchall()
    assert absence == ((START + 60) * 1000, (START + AHEAD_S) * 1000)


def an_interval_that_was_made_under_a_wrong_time_counts_from_the_repair_on() -> None:
    desk = Desk(START)
    desk.now_ms = (START + AHEAD_S) * 1000
    desk.returned(START * 1000)
    put(desk, id="s", cron="@every 10s")
    put(desk, id="given", cron="@every 10s from 2023-12-24T22:13:20Z")
    desk.now_ms = START * 1000
    desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["s", "given"], is_last=True))
    assert _due(desk)["s"] == START + 10
    assert _due(desk)["given"] == START + AHEAD_S, "that is where its owner wants it to begin"
    at(desk, 30)
    assert _due(desk)["s"] == START + 40


def what_was_to_be_caught_up_with_under_a_wrong_time_is_repaired() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *")
    desk.now_ms = (START + 61) * 1000
    desk.db.execute("UPDATE due SET at_ms = ?", ((START + AHEAD_S) * 1000,))
    (wrong,) = repairs(desk.db, ["s"], desk.now_ms)
    assert wrong.to.instant_s * 1000 + wrong.to.delay_ms == desk.now_ms
    desk.command(RepairDue(["s"], is_last=True))
    assert desk.db.execute("SELECT at_ms FROM due").fetchall() == [(desk.now_ms,)]


@pytest.mark.parametrize("fields", [{"jitter": "1h"}, {"catch_up_spread": "1h"}])
def a_repair_leaves_alone_what_jitter_or_a_spread_holds_back(fields: dict[str, str]) -> None:
    desk = Desk(START)
    ids = [f"s{number}" for number in range(20)]
    for id in ids:
        put(desk, id=id, cron="0 * * * *", **fields)
    hour_s = START - START % 3600 + 3600
    if "catch_up_spread" in fields:
        desk.now_ms = (hour_s + 1800) * 1000
        desk.take_office()
        desk.turn()
    else:
        desk.now_ms = (hour_s + 3) * 1000
    rows = desk.db.execute("SELECT * FROM due").fetchall()
    assert sum(at_ms > desk.now_ms for at_ms, *_ in rows) > 10
    assert repairs(desk.db, ids, desk.now_ms) == []
    desk.db.execute("UPDATE due SET at_ms = at_ms + ?", (AHEAD_S * 1000,))
    repaired = [each.to.planned_ms for each in repairs(desk.db, ids, desk.now_ms)]
    assert len(repaired) == 20
    assert max(repaired) < desk.now_ms + 3_600_000
    assert len(set(repaired)) > 10, "they are not all launched at once"


def what_is_to_be_caught_up_with_hours_after_its_instant_is_repaired_before_the_instant_has_come() -> None:
    desk = Desk(START)
    put(desk, id="s", cron="*/10 * * * *", missed="all", catch_up_spread="5m")
    (instant_s,) = desk.db.execute("SELECT instant_s FROM due").fetchone()
    desk.db.execute("UPDATE due SET at_ms = at_ms + ?", (6 * 3_600_000,))
    (wrong,) = repairs(desk.db, ["s"], desk.now_ms)
    assert wrong.to == (instant_s, 0)
    desk.command(RepairDue(["s"], is_last=True))
    assert desk.db.execute("SELECT at_ms FROM due").fetchall() == [(instant_s * 1000,)]


def more_launches_ahead_than_are_looked_at_do_not_silence_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(START)
    put(desk, id="s", cron="0 * * * *", missed="all")
    _put_back(desk)
    assert len(_instants(desk)) > 20
    monkeypatch.setattr(queries, "TAKEN_MAX", 10)
    desk.db.execute("DELETE FROM launch WHERE instant_s < ?", (START + DAY_S,))
    assert desk.command(RepairDue(["s"], is_last=True)) == 1
    assert _due(desk)["s"] <= START + 60 + 3600


@pytest.mark.parametrize("how", ["edit", "pause", "delete"])
def a_schedule_that_is_overdue_at_a_name_that_was_launched_can_be_changed(how: str) -> None:
    desk = Desk(START)
    put(desk, id="s", cron="* * * * *", missed="all")
    at(desk, 60)
    (launched,) = _instants(desk)
    desk.db.execute("INSERT OR REPLACE INTO due SELECT ?, sid, ? FROM schedule", (launched * 1000, launched))
    if how == "edit":
        put(desk, id="s", cron="30 * * * *")
    else:
        desk.command(SwitchSchedule("s", False) if how == "pause" else DeleteSchedule("s"))
    assert desk.states_of("s")[launched] == "started"


def _forget(desk: Desk, keep_each: int) -> list[int]:
    """Delete what is too much; the instants that went."""
    before = set(_instants(desk))
    found = retention.uncounted(desk.db, desk.store.meta.counted_lid, keep_each, desk.now_ms, 1000, 1000)
    desk.commit(c.HistoryForgotten(found.surplus, 0, counted_lid=found.upto_lid))
    more = retention.surplus(desk.db, 0, keep_each, desk.now_ms, 1000, 1000)
    desk.commit(c.HistoryForgotten(more.lids, 0))
    return sorted(before - set(_instants(desk)))


def _due(desk: Desk) -> dict[str, int]:
    return dict(desk.db.execute("SELECT s.id, d.instant_s FROM due d JOIN schedule s ON s.sid = d.sid"))


def _instants(desk: Desk) -> list[int]:
    return [instant_s for (instant_s,) in desk.db.execute("SELECT instant_s FROM launch WHERE kind = 0")]


@pytest.mark.parametrize("is_restart", [True, False])
def what_fell_due_while_the_clock_was_doubted_was_missed(is_restart: bool) -> None:
    """Entries went on meanwhile, so the next leader sees no silence."""
    desk = Desk(START)
    put(desk, missed="skip")
    at(desk, 60)
    desk.commit(c.ClockDoubted(desk.now_ms))
    desk.now_ms += 300_000
    desk.commit(c.Checkpoint())
    desk.now_ms += 1_000
    if is_restart:
        desk.take_office()
    else:
        desk.returned(desk.store.meta.undecided_since_ms)
    desk.turns()
    assert set(desk.states_of("s")) == {START + 60}
    assert desk.store.meta.undecided_since_ms == 0
    at(desk, 420)
    assert set(desk.states_of("s")) == {START + 60, START + 420}


@pytest.mark.parametrize(("terms", "is_missed"), [(1, False), (12, True)])
def terms_that_begin_and_end_under_a_doubted_clock_add_up(terms: int, is_missed: bool) -> None:
    """Each is shorter than an absence, and nothing is decided in any."""
    desk = Desk(START)
    put(desk, cron="* * * * * *", missed="skip")
    at(desk, 10)
    for _ in range(terms):
        desk.now_ms += 2_000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk", is_timed=False))
    desk.now_ms += 1_000
    desk.take_office()
    desk.turns()
    late = [instant_s for instant_s in desk.states_of("s") if START + 10 < instant_s < desk.now_ms // 1000]
    assert bool(late) is not is_missed


def a_short_doubt_of_the_clock_is_only_late() -> None:
    desk = Desk(START)
    put(desk, cron="* * * * * *", missed="skip")
    at(desk, 10)
    desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk", is_timed=False))
    desk.now_ms += 3_000
    desk.returned(desk.store.meta.undecided_since_ms)
    desk.turns()
    assert set(desk.states_of("s")) >= {START + 11, START + 12, START + 13}
    assert desk.store.meta.undecided_since_ms == 0
