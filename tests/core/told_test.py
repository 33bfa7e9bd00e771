"""A replica tells late how a launch ended that was already in doubt: it is recorded as if told in time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.core.desk import START, Desk, _targets, at, only_flight, put

from tocsin.errors import Refused
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.activity import MINUTE_MS
from tocsin.model.command import Backfill, CancelLaunch, ResolveLaunch
from tocsin.model.launch import EARLIER_CALL, HELD_MS, LaunchState, shown_reason
from tocsin.replica.flight import flight_of_row
from tocsin.replica.outcomes import changes_of, resolutions
from tocsin.replica.reports import Reports
from tocsin.state import events, minutes, queries, views
from tocsin.state.steps import steps
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict
from tocsin.targets.null import NullTarget

ONCE = "@at 2023-11-14T22:14:20Z"
DUE_MS = (START + 60) * 1000
NAME = f"s-{START + 60}"
RETRY = {"limit": 1, "backoff": "10s", "jitter": 0}
UNKNOWN = Outcome(Verdict.UNKNOWN, "replica a, which was to make the call, does not answer")
EXITED = Outcome(
    Verdict.FAILED, "exit status 3", exit_code=3, called_ms=DUE_MS + 3_100, ended_ms=DUE_MS + 8_100
)
REFUSED = Outcome(Verdict.NOT_STARTED, "connection refused", ended_ms=DUE_MS + 20)
NO_CALL = Outcome(Verdict.NOT_STARTED, "no call was made", permanent=True)
DONE = Outcome(Verdict.SUCCEEDED, exit_code=204, called_ms=DUE_MS + 3_100, ended_ms=DUE_MS + 6_100)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk(START)) as made:
        yield made


def _doubt(desk: Desk, **fields: object) -> int:
    """A launch whose caller is silent: the next leader has put it in doubt, and half a minute has gone by."""
    put(desk, **{"cron": ONCE, **fields})
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    at(desk, 66)
    desk.end(lid, UNKNOWN)
    assert views.launch(desk.db, NAME).state == "in_doubt"
    at(desk, 90)
    return lid


@pytest.mark.parametrize(("outcome", "state", "exit_code"), [(DONE, "succeeded", 204), (EXITED, "failed", 3)])
def it_is_recorded_when_it_was_called_when_it_ended_and_with_what_status(
    desk: Desk, outcome: Outcome, state: str, exit_code: int
) -> None:
    desk.tell(_doubt(desk), outcome)
    view = views.launch(desk.db, NAME)
    assert view.started_at is not None
    assert view.ended_at is not None
    assert (view.state, view.exit_code, view.lateness_ms) == (state, exit_code, 3_100)
    assert view.started_at.timestamp() * 1000 == outcome.called_ms
    assert view.ended_at.timestamp() * 1000 == outcome.ended_ms
    assert "told by replica a" in view.reason


def its_lateness_is_counted_in_the_minute_of_its_start(desk: Desk) -> None:
    lid = _doubt(desk)
    from_ms = DUE_MS // MINUTE_MS * MINUTE_MS
    assert minutes.activity(desk.db, from_ms, from_ms + 1, MINUTE_MS).totals.late == 0
    desk.tell(lid, DONE)
    told = minutes.activity(desk.db, from_ms, from_ms + 1, MINUTE_MS).totals
    assert (told.late, told.lateness_max_ms) == (1, 3_100)


def its_steps_tell_the_end_at_its_time_and_the_doubt(desk: Desk) -> None:
    desk.tell(_doubt(desk), EXITED)
    told = [(int(step.at.timestamp() * 1000) - DUE_MS, step.step, step.note) for step in steps(desk.db, NAME)]
    assert told == [
        (0, "planned", ""),
        (3_100, "started", ""),
        (8_100, "attempt ended", f"in doubt: {UNKNOWN.reason}"),
        (8_100, "failed", "resolved: told by replica a: exit status 3"),
        (30_000, "resolved", "failed: told by replica a: exit status 3"),
    ]


@pytest.mark.parametrize("outcome", [EXITED, REFUSED])
def what_failed_for_certain_is_tried_again(desk: Desk, outcome: Outcome) -> None:
    lid = _doubt(desk, retry=RETRY)
    desk.tell(lid, outcome)
    assert views.launch(desk.db, NAME).state == "retrying"
    at(desk, 99)
    assert lid not in desk.flights
    at(desk, 100)
    assert desk.flights[lid].order.attempt == 2
    (first,) = views.attempts(desk.db, NAME)
    assert (first.reason, first.exit_code) == (f"told by replica a: {outcome.reason}", outcome.exit_code)
    assert first.ended_at.timestamp() * 1000 == outcome.ended_ms
    desk.end(lid, SUCCEEDED)
    assert views.launch(desk.db, NAME).state == "succeeded"


def what_was_told_twice_is_tried_again_once(desk: Desk) -> None:
    lid = _doubt(desk, retry=RETRY)
    desk.tell(lid, EXITED)
    assert isinstance(desk.tell(lid, EXITED), Refused)
    at(desk, 100)
    assert isinstance(desk.tell(lid, EXITED), Refused)
    assert desk.flights[lid].order.attempt == 2


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "skipped"])
def what_a_person_has_judged_is_not_tried_again(desk: Desk, outcome: str) -> None:
    lid = _doubt(desk, retry=RETRY)
    desk.command(ResolveLaunch(NAME, outcome, "", "ann"))  # type: ignore[arg-type]  # why: any word
    assert isinstance(desk.tell(lid, EXITED), Refused)
    at(desk, 200)
    assert views.launch(desk.db, NAME).state == outcome


@pytest.mark.parametrize(("outcome", "state"), [(EXITED, "failed"), (REFUSED, "skipped")])
def the_last_attempt_is_not_tried_again(desk: Desk, outcome: Outcome, state: str) -> None:
    desk.tell(_doubt(desk), outcome)
    assert views.launch(desk.db, NAME).state == state


def what_was_never_called_is_not_tried_again(desk: Desk) -> None:
    desk.tell(_doubt(desk, retry=RETRY), NO_CALL)
    assert views.launch(desk.db, NAME).state == "skipped"


def _doubt_of_the_second(desk: Desk, first: Outcome) -> int:
    """Its first attempt has failed for certain; whoever was to make the second call is silent."""
    put(desk, cron=ONCE, retry={**RETRY, "limit": 3})
    at(desk, 60)
    lid = only_flight(desk)
    desk.end(lid, first)
    at(desk, 80)
    assert desk.flights[lid].order.attempt == 2
    desk.take_office()
    at(desk, 86)
    desk.end(lid, UNKNOWN)
    assert views.launch(desk.db, NAME).state == "in_doubt"
    return lid


@pytest.mark.parametrize("first", [EXITED, REFUSED])
@pytest.mark.parametrize("second", [NO_CALL, msgspec.structs.replace(REFUSED, permanent=True)])
def a_launch_whose_first_attempt_failed_has_failed_when_the_second_was_never_called(
    desk: Desk, first: Outcome, second: Outcome
) -> None:
    lid = _doubt_of_the_second(desk, first)
    desk.tell(lid, second)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.attempt) == ("failed", 2)
    assert view.started_at is not None
    assert [each.started_at is None for each in views.attempts(desk.db, NAME)] == [False, True]
    with pytest.raises(Refused, match="no occurrence of 's' in that time was left out"):
        desk.command(Backfill("s", START, START + 80))


def a_person_cannot_say_that_a_launch_was_skipped_whose_first_attempt_was_made(desk: Desk) -> None:
    _doubt_of_the_second(desk, EXITED)
    with pytest.raises(Refused, match="an attempt of it was made"):
        desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    assert views.launch(desk.db, NAME).state == "in_doubt"
    desk.command(ResolveLaunch(NAME, "failed", "", "ann"))
    assert views.launch(desk.db, NAME).state == "failed"


def a_launch_that_was_never_called_stays_skipped_however_often_it_is_backfilled(desk: Desk) -> None:
    lid = _doubt(desk)
    desk.tell(lid, NO_CALL)
    for later in (100, 200):
        assert views.launch(desk.db, NAME).state == "skipped"
        assert desk.command(Backfill("s", START, START + 80)) == 1
        at(desk, later)
        assert desk.flights[lid].order.attempt > 1
        desk.take_office()
        at(desk, later + 6)
        desk.end(lid, UNKNOWN)
        desk.tell(lid, NO_CALL)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.started_at) == ("skipped", None)


def a_doubt_after_a_backfill_can_be_resolved_as_skipped_again(desk: Desk) -> None:
    lid = _doubt(desk)
    desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    desk.command(Backfill("s", START, START + 80))
    at(desk, 100)
    desk.end(lid, UNKNOWN)
    desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    assert views.launch(desk.db, NAME).state == "skipped"


def what_was_called_again_in_spite_of_the_doubt_was_not_skipped(desk: Desk) -> None:
    lid = _doubt(desk)
    desk.command(ResolveLaunch(NAME, "relaunch", "", "ann"))
    (row,) = queries.orders(desk.db, [lid])
    report = Reports(ended=[(flight_of_row(row, 2), EXITED)])
    desk.commit(*changes_of(report, _targets(), desk.now_ms))
    assert views.launch(desk.db, NAME).state == "in_doubt"
    with pytest.raises(Refused, match="it was not skipped"):
        desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))


def a_second_attempt_in_doubt_has_no_start_that_nobody_told(desk: Desk) -> None:
    """It may have waited in line until its leader was killed, as the first one did."""
    put(desk, cron=ONCE, on_doubt="relaunch", retry={**RETRY, "limit": 1})
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.end(lid, UNKNOWN)
    at(desk, 80)
    assert desk.flights[lid].order.attempt == 2
    desk.take_office()
    desk.end(lid, UNKNOWN)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.attempt, view.started_at, view.lateness_ms) == ("in_doubt", 2, None, None)
    assert [step.step for step in steps(desk.db, NAME)].count("started") == 0
    desk.command(ResolveLaunch(NAME, "failed", "", "ann"))
    assert views.launch(desk.db, NAME).started_at is None


def what_was_backfilled_and_cancelled_before_its_call_has_no_start_and_can_be_backfilled_again(
    desk: Desk,
) -> None:
    lid = _doubt(desk)
    desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    for later in (100, 200):
        assert desk.command(Backfill("s", START, START + 80)) == 1
        at(desk, later)
        flight = desk.flights[lid]
        desk.command(CancelLaunch(NAME, "enough", "ann"))
        report = Reports(withdrawn=[flight])
        desk.commit(*changes_of(report, _targets(), desk.now_ms))
        del desk.flights[lid]
        view = views.launch(desk.db, NAME)
        assert (view.state, view.started_at) == ("cancelled", None)


def the_number_of_an_attempt_in_doubt_is_given_to_no_other(desk: Desk) -> None:
    """Attempt 1 waited in line when its leader was killed, began again, and was cancelled there."""
    put(desk, cron=ONCE, on_doubt="relaunch")
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [1], [True]))
    desk.command(CancelLaunch(NAME, "enough", "ann"))
    desk.commit(c.HandOversWithdrawn([lid], [1]))
    assert (views.launch(desk.db, NAME).state, views.launch(desk.db, NAME).attempt) == ("in_doubt", 1)
    del desk.flights[lid]
    desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    desk.command(Backfill("s", START, START + 80))
    at(desk, 100)
    assert desk.flights[lid].order.attempt == 2
    desk.command(CancelLaunch(NAME, "enough", "ann"))
    stopped = Outcome(Verdict.CANCELLED, "in flight", called_ms=desk.now_ms, ended_ms=desk.now_ms)
    desk.end(lid, stopped)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.started_at is None) == ("cancelled", False)
    with pytest.raises(Refused):
        desk.command(Backfill("s", START, START + 80))


def a_doubt_of_the_second_attempt_whose_repeat_was_taken_back_leaves_the_first_as_it_was(desk: Desk) -> None:
    put(desk, cron=ONCE, on_doubt="relaunch", retry={**RETRY, "limit": 3})
    at(desk, 60)
    lid = only_flight(desk)
    desk.end(lid, EXITED)
    at(desk, 80)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [2], [True]))
    desk.command(CancelLaunch(NAME, "enough", "ann"))
    desk.commit(c.HandOversWithdrawn([lid], [2]))
    began = views.launch(desk.db, NAME)
    assert (began.state, began.attempt, began.started_at is None) == ("in_doubt", 2, False)
    with pytest.raises(Refused, match="it was not skipped"):
        desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))
    desk.command(ResolveLaunch(NAME, "failed", "", "ann"))
    assert views.launch(desk.db, NAME).started_at == began.started_at
    assert [each.started_at is None for each in views.attempts(desk.db, NAME)] == [False, True]


@pytest.mark.parametrize(("on_doubt", "state"), [("skip", "in_doubt"), ("relaunch", "retrying")])
def a_failure_of_before_a_loss_is_not_followed_by_an_attempt_that_may_have_been_made_in_it(
    desk: Desk, on_doubt: str, state: str
) -> None:
    put(desk, cron=ONCE, retry=RETRY, on_doubt=on_doubt)
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.Restored(desk.now_ms))
    (row,) = queries.orders(desk.db, [lid])
    desk.commit(*changes_of(Reports(ended=[(flight_of_row(row, 2), EXITED)]), _targets(), desk.now_ms))
    view = views.launch(desk.db, NAME)
    assert view.state == state
    if state == "in_doubt":
        assert "another attempt may have been made" in view.reason


def a_repeat_under_the_same_number_that_was_answered_was_not_skipped(desk: Desk) -> None:
    put(desk, cron=ONCE, on_doubt="relaunch", retry={**RETRY, "limit": 3})
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [1], [True]))
    (row,) = queries.orders(desk.db, [lid])
    desk.commit(*changes_of(Reports(ended=[(flight_of_row(row, 2), EXITED)]), _targets(), desk.now_ms))
    desk.command(CancelLaunch(NAME, "enough", "ann"))
    assert views.launch(desk.db, NAME).state == "in_doubt"
    with pytest.raises(Refused, match="it was not skipped"):
        desk.command(ResolveLaunch(NAME, "skipped", "", "ann"))


STOPPED = Outcome(
    Verdict.CANCELLED, "stopped by SIGTERM", exit_code=143, called_ms=DUE_MS + 3_100, ended_ms=DUE_MS + 8_100
)


def a_launch_in_doubt_that_is_cancelled_stays_in_doubt_and_tells_when_it_is_stopped(desk: Desk) -> None:
    lid = _doubt(desk)
    held = desk.db.execute("SELECT held_ms, ended_ms FROM launch WHERE lid = ?", (lid,)).fetchone()
    assert desk.command(CancelLaunch(NAME, "not wanted", "ann")) == lid
    view = views.launch(desk.db, NAME)
    assert view.state == "in_doubt"
    assert view.reason == (
        f"{UNKNOWN.reason}; it is stopped if the replica that was to call it tells that it runs (not wanted)"
    )
    assert desk.db.execute("SELECT cancel FROM launch WHERE lid = ?", (lid,)).fetchone() == ("not wanted",)
    assert desk.db.execute("SELECT held_ms, ended_ms FROM launch WHERE lid = ?", (lid,)).fetchone() == held
    asked = [(step.step, step.actor, step.note) for step in steps(desk.db, NAME) if step.actor]
    assert asked == [("cancelled", "ann", "not wanted")]
    seq = len(desk.records)
    entry = events.opened(desk.db, seq, codec.decode(desk.records[-1], seq))
    (event,) = events.told(desk.db, entry, entry.drafts)
    assert (event.kind, event.state, event.actor) == ("launch.cancelling", None, "ann")


def of_an_earlier_call_nobody_tells_that_it_is_stopped() -> None:
    reason = f"cancelled by hand; {EARLIER_CALL}"
    assert shown_reason(LaunchState.IN_DOUBT, reason, "not wanted") == (
        f"{reason}, and if it runs it is not stopped (not wanted)"
    )


def the_end_of_what_was_stopped_in_doubt_is_told_as_cancelled(desk: Desk) -> None:
    lid = _doubt(desk, retry=RETRY)
    desk.command(CancelLaunch(NAME, "not wanted", "ann"))
    desk.tell(lid, STOPPED)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.exit_code) == ("cancelled", 143)
    assert view.reason == "resolved: told by replica a: not wanted; stopped by SIGTERM"
    assert view.started_at is not None
    assert view.ended_at is not None
    assert view.started_at.timestamp() * 1000 == STOPPED.called_ms
    assert view.ended_at.timestamp() * 1000 == STOPPED.ended_ms


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(DONE, "succeeded"), (EXITED, "failed"), (REFUSED, "cancelled"), (NO_CALL, "cancelled")],
)
def what_had_ended_before_it_could_be_stopped_is_recorded_as_it_ended_and_is_not_tried_again(
    desk: Desk, outcome: Outcome, state: str
) -> None:
    lid = _doubt(desk, retry=RETRY)
    desk.command(CancelLaunch(NAME, "not wanted", "ann"))
    desk.tell(lid, outcome)
    at(desk, 200)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.attempt, view.exit_code) == (state, 1, outcome.exit_code)
    assert (view.started_at is None) == (outcome.called_ms is None)


def what_is_told_to_be_tried_again_is_not_if_it_was_cancelled_just_before(desk: Desk) -> None:
    lid = _doubt(desk, retry=RETRY)
    (row,) = queries.orders(desk.db, [lid])
    told = resolutions([(flight_of_row(row, 1), EXITED, "a")], {"null": NullTarget()}, desk.now_ms)
    desk.command(CancelLaunch(NAME, "not wanted", "ann"))
    assert desk.commit(*told) == [lid]
    at(desk, 200)
    view = views.launch(desk.db, NAME)
    assert (view.state, view.attempt, view.exit_code) == ("failed", 1, 3)
    assert "not tried again, because it was to be stopped" in view.reason


def a_launch_that_is_put_in_doubt_and_cancelled_in_one_entry_is_told_as_both(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    flight = desk.flights[only_flight(desk)]
    doubted = changes_of(Reports({}, [(flight, UNKNOWN)]), _targets(), desk.now_ms)
    desk.commit(*doubted, c.CancelRequested("s", START + 60, False, "not wanted", "ann"))
    seq = len(desk.records)
    entry = events.opened(desk.db, seq, codec.decode(desk.records[-1], seq))
    told = [event.kind for event in events.told(desk.db, entry, entry.drafts)]
    assert told == ["launch.in_doubt", "launch.cancelling"]


def a_launch_in_doubt_that_was_cancelled_can_be_called_again_by_hand(desk: Desk) -> None:
    lid = _doubt(desk)
    desk.command(CancelLaunch(NAME, "not wanted", "ann"))
    desk.command(ResolveLaunch(NAME, "relaunch", "", "ann"))
    desk.hand_over([lid])
    assert (desk.flights[lid].order.attempt, desk.flights[lid].cancel) == (2, None)


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "skipped"])
def what_a_person_has_judged_cannot_be_cancelled(desk: Desk, outcome: str) -> None:
    _doubt(desk)
    desk.command(ResolveLaunch(NAME, outcome, "", "ann"))  # type: ignore[arg-type]  # why: any word
    with pytest.raises(Refused, match=f"has ended as {outcome}"):
        desk.command(CancelLaunch(NAME))


@pytest.mark.parametrize(
    ("overlap", "state"),
    [("allow", "retrying"), ("queue", "failed"), ("forbid", "failed"), ("replace", "failed")],
)
def what_has_lost_its_place_to_another_launch_is_not_tried_again(
    desk: Desk, overlap: str, state: str
) -> None:
    lid = _doubt(desk, cron="@every 60s", overlap=overlap, retry=RETRY)
    at(desk, 60 + HELD_MS // 1000 + 60)
    assert set(desk.flights) - {lid}, "the place was released"
    desk.tell(lid, EXITED)
    view = views.launch(desk.db, NAME)
    assert view.state == state
    assert ("not tried again" in view.reason) == (state == "failed")
    seq = len(desk.records)
    entry = events.opened(desk.db, seq, codec.decode(desk.records[-1], seq))
    (event,) = events.told(desk.db, entry, entry.drafts)
    assert (event.kind, event.state, event.exit_code) == ("launch.resolved", state, 3)


@pytest.mark.parametrize(("overlap", "state"), [("queue", "retrying"), ("replace", "failed")])
def what_waits_in_line_behind_it_goes_on_waiting_unless_it_replaces_it(
    desk: Desk, overlap: str, state: str
) -> None:
    lid = _doubt(desk, cron="@every 60s", overlap=overlap, retry=RETRY)
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "queued"
    desk.tell(lid, EXITED)
    assert views.launch(desk.db, NAME).state == state
    at(desk, 140)
    assert set(desk.flights) == ({lid} if state == "retrying" else {lid + 1})


@pytest.mark.parametrize(
    ("called_ms", "ended_ms"),
    [(DUE_MS - 10**9, DUE_MS - 10**9), (DUE_MS + 10**9, DUE_MS + 10**9), (DUE_MS + 900, DUE_MS + 100)],
)
def a_wrong_clock_of_whoever_tells_does_not_record_an_end_before_the_call_or_after_the_entry(
    desk: Desk, called_ms: int, ended_ms: int
) -> None:
    desk.tell(_doubt(desk), Outcome(Verdict.SUCCEEDED, called_ms=called_ms, ended_ms=ended_ms))
    view = views.launch(desk.db, NAME)
    assert view.started_at is not None
    assert view.ended_at is not None
    assert DUE_MS <= view.started_at.timestamp() * 1000 <= view.ended_at.timestamp() * 1000 <= desk.now_ms


@pytest.mark.parametrize("verdict", [Verdict.SUCCEEDED, Verdict.FAILED, Verdict.CANCELLED])
def a_record_of_long_before_the_order_is_told_with_its_own_times(desk: Desk, verdict: Verdict) -> None:
    """The state was put back to before its start, the records of commands were not."""
    put(desk, cron=ONCE, missed="last")
    at(desk, 600)
    found = Outcome(verdict, "found", exit_code=0, called_ms=DUE_MS + 40, ended_ms=DUE_MS + 5_000)
    lid = only_flight(desk)
    desk.flights[lid].note_recorded_call(DUE_MS + 40)
    desk.end(lid, found)
    view = views.launch(desk.db, NAME)
    assert view.state == verdict.name.lower()
    assert view.started_at is not None
    assert view.ended_at is not None
    assert round(view.started_at.timestamp() * 1000) == found.called_ms
    assert round(view.ended_at.timestamp() * 1000) == found.ended_ms
