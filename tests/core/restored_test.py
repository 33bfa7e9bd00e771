"""After a restore nobody knows what was launched since the backup: the window of doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.errors import Refused
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    ConfirmClock,
    DeleteSchedule,
    RepairDue,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.launch import LaunchState
from tocsin.replica.prepare import past_occurrences
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED

_MINUTE = 60
_EACH = "* * * * *"
"""Its occurrences are 40 seconds after the minutes of the tests."""


@contextlib.contextmanager
def _desk() -> Iterator[Desk]:
    desk = Desk(START)
    try:
        yield desk
    finally:
        desk.close()


def _restored(desk: Desk, since_s: int, now_s: int) -> None:
    """The record ends at one moment and goes on at another."""
    desk.now_ms = (START + now_s) * 1000
    term = desk.store.meta.term + 1
    desk.commit(c.TookOffice(term, "desk"), c.Restored((START + since_s) * 1000))
    desk.turns()


def _states(desk: Desk) -> dict[int, str]:
    """By minutes since the start."""
    return {(instant - START) // _MINUTE: state for instant, state in desk.states_of("s").items()}


def _given_up(desk: Desk) -> list[tuple[int, int, str]]:
    """Stretches of occurrences that were given up, in minutes, and the one skipped alone."""
    rows = desk.db.execute("SELECT from_s, before_s, reason FROM missed ORDER BY from_s").fetchall()
    found = [((a - START) // _MINUTE, (b - 1 - START) // _MINUTE, reason) for a, b, reason in rows]
    alone = desk.db.execute("SELECT instant_s, reason FROM launch WHERE state = 12").fetchall()
    return sorted([*found, *(((i - START) // _MINUTE, (i - START) // _MINUTE, why) for i, why in alone)])


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def what_fell_into_the_window_is_given_up_with_its_reason(missed: str) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        ((first, last, reason),) = _given_up(desk)
        assert (first, last) == (2, 5)
        assert "the record of this time was lost" in reason
        at(desk, 6 * _MINUTE)
        assert _states(desk) == {1: "started", 6: "started"}


def one_that_may_be_repeated_follows_its_policy() -> None:
    with _desk() as desk:
        put(desk, missed="all", on_doubt="relaunch")
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        assert _given_up(desk) == []
        assert set(_states(desk)) == {1, 2, 3, 4, 5}


def what_comes_after_the_window_is_launched_as_ever() -> None:
    with _desk() as desk:
        put(desk)
        _restored(desk, since_s=10, now_s=30)
        for minute in (1, 2, 3):
            at(desk, minute * _MINUTE)
        assert set(_states(desk)) == {1, 2, 3}
        assert _given_up(desk) == []


@pytest.mark.parametrize(("missed", "launched"), [("skip", set()), ("last", {9}), ("all", {6, 7, 8, 9})])
def a_second_absence_before_anything_was_decided_does_not_widen_the_window(
    missed: str, launched: set[int]
) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        desk.now_ms = (START + 5 * _MINUTE + 30) * 1000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored((START + 10) * 1000))
        desk.now_ms = (START + 9 * _MINUTE + 30) * 1000
        desk.take_office()  # the one that restored it did not live to decide anything
        desk.turns()
        assert set(_states(desk)) >= launched
        assert {minute for minute, state in _states(desk).items() if state == "started"} == launched
        first, *others = _given_up(desk)
        assert first[:2] == (1, 5)
        assert "was lost" in first[2]
        assert all("was lost" not in reason for _, _, reason in others)


def one_that_was_to_come_after_the_window_because_of_its_jitter_is_not_in_doubt() -> None:
    """Its instant lay within, its planned moment did not: nobody can have launched it."""
    with _desk() as desk:
        put(desk, cron="@every 10m", jitter="9m", missed="last")
        ((instant_s, at_ms),) = desk.db.execute("SELECT instant_s, at_ms FROM due").fetchall()
        planned_s = at_ms // 1000 - START
        assert planned_s - (instant_s - START) > 60, (
            "the name was chosen so that there is room for the window"
        )
        _restored(desk, since_s=10, now_s=instant_s - START + 30)
        desk.now_ms = at_ms + 60_000
        desk.take_office()
        desk.turns()
        assert desk.states_of("s") == {instant_s: "started"}


def what_waited_in_the_record_may_have_had_its_turn() -> None:
    with _desk() as desk:
        put(desk, retry={"limit": 3, "backoff": "1m"}, overlap="queue")
        at(desk, _MINUTE)
        desk.end(only_flight(desk), FAILED)
        at(desk, 2 * _MINUTE)
        waiting = {state for _, _, _, state in desk.launches()}
        _restored(desk, since_s=2 * _MINUTE, now_s=10 * _MINUTE - 5)
        open_now = desk.db.execute("SELECT DISTINCT state FROM launch WHERE state < 10").fetchall()
        assert waiting != {1}
        assert open_now == [(1,)], "to be concluded, like all that a former leader may have called"


@pytest.mark.parametrize(("on_doubt", "state"), [("skip", "in_doubt"), ("relaunch", "queued")])
def what_waited_for_its_turn_does_not_get_it_together_with_all_others(on_doubt: str, state: str) -> None:
    with _desk() as desk:
        put(desk, overlap="queue", on_doubt=on_doubt)
        at(desk, _MINUTE)
        at(desk, 2 * _MINUTE)
        assert _states(desk) == {1: "started", 2: "queued"}
        _restored(desk, since_s=2 * _MINUTE, now_s=3 * _MINUTE - 5)
        assert _states(desk) == {1: "started", 2: state}


def _queued_then_restored(desk: Desk, edited: dict[str, Any] | None = None, **fields: Any) -> None:
    """The launch of the second minute waits for the first one when the backup is made."""
    put(desk, cron="@every 60s", overlap="queue", **fields)
    at(desk, _MINUTE)
    at(desk, 2 * _MINUTE)
    assert _states(desk) == {1: "started", 2: "queued"}
    if edited is not None:
        put(desk, cron="@every 60s", overlap="queue", **edited)
    _restored(desk, since_s=2 * _MINUTE, now_s=3 * _MINUTE - 5)


def _second(desk: Desk) -> tuple[str, int, int | None]:
    """State, attempt and doubt of the launch of the second minute."""
    state, attempt, doubt = desk.db.execute(
        "SELECT state, attempt, doubt FROM launch WHERE instant_s = ?", (START + 2 * _MINUTE,)
    ).fetchone()
    return LaunchState(state).name.lower(), attempt, doubt


@pytest.mark.parametrize(("on_doubt", "edited"), [("skip", "relaunch"), ("relaunch", "skip")])
def the_version_of_a_queued_launch_says_whether_it_may_be_called_again(on_doubt: str, edited: str) -> None:
    with _desk() as desk:
        _queued_then_restored(desk, {"on_doubt": edited}, on_doubt=on_doubt)
        assert _second(desk)[0] == ("queued" if on_doubt == "relaunch" else "in_doubt")


@pytest.mark.parametrize("idempotent", [False, True])
def a_receiver_that_deduplicates_is_called_again_by_the_version_of_the_launch(idempotent: bool) -> None:
    with _desk() as desk:
        targets = [
            {"kind": "http", "url": "http://h/", "idempotent": word} for word in (idempotent, not idempotent)
        ]
        _queued_then_restored(desk, {"target": targets[1]}, target=targets[0])
        assert _second(desk)[0] == ("queued" if idempotent else "in_doubt")


@pytest.mark.parametrize("on_doubt", ["skip", "relaunch"])
def the_attempt_that_a_queued_launch_may_have_had_is_counted(on_doubt: str) -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt=on_doubt)
        assert _second(desk)[1:] == (1, 1)


def a_queued_launch_is_called_after_a_restore_as_a_further_attempt() -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        desk.end(min(desk.flights), SUCCEEDED)
        desk.turns()
        flight = desk.flights[only_flight(desk)]
        assert (flight.order.name, flight.order.attempt, flight.doubted) == (f"s-{START + 120}", 2, True)
        (former,) = views.attempts(desk.db, flight.order.name)
        assert (former.attempt, former.started_at) == (1, None)
        assert "may have had its turn" in former.reason
        desk.end(flight.lid, SUCCEEDED)
        assert _states(desk)[2] == "succeeded"


def a_queued_launch_that_is_cancelled_after_a_restore_is_in_doubt() -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        desk.command(CancelLaunch(f"s-{START + 120}", "not any more", "ann"))
        assert _second(desk)[0] == "in_doubt"


def a_queued_launch_whose_deadline_passes_after_a_restore_is_in_doubt() -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch", deadline="90s")
        desk.now_ms = (START + 2 * _MINUTE + 91) * 1000
        desk.end(min(desk.flights), SUCCEEDED)
        desk.turns()
        assert _second(desk)[0] == "in_doubt"


def a_second_restore_counts_one_more_attempt_of_a_queued_launch() -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        _restored(desk, since_s=3 * _MINUTE - 4, now_s=3 * _MINUTE - 3)
        assert _second(desk) == ("queued", 2, 1)


def a_relaunch_after_a_restore_is_a_further_attempt() -> None:
    with _desk() as desk:
        _queued_then_restored(desk, on_doubt="skip")
        desk.end(min(desk.flights), SUCCEEDED)
        lid = desk.command(ResolveLaunch(f"s-{START + 120}", "relaunch", "", "ann"))
        assert desk.db.execute("SELECT attempt, doubt FROM launch WHERE lid = ?", (lid,)).fetchone() == (2, 1)


@pytest.mark.parametrize(("missed", "minutes"), [("skip", 4), ("last", 4)])
def a_backfill_leaves_out_what_may_have_been_launched_within_the_window(missed: str, minutes: int) -> None:
    with _desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        asked = Backfill("s", START + 61, START + 6 * _MINUTE)
        with pytest.raises(Refused, match="nothing to launch"):
            desk.command(asked)
        assert desk.command(msgspec.structs.replace(asked, unrecorded=True)) == minutes


@pytest.mark.parametrize("missed", ["skip", "last"])
def what_is_given_up_within_the_window_is_not_said_to_have_had_nobody_in_office(missed: str) -> None:
    """Also where it could be repeated and its owner does not want to: somebody may well have been there."""
    with _desk() as desk:
        put(desk, missed=missed, on_doubt="relaunch")
        at(desk, 90)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        ((_, _, reason),) = _given_up(desk)
        assert "the record of this time was lost" in reason


def _judged(desk: Desk, since_s: int, until_s: int, **more: bool) -> list[tuple[int, bool, str]]:
    """Occurrences of that time in minutes, whether a backfill would launch each, and why."""
    asked = Backfill("s", START + since_s, START + until_s, **more)
    found, _ = past_occurrences(desk.db, asked, desk.now_ms)
    return [((past.instant_s - START) // _MINUTE, past.launch, past.why) for past in found]


def _check_left_out(desk: Desk, *minutes: int) -> None:
    since_s, until_s = minutes[0] * _MINUTE, (minutes[-1] + 1) * _MINUTE
    judged = _judged(desk, since_s, until_s)
    assert [(minute, launch) for minute, launch, _ in judged] == [(minute, False) for minute in minutes]
    assert {why for *_, why in judged} == {
        "the record of that time, or of a later time, was lost, so it may have been launched"
    }
    insisted = _judged(desk, since_s, until_s, unrecorded=True)
    assert [launch for _, launch, _ in insisted] == [True] * len(minutes)


def a_backfill_leaves_out_what_a_schedule_made_anew_may_have_launched_in_the_lost_time() -> None:
    with _desk() as desk:
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        put(desk, cron=_EACH)
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_a_paused_schedule_may_have_launched_in_the_lost_time() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_a_deleted_schedule_may_have_launched_in_the_lost_time() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH)
        desk.command(DeleteSchedule("s"))
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        put(desk, cron=_EACH)
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_another_may_have_made_up_for_in_the_lost_time() -> None:
    """Missed, skipped, cancelled in the line of a backfill, or before there was the schedule."""
    with _desk() as desk:
        desk.now_ms += _MINUTE * 1000
        put(desk, cron=_EACH, overlap="forbid", missed="skip")
        at(desk, 2 * _MINUTE)
        at(desk, 3 * _MINUTE)
        desk.now_ms += 150_000
        desk.take_office()
        desk.turns()
        desk.command(Backfill("s", START, START + 61))
        desk.command(CancelLaunch(f"s-{START + 40}"))
        assert [why for *_, why in _judged(desk, 1, 330)] == [
            "it was cancelled before it started",
            "it was launched: started",
            "it was skipped",
            "it was missed",
            "it was missed",
        ]
        _restored(desk, since_s=331, now_s=345)
        judged = _judged(desk, 1, 330)
        assert [launch for _, launch, _ in judged] == [False] * 5
        assert sum("record of that time, or of a later time" in why for *_, why in judged) == 4


def what_is_left_out_after_the_restore_can_be_made_up_for() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        desk.now_ms += 2 * _MINUTE * 1000
        desk.command(SwitchSchedule("s", True))
        assert [(minute, launch) for minute, launch, _ in _judged(desk, 331, 450)] == [(5, False), (6, True)]


def a_clock_that_is_put_back_wrongly_does_not_make_the_lost_time_certain() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        right_ms = desk.now_ms
        for now_ms in (right_ms - 86_400_000, right_ms + 1_000):
            desk.command(ConfirmClock(now_ms))
            desk.now_ms = now_ms
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def a_clock_that_was_far_ahead_at_the_restore_does_not_make_the_future_uncertain() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        _restored(desk, since_s=100, now_s=40 * 86_400)
        desk.now_ms = (START + 5 * _MINUTE + 30) * 1000
        desk.command(ConfirmClock(desk.now_ms))
        desk.now_ms += 3 * _MINUTE * 1000
        desk.command(SwitchSchedule("s", True))
        assert [launch for _, launch, _ in _judged(desk, 270, 510)] == [False, False, False, True]


def a_second_loss_does_not_make_an_earlier_one_certain() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        _restored(desk, since_s=100, now_s=5 * _MINUTE + 30)
        _restored(desk, since_s=340, now_s=350)
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def as_long_as_the_clock_is_not_believed_all_of_the_past_is_uncertain() -> None:
    with _desk() as desk:
        put(desk, cron=_EACH, enabled=False)
        desk.now_ms += 200_000
        desk.commit(c.TookOffice(2, "desk"), c.Restored(START * 1000, is_timed=False))
        desk.now_ms += 100_000
        _check_left_out(desk, 0, 1, 2, 3, 4)
        desk.returned(desk.now_ms)
        desk.now_ms += 60_000
        assert [launch for _, launch, _ in _judged(desk, 1, 350)] == [False] * 5 + [True]


@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize("ahead_s", [600, 6 * 3600])
def what_a_clock_that_was_ahead_launched_in_the_lost_time_is_not_launched_when_its_time_comes(
    is_timed: bool, ahead_s: int
) -> None:
    """The backup is of a time that has not come."""
    with _desk() as desk:
        put(desk, id="s", cron="*/20 * * * * *", missed="skip")
        at(desk, 20)
        desk.now_ms += ahead_s * 1000
        desk.take_office()
        desk.turns()
        kept_s = desk.now_ms // 1000 - START
        lost = {START + kept_s + 20 - kept_s % 20, START + kept_s + 40 - kept_s % 20}  # within 40 seconds
        desk.now_ms = (START + 60) * 1000
        if is_timed:
            desk.commit(c.TookOffice(2, "desk"), c.Restored((START + kept_s) * 1000))
            desk.command(ConfirmClock(desk.now_ms))
        else:
            desk.now_ms = (START + kept_s) * 1000
            desk.commit(c.TookOffice(2, "desk"), c.Restored((START + kept_s) * 1000, is_timed=False))
            desk.now_ms = (START + 60) * 1000
            desk.command(ConfirmClock(desk.now_ms))
        desk.command(RepairDue(["s"], is_last=True))
        before = set(desk.states_of("s"))
        for second in range(60, kept_s + 1_000, 10):
            at(desk, second)
        states = desk.states_of("s")
        later = {instant for instant in states.keys() - before if states[instant] != "skipped"}
        assert not later & lost
        assert max(later) > START + kept_s + 900, "it goes on behind them"
        assert min(later) < START + 200, "and before"


@pytest.mark.parametrize(
    ("since_s", "now_s", "until_s"), [(100, 100, 130), (100, 110, 140), (130, 110, 160), (100, 300, 330)]
)
@pytest.mark.parametrize("jitter", [None, "5s"])
def what_was_launched_by_a_clock_some_seconds_ahead_of_ours_is_not_launched_again(
    since_s: int, now_s: int, until_s: int, jitter: str | None
) -> None:
    with _desk() as desk:
        put(desk, cron="@every 10s", missed="all", jitter=jitter)
        at(desk, 90)
        _restored(desk, since_s, now_s)
        for second in range(now_s, until_s + 60, 5):
            at(desk, second)
        rows = desk.db.execute(
            "SELECT coalesce(planned_ms, instant_s * 1000) / 1000, state FROM launch WHERE instant_s > ?",
            (START + 90,),
        ).fetchall()
        called = sorted(planned_s - START for planned_s, state in rows if state < 10)
        assert until_s <= called[0] <= until_s + 15
        reasons = {reason for *_, reason in _given_up(desk)}
        assert len(reasons) == 1
        assert "the record of this time was lost, it may have been launched" in reasons.pop()


def after_each_loss_the_record_has_another_mark() -> None:
    """Also if the journal is the same one: numbers of lost entries are given a second time."""
    with _desk() as desk:
        marks = [desk.store.meta.mark]
        for _ in range(3):
            desk.now_ms += 1_000
            seq = desk.store.meta.seq
            desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(desk.now_ms))
            assert (desk.store.meta.former_mark, desk.store.meta.common_seq) == (marks[-1], seq)
            marks.append(desk.store.meta.mark)
        assert len(set(marks)) == 4
        assert all(len(mark) == 8 for mark in marks[1:])


def what_may_be_repeated_is_launched_at_once_after_a_restore() -> None:
    with _desk() as desk:
        put(desk, cron="@every 10s", missed="skip", on_doubt="relaunch")
        at(desk, 90)
        _restored(desk, since_s=95, now_s=105)
        at(desk, 110)
        assert desk.states_of("s")[START + 110] == "started"


def a_moment_that_catching_up_chose_after_the_restore_is_in_nobodys_lost_time() -> None:
    """It had not come yet when the record was lost."""
    with _desk() as desk:
        put(desk, cron="@every 1h", missed="last", catch_up_spread="30m")
        desk.now_ms += 3_700_000
        desk.take_office()
        desk.turns()
        ((instant_s, at_ms),) = desk.db.execute("SELECT instant_s, at_ms FROM due").fetchall()
        assert (instant_s, at_ms > desk.now_ms + 60_000) == (START + 3600, True)
        _restored(desk, since_s=3701, now_s=3702)
        desk.now_ms = at_ms
        desk.turns()
        assert desk.states_of("s") == {instant_s: "started"}


def _lost_ahead(desk: Desk, behind_s: int = 0) -> tuple[int, int]:
    """The clock is ten minutes ahead, a backup is made, and 40 seconds later all is lost. It is restored where the
    clock is right, or behind. From when to when something may have been launched, by the clock that was ahead."""
    desk.now_ms += 600_000
    desk.take_office()
    desk.turns()
    since_ms = desk.now_ms
    desk.now_ms += (40 - 600 - behind_s) * 1000
    desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(since_ms))
    desk.command(ConfirmClock(desk.now_ms))
    desk.command(RepairDue([id for (id,) in desk.db.execute("SELECT id FROM schedule")], is_last=True))
    return since_ms // 1000, since_ms // 1000 + 40


def _until_the_end_of(desk: Desk, until_s: int) -> None:
    while desk.now_ms // 1000 < until_s + 700:
        desk.now_ms += 5_000
        desk.turns()


@pytest.mark.parametrize("behind_s", [0, 20])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def what_may_have_been_launched_ahead_is_left_out_with_its_reason(
    missed: str, absent: bool, behind_s: int
) -> None:
    """Whether somebody is in office when its time comes or not."""
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *", missed=missed)
        at(desk, 20)
        from_s, until_s = _lost_ahead(desk, behind_s)
        if absent:
            desk.now_ms = (from_s - 25) * 1000
            desk.turns()
            desk.now_ms = (until_s + 90) * 1000
            desk.take_office()
        _until_the_end_of(desk, until_s)
        called = {instant for instant, state in desk.states_of("s").items() if state == "started"}
        assert not {instant for instant in called if from_s < instant < until_s}
        assert {instant for instant in called if from_s - 60 < instant <= from_s - 25}
        assert {instant for instant in called if instant > until_s + 620}
        unaccounted = set(range(-(-from_s // 10) * 10, until_s, 10)) - set(desk.states_of("s"))
        for instant in unaccounted:
            assert any(
                a <= instant < b and "was lost" in why
                for a, b, why in desk.db.execute("SELECT from_s, before_s, reason FROM missed")
            ), instant


def what_may_be_repeated_is_launched_in_the_time_that_a_clock_was_ahead() -> None:
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *", on_doubt="relaunch", missed="skip")
        at(desk, 20)
        from_s, until_s = _lost_ahead(desk)
        _until_the_end_of(desk, until_s)
        states = desk.states_of("s")
        assert {states[instant] for instant in range(-(-from_s // 10) * 10, until_s, 10)} == {"started"}


def a_night_off_has_nothing_to_do_with_a_record_that_ends_a_little_ahead() -> None:
    """The machine was off for ten hours, its clock was 79 seconds fast, and its backup is restored elsewhere."""
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *", missed="skip")
        at(desk, 20)
        desk.now_ms += 36_000_000
        desk.take_office(is_counted=False)
        desk.turns()
        since_ms = desk.now_ms
        desk.now_ms -= 79_000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(since_ms, is_timed=False))
        desk.command(ConfirmClock(desk.now_ms))
        desk.command(RepairDue(["s"], is_last=True))
        _until_the_end_of(desk, since_ms // 1000)
        started = {instant for instant, state in desk.states_of("s").items() if state == "started"}
        assert max(started) > since_ms // 1000 + 640
        assert not {instant for instant in started if since_ms // 1000 < instant < since_ms // 1000 + 600}


@pytest.mark.parametrize(("missed", "launched"), [("skip", set()), ("last", {9})])
def what_is_missed_after_the_lost_time_is_not_said_to_be_lost(missed: str, launched: set[int]) -> None:
    """It is off again within the half minute, for some minutes."""
    with _desk() as desk:
        put(desk, missed=missed, on_doubt="relaunch")
        desk.now_ms = (START + 3 * _MINUTE + 50) * 1000
        desk.commit(c.TookOffice(2, "desk"), c.Restored((START + 100) * 1000))
        desk.now_ms = (START + 9 * _MINUTE + 30) * 1000
        desk.take_office()
        desk.turns()
        assert {minute for minute, state in _states(desk).items() if state == "started"} == launched
        lost, later = _given_up(desk)
        assert (lost[:2], "was lost" in lost[2]) == ((1, 4), True)
        assert (later[:2], "nobody was in office" in later[2]) == ((5, 9 - len(launched)), True)


def of_several_leaps_that_fit_the_longest_tells_how_long_the_lost_time_was() -> None:
    """The clock was six hours ahead; then there was nothing to do for two hours; the backup is four hours old."""
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *", missed="skip")
        at(desk, 20)
        for hours in (6, 2.1):
            desk.now_ms += round(hours * 3_600_000)
            desk.take_office()
            desk.turns()
        since_ms = desk.now_ms
        desk.now_ms -= 2 * 3_600_000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(since_ms))
        passed_ms = desk.store.meta.lost_ahead_until_ms - since_ms
        assert 4 * 3_600_000 <= passed_ms <= 4 * 3_600_000 + 60_000


def a_reminder_that_is_made_for_a_lost_time_ahead_is_skipped_with_its_reason() -> None:
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *")
        at(desk, 20)
        from_s, until_s = _lost_ahead(desk)
        put(desk, id="r", cron=f"@at {from_s + 20}")
        _until_the_end_of(desk, until_s)
        assert desk.states_of("r") == {from_s + 20: "skipped"}
        (reason,) = desk.db.execute(
            "SELECT reason FROM launch WHERE instant_s = ? AND sid = 2", (from_s + 20,)
        )
        assert "the record of this time was lost" in reason[0]


@pytest.mark.parametrize("is_timed", [True, False])
def a_clock_that_is_confirmed_after_a_restore_does_not_shorten_the_lost_time(is_timed: bool) -> None:
    """The record ends 48 seconds ahead of it."""
    with _desk() as desk:
        put(desk, cron="@every 10s", missed="all")
        at(desk, 90)
        desk.now_ms = (START + 52) * 1000
        desk.commit(c.TookOffice(2, "desk"), c.Restored((START + 100) * 1000, is_timed=is_timed))
        desk.command(ConfirmClock(desk.now_ms))
        desk.returned(desk.now_ms)
        for second in range(55, 200, 5):
            at(desk, second)
        called = [instant - START for instant, state in desk.states_of("s").items() if state == "started"]
        assert not [instant for instant in called if 90 < instant < 130]
        assert max(called) > 150


@pytest.mark.parametrize("how", ["stepped", "confirmed", "confirmed later", "rebooted"])
@pytest.mark.parametrize("missed", ["last", "all"])
def a_slow_clock_that_is_put_right_after_a_restore_does_not_end_the_lost_time(missed: str, how: str) -> None:
    """The backup is of second 100, the loss of 160, and the clock is 50 seconds slow until 8 seconds later."""
    with _desk() as desk:
        put(desk, cron="@every 10s", missed=missed)
        at(desk, 100)
        _restored(desk, since_s=100, now_s=110)
        at(desk, 118)
        right_ms = (START + 168) * 1000
        if how == "confirmed":
            desk.command(ConfirmClock(right_ms))
        elif how == "confirmed later":
            desk.command(ConfirmClock(right_ms, stopped_ms=(START + 118) * 1000))
        desk.now_ms = right_ms
        if how == "stepped":
            desk.commit(c.Returned((START + 118) * 1000, is_counted=False))
        elif how == "rebooted":
            desk.take_office(is_counted=False)
        for second in range(168, 260, 5):
            at(desk, second)
        called = [instant - START for instant, state in desk.states_of("s").items() if state == "started"]
        assert not [instant for instant in called if 100 < instant < 190]
        assert max(called) > 200


@pytest.mark.parametrize(("missed", "launched"), [("last", {9}), ("all", {5, 6, 7, 8, 9})])
def a_suspend_after_a_restore_is_an_absence_and_no_lost_time(missed: str, launched: set[int]) -> None:
    """All of it was counted: nothing stepped."""
    with _desk() as desk:
        put(desk, missed=missed)
        _restored(desk, since_s=10, now_s=4 * _MINUTE + 5)
        desk.now_ms = (START + 9 * _MINUTE + 30) * 1000
        desk.returned((START + 4 * _MINUTE + 10) * 1000)
        desk.turns()
        assert {minute for minute, state in _states(desk).items() if state == "started"} == launched


@pytest.mark.parametrize("later_s", [45, 86_400])
def a_loss_lies_ahead_when_the_clock_that_told_its_end_is_put_back(later_s: int) -> None:
    """It was ahead at the backup, and still is at the restore."""
    with _desk() as desk:
        put(desk, cron="*/10 * * * * *", missed="all")
        at(desk, 20)
        desk.now_ms += 3 * 86_400_000
        desk.take_office()
        desk.turns()
        since_ms = desk.now_ms
        desk.now_ms += 20_000  # they were launched, and the record of it was lost
        lost = range(since_ms // 10_000 * 10 + 10, desk.now_ms // 1000, 10)
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(since_ms))
        desk.turns()
        desk.now_ms += later_s * 1000
        desk.take_office()
        desk.now_ms -= 3 * 86_400_000
        desk.command(ConfirmClock(desk.now_ms))
        desk.command(RepairDue(["s"], is_last=True))
        desk.now_ms = since_ms - 30_000
        desk.take_office()
        _until_the_end_of(desk, desk.now_ms // 1000)
        called = {instant for instant, state in desk.states_of("s").items() if state == "started"}
        assert not called & set(lost)
        assert max(called) > max(lost) + 60


def a_clock_that_is_a_little_behind_that_of_the_backup_leaves_out_half_a_minute() -> None:
    """The machine was off for a night, and its backup is restored on another one."""
    with _desk() as desk:
        put(desk, id="s", cron="*/20 * * * * *", missed="skip")
        at(desk, 20)
        desk.now_ms += 36_000_000
        desk.take_office()
        desk.turns()
        since_ms = desk.now_ms
        desk.now_ms -= 6_000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored(since_ms))
        desk.turns()
        before = len(desk.states_of("s"))
        desk.now_ms += 37_000
        desk.turns()
        assert desk.store.meta.doubtful_until_ms == since_ms + 30_000
        for _ in range(12):
            desk.now_ms += 10_000
            desk.turns()
        assert len(desk.states_of("s")) >= before + 5
        assert not desk.store.meta.lost_ahead_until_ms
