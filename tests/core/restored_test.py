"""After a restore nobody knows what was launched since the backup: the window of doubt."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put
from tests.core.losses import EACH, MINUTE, given_up, new_desk, restored, states

from tocsin.errors import Refused
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    ConfirmClock,
    DeleteSchedule,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.launch import LaunchState
from tocsin.replica.prepare import past_occurrences
from tocsin.state import views
from tocsin.targets.contract import SUCCEEDED


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def what_fell_into_the_window_is_given_up_with_its_reason(missed: str) -> None:
    with new_desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        ((first, last, reason),) = given_up(desk)
        assert (first, last) == (2, 5)
        assert "the record of this time was lost" in reason
        at(desk, 6 * MINUTE)
        assert states(desk) == {1: "started", 6: "started"}


def one_that_may_be_repeated_follows_its_policy() -> None:
    with new_desk() as desk:
        put(desk, missed="all", on_doubt="relaunch")
        at(desk, 90)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        assert given_up(desk) == []
        assert set(states(desk)) == {1, 2, 3, 4, 5}


def what_comes_after_the_window_is_launched_as_ever() -> None:
    with new_desk() as desk:
        put(desk)
        restored(desk, since_s=10, now_s=30)
        for minute in (1, 2, 3):
            at(desk, minute * MINUTE)
        assert set(states(desk)) == {1, 2, 3}
        assert given_up(desk) == []


@pytest.mark.parametrize(("missed", "launched"), [("skip", set()), ("last", {9}), ("all", {6, 7, 8, 9})])
def a_second_absence_before_anything_was_decided_does_not_widen_the_window(
    missed: str, launched: set[int]
) -> None:
    with new_desk() as desk:
        put(desk, missed=missed)
        desk.now_ms = (START + 5 * MINUTE + 30) * 1000
        desk.commit(c.TookOffice(desk.store.meta.term + 1, "desk"), c.Restored((START + 10) * 1000))
        desk.now_ms = (START + 9 * MINUTE + 30) * 1000
        desk.take_office()  # the one that restored it did not live to decide anything
        desk.turns()
        assert set(states(desk)) >= launched
        assert {minute for minute, state in states(desk).items() if state == "started"} == launched
        first, *others = given_up(desk)
        assert first[:2] == (1, 5)
        assert "was lost" in first[2]
        assert all("was lost" not in reason for _, _, reason in others)


def one_that_was_to_come_after_the_window_because_of_its_jitter_is_not_in_doubt() -> None:
    """Its instant lay within, its planned moment did not: nobody can have launched it."""
    with new_desk() as desk:
        put(desk, cron="@every 10m", jitter="9m", missed="last")
        ((instant_s, at_ms),) = desk.db.execute("SELECT instant_s, at_ms FROM due").fetchall()
        planned_s = at_ms // 1000 - START
        assert planned_s - (instant_s - START) > 60, (
            "the name was chosen so that there is room for the window"
        )
        restored(desk, since_s=10, now_s=instant_s - START + 30)
        desk.now_ms = at_ms + 60_000
        desk.take_office()
        desk.turns()
        assert desk.states_of("s") == {instant_s: "started"}


def what_waited_in_the_record_may_have_had_its_turn() -> None:
    with new_desk() as desk:
        put(desk, retry={"limit": 3, "backoff": "1m"}, overlap="queue")
        at(desk, MINUTE)
        desk.end(only_flight(desk), FAILED)
        at(desk, 2 * MINUTE)
        waiting = {state for _, _, _, state in desk.launches()}
        restored(desk, since_s=2 * MINUTE, now_s=10 * MINUTE - 5)
        open_now = desk.db.execute("SELECT DISTINCT state FROM launch WHERE state < 10").fetchall()
        assert waiting != {1}
        assert open_now == [(1,)], "to be concluded, like all that a former leader may have called"


@pytest.mark.parametrize(("on_doubt", "state"), [("skip", "in_doubt"), ("relaunch", "queued")])
def what_waited_for_its_turn_does_not_get_it_together_with_all_others(on_doubt: str, state: str) -> None:
    with new_desk() as desk:
        put(desk, overlap="queue", on_doubt=on_doubt)
        at(desk, MINUTE)
        at(desk, 2 * MINUTE)
        assert states(desk) == {1: "started", 2: "queued"}
        restored(desk, since_s=2 * MINUTE, now_s=3 * MINUTE - 5)
        assert states(desk) == {1: "started", 2: state}


def _queued_then_restored(desk: Desk, edited: dict[str, Any] | None = None, **fields: Any) -> None:
    """The launch of the second minute waits for the first one when the backup is made."""
    put(desk, cron="@every 60s", overlap="queue", **fields)
    at(desk, MINUTE)
    at(desk, 2 * MINUTE)
    assert states(desk) == {1: "started", 2: "queued"}
    if edited is not None:
        put(desk, cron="@every 60s", overlap="queue", **edited)
    restored(desk, since_s=2 * MINUTE, now_s=3 * MINUTE - 5)


def _second(desk: Desk) -> tuple[str, int, int | None]:
    """State, attempt and doubt of the launch of the second minute."""
    state, attempt, doubt = desk.db.execute(
        "SELECT state, attempt, doubt FROM launch WHERE instant_s = ?", (START + 2 * MINUTE,)
    ).fetchone()
    return LaunchState(state).name.lower(), attempt, doubt


@pytest.mark.parametrize(("on_doubt", "edited"), [("skip", "relaunch"), ("relaunch", "skip")])
def the_version_of_a_queued_launch_says_whether_it_may_be_called_again(on_doubt: str, edited: str) -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, {"on_doubt": edited}, on_doubt=on_doubt)
        assert _second(desk)[0] == ("queued" if on_doubt == "relaunch" else "in_doubt")


@pytest.mark.parametrize("idempotent", [False, True])
def a_receiver_that_deduplicates_is_called_again_by_the_version_of_the_launch(idempotent: bool) -> None:
    with new_desk() as desk:
        targets = [
            {"kind": "http", "url": "http://h/", "idempotent": word} for word in (idempotent, not idempotent)
        ]
        _queued_then_restored(desk, {"target": targets[1]}, target=targets[0])
        assert _second(desk)[0] == ("queued" if idempotent else "in_doubt")


@pytest.mark.parametrize("on_doubt", ["skip", "relaunch"])
def the_attempt_that_a_queued_launch_may_have_had_is_counted(on_doubt: str) -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt=on_doubt)
        assert _second(desk)[1:] == (1, 1)


def a_queued_launch_is_called_after_a_restore_as_a_further_attempt() -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        desk.end(min(desk.flights), SUCCEEDED)
        desk.turns()
        flight = desk.flights[only_flight(desk)]
        assert (flight.order.name, flight.order.attempt, flight.doubted) == (f"s-{START + 120}", 2, True)
        (former,) = views.attempts(desk.db, flight.order.name)
        assert (former.attempt, former.started_at) == (1, None)
        assert "may have had its turn" in former.reason
        desk.end(flight.lid, SUCCEEDED)
        assert states(desk)[2] == "succeeded"


def a_queued_launch_that_is_cancelled_after_a_restore_is_in_doubt() -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        desk.command(CancelLaunch(f"s-{START + 120}", "not any more", "ann"))
        assert _second(desk)[0] == "in_doubt"


def a_queued_launch_whose_deadline_passes_after_a_restore_is_in_doubt() -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch", deadline="90s")
        desk.now_ms = (START + 2 * MINUTE + 91) * 1000
        desk.end(min(desk.flights), SUCCEEDED)
        desk.turns()
        assert _second(desk)[0] == "in_doubt"


def a_second_restore_counts_one_more_attempt_of_a_queued_launch() -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt="relaunch")
        restored(desk, since_s=3 * MINUTE - 4, now_s=3 * MINUTE - 3)
        assert _second(desk) == ("queued", 2, 1)


def a_relaunch_after_a_restore_is_a_further_attempt() -> None:
    with new_desk() as desk:
        _queued_then_restored(desk, on_doubt="skip")
        desk.end(min(desk.flights), SUCCEEDED)
        lid = desk.command(ResolveLaunch(f"s-{START + 120}", "relaunch", "", "ann"))
        assert desk.db.execute("SELECT attempt, doubt FROM launch WHERE lid = ?", (lid,)).fetchone() == (2, 1)


@pytest.mark.parametrize(("missed", "minutes"), [("skip", 4), ("last", 4)])
def a_backfill_leaves_out_what_may_have_been_launched_within_the_window(missed: str, minutes: int) -> None:
    with new_desk() as desk:
        put(desk, missed=missed)
        at(desk, 90)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        asked = Backfill("s", START + 61, START + 6 * MINUTE)
        with pytest.raises(Refused, match="nothing to launch"):
            desk.command(asked)
        assert desk.command(msgspec.structs.replace(asked, unrecorded=True)) == minutes


@pytest.mark.parametrize("missed", ["skip", "last"])
def what_is_given_up_within_the_window_is_not_said_to_have_had_nobody_in_office(missed: str) -> None:
    """Also where it could be repeated and its owner does not want to: somebody may well have been there."""
    with new_desk() as desk:
        put(desk, missed=missed, on_doubt="relaunch")
        at(desk, 90)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        ((_, _, reason),) = given_up(desk)
        assert "the record of this time was lost" in reason


def _judged(desk: Desk, since_s: int, until_s: int, **more: bool) -> list[tuple[int, bool, str]]:
    """Occurrences of that time in minutes, whether a backfill would launch each, and why."""
    asked = Backfill("s", START + since_s, START + until_s, **more)
    found, _ = past_occurrences(desk.db, asked, desk.now_ms)
    return [((past.instant_s - START) // MINUTE, past.launch, past.why) for past in found]


def _check_left_out(desk: Desk, *minutes: int) -> None:
    since_s, until_s = minutes[0] * MINUTE, (minutes[-1] + 1) * MINUTE
    judged = _judged(desk, since_s, until_s)
    assert [(minute, launch) for minute, launch, _ in judged] == [(minute, False) for minute in minutes]
    assert {why for *_, why in judged} == {
        "the record of that time, or of a later time, was lost, so it may have been launched"
    }
    insisted = _judged(desk, since_s, until_s, unrecorded=True)
    assert [launch for _, launch, _ in insisted] == [True] * len(minutes)


def a_backfill_leaves_out_what_a_schedule_made_anew_may_have_launched_in_the_lost_time() -> None:
    with new_desk() as desk:
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        put(desk, cron=EACH)
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_a_paused_schedule_may_have_launched_in_the_lost_time() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_a_deleted_schedule_may_have_launched_in_the_lost_time() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH)
        desk.command(DeleteSchedule("s"))
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        put(desk, cron=EACH)
        _check_left_out(desk, 1, 2, 3, 4)


def a_backfill_leaves_out_what_another_may_have_made_up_for_in_the_lost_time() -> None:
    """Missed, skipped, cancelled in the line of a backfill, or before there was the schedule."""
    with new_desk() as desk:
        desk.now_ms += MINUTE * 1000
        put(desk, cron=EACH, overlap="forbid", missed="skip")
        at(desk, 2 * MINUTE)
        at(desk, 3 * MINUTE)
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
        restored(desk, since_s=331, now_s=345)
        judged = _judged(desk, 1, 330)
        assert [launch for _, launch, _ in judged] == [False] * 5
        assert sum("record of that time, or of a later time" in why for *_, why in judged) == 4


def what_is_left_out_after_the_restore_can_be_made_up_for() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        desk.now_ms += 2 * MINUTE * 1000
        desk.command(SwitchSchedule("s", True))
        assert [(minute, launch) for minute, launch, _ in _judged(desk, 331, 450)] == [(5, False), (6, True)]


def a_clock_that_is_put_back_wrongly_does_not_make_the_lost_time_certain() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        right_ms = desk.now_ms
        for now_ms in (right_ms - 86_400_000, right_ms + 1_000):
            desk.command(ConfirmClock(now_ms))
            desk.now_ms = now_ms
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def a_clock_that_was_far_ahead_at_the_restore_does_not_make_the_future_uncertain() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        restored(desk, since_s=100, now_s=40 * 86_400)
        desk.now_ms = (START + 5 * MINUTE + 30) * 1000
        desk.command(ConfirmClock(desk.now_ms))
        desk.now_ms += 3 * MINUTE * 1000
        desk.command(SwitchSchedule("s", True))
        assert [launch for _, launch, _ in _judged(desk, 270, 510)] == [False, False, False, True]


def a_second_loss_does_not_make_an_earlier_one_certain() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        restored(desk, since_s=100, now_s=5 * MINUTE + 30)
        restored(desk, since_s=340, now_s=350)
        desk.command(SwitchSchedule("s", True))
        _check_left_out(desk, 1, 2, 3, 4)


def as_long_as_the_clock_is_not_believed_all_of_the_past_is_uncertain() -> None:
    with new_desk() as desk:
        put(desk, cron=EACH, enabled=False)
        desk.now_ms += 200_000
        desk.commit(c.TookOffice(2, "desk"), c.Restored(START * 1000, is_timed=False))
        desk.now_ms += 100_000
        _check_left_out(desk, 0, 1, 2, 3, 4)
        desk.returned(desk.now_ms)
        desk.now_ms += 60_000
        assert [launch for _, launch, _ in _judged(desk, 1, 350)] == [False] * 5 + [True]
