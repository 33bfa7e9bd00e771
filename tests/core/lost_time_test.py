"""After a restore nobody knows what was launched since the backup, and the clock may be wrong before or after it."""

from __future__ import annotations

import pytest
from tests.core.desk import START, Desk, at, put
from tests.core.losses import MINUTE, given_up, new_desk, restored, states

from tocsin.model import change as c
from tocsin.model.command import (
    ConfirmClock,
    DeleteSchedule,
    RepairDue,
    SwitchSchedule,
)


@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize("ahead_s", [600, 6 * 3600])
def what_a_clock_that_was_ahead_launched_in_the_lost_time_is_not_launched_when_its_time_comes(
    is_timed: bool, ahead_s: int
) -> None:
    """The backup is of a time that has not come."""
    with new_desk() as desk:
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
    with new_desk() as desk:
        put(desk, cron="@every 10s", missed="all", jitter=jitter)
        at(desk, 90)
        restored(desk, since_s, now_s)
        for second in range(now_s, until_s + 60, 5):
            at(desk, second)
        rows = desk.db.execute(
            "SELECT coalesce(planned_ms, instant_s * 1000) / 1000, state FROM launch WHERE instant_s > ?",
            (START + 90,),
        ).fetchall()
        called = sorted(planned_s - START for planned_s, state in rows if state < 10)
        assert until_s <= called[0] <= until_s + 15
        reasons = {reason for *_, reason in given_up(desk)}
        assert len(reasons) == 1
        assert "the record of this time was lost, it may have been launched" in reasons.pop()


def after_each_loss_the_record_has_another_mark() -> None:
    """Also if the journal is the same one: numbers of lost entries are given a second time."""
    with new_desk() as desk:
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
    with new_desk() as desk:
        put(desk, cron="@every 10s", missed="skip", on_doubt="relaunch")
        at(desk, 90)
        restored(desk, since_s=95, now_s=105)
        at(desk, 110)
        assert desk.states_of("s")[START + 110] == "started"


def a_moment_that_catching_up_chose_after_the_restore_is_in_nobodys_lost_time() -> None:
    """It had not come yet when the record was lost."""
    with new_desk() as desk:
        put(desk, cron="@every 1h", missed="last", catch_up_spread="30m")
        desk.now_ms += 3_700_000
        desk.take_office()
        desk.turns()
        ((instant_s, at_ms),) = desk.db.execute("SELECT instant_s, at_ms FROM due").fetchall()
        assert (instant_s, at_ms > desk.now_ms + 60_000) == (START + 3600, True)
        restored(desk, since_s=3701, now_s=3702)
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
    with new_desk() as desk:
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
    with new_desk() as desk:
        put(desk, cron="*/10 * * * * *", on_doubt="relaunch", missed="skip")
        at(desk, 20)
        from_s, until_s = _lost_ahead(desk)
        _until_the_end_of(desk, until_s)
        states = desk.states_of("s")
        assert {states[instant] for instant in range(-(-from_s // 10) * 10, until_s, 10)} == {"started"}


def a_night_off_has_nothing_to_do_with_a_record_that_ends_a_little_ahead() -> None:
    """The machine was off for ten hours, its clock was 79 seconds fast, and its backup is restored elsewhere."""
    with new_desk() as desk:
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
    with new_desk() as desk:
        put(desk, missed=missed, on_doubt="relaunch")
        desk.now_ms = (START + 3 * MINUTE + 50) * 1000
        desk.commit(c.TookOffice(2, "desk"), c.Restored((START + 100) * 1000))
        desk.now_ms = (START + 9 * MINUTE + 30) * 1000
        desk.take_office()
        desk.turns()
        assert {minute for minute, state in states(desk).items() if state == "started"} == launched
        lost, later = given_up(desk)
        assert (lost[:2], "was lost" in lost[2]) == ((1, 4), True)
        assert (later[:2], "nothing was decided" in later[2]) == ((5, 9 - len(launched)), True)


def of_several_leaps_that_fit_the_longest_tells_how_long_the_lost_time_was() -> None:
    """The clock was six hours ahead; then there was nothing to do for two hours; the backup is four hours old."""
    with new_desk() as desk:
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
    with new_desk() as desk:
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
    with new_desk() as desk:
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
    with new_desk() as desk:
        put(desk, cron="@every 10s", missed=missed)
        at(desk, 100)
        restored(desk, since_s=100, now_s=110)
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
    with new_desk() as desk:
        put(desk, missed=missed)
        restored(desk, since_s=10, now_s=4 * MINUTE + 5)
        desk.now_ms = (START + 9 * MINUTE + 30) * 1000
        desk.returned((START + 4 * MINUTE + 10) * 1000)
        desk.turns()
        assert {minute for minute, state in states(desk).items() if state == "started"} == launched


@pytest.mark.parametrize("later_s", [45, 86_400])
def a_loss_lies_ahead_when_the_clock_that_told_its_end_is_put_back(later_s: int) -> None:
    """It was ahead at the backup, and still is at the restore."""
    with new_desk() as desk:
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
    with new_desk() as desk:
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


@pytest.mark.parametrize("act", ["pause", "edit", "delete"])
def what_waited_since_a_lost_time_is_not_said_to_be_skipped_for_certain(act: str) -> None:
    """It had no room (its limit was reached), so nobody had judged it when its schedule was changed."""
    with new_desk() as desk:
        put(desk, cron="@every 60s")
        at(desk, 0)
        desk.now_ms = (START + 4 * MINUTE + 30) * 1000
        desk.commit(c.TookOffice(2, "desk"), c.Restored((START + 10) * 1000))
        desk.now_ms = (START + 9 * MINUTE + 30) * 1000
        if act == "pause":
            desk.command(SwitchSchedule("s", enabled=False))
        elif act == "edit":
            put(desk, cron="0 0 1 1 *")
        else:
            desk.command(DeleteSchedule("s"))
        found = [(first, last, "may have been launched" in why) for first, last, why in given_up(desk)]
        assert found == [(1, 1, True), (1, 4, True), (5, 9, False)]


def a_moment_of_the_lost_time_that_is_imported_again_is_not_said_to_be_skipped_for_certain() -> None:
    with new_desk() as desk:
        desk.now_ms = (START + 10 * MINUTE) * 1000
        desk.commit(c.TookOffice(2, "desk"), c.Restored((START + 5 * MINUTE) * 1000))
        for id, minute in (("lost", 7), ("older", 2)):
            put(desk, id=id, cron=f"@at {START + minute * MINUTE}", missed="skip")
        reasons = dict(desk.db.execute("SELECT id, reason FROM launch JOIN schedule USING (sid)"))
        assert "may have been launched" in reasons["lost"]
        assert "may have been launched" not in reasons["older"]
