"""What may have been called stays in doubt until somebody knows; and while it may still run, it keeps its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.errors import Refused
from tocsin.model import change as c
from tocsin.model.command import Backfill, CancelLaunch, DeleteSchedule, LaunchNow, ResolveLaunch
from tocsin.model.launch import HELD_MS, LaunchState
from tocsin.model.schedule import Retry
from tocsin.replica import outcomes
from tocsin.replica.launcher import _order_of
from tocsin.state import counts, minutes, queries, views
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

UNKNOWN = Outcome(Verdict.UNKNOWN, "no answer")
REFUSED = Outcome(Verdict.NOT_STARTED, "connection refused")
HELD_S = HELD_MS // 1000
ONCE = "@at 2023-11-14T22:14:20Z"


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk(START)) as made:
        yield made


def _doubt(desk: Desk, **fields: object) -> None:
    """A schedule of every minute, the first launch of which is in doubt."""
    put(desk, **fields)
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    assert desk.states_of("s") == {START + 60: "in_doubt"}


def _resolve(desk: Desk, outcome: str = "relaunch") -> int:
    lid: int = desk.command(ResolveLaunch(f"s-{START + 60}", outcome, "", "ann"))  # type: ignore[arg-type]  # why: any word
    desk.hand_over([lid])
    return lid


# It stays doubt


def nobody_is_asked_about_a_call_whose_maker_does_not_know_its_end(desk: Desk) -> None:
    _doubt(desk, cron=ONCE)
    assert queries.doubted_since(desk.db, 0, 10) == []


@pytest.mark.parametrize("is_called", [True, False])
def what_is_in_doubt_has_a_start_only_if_its_call_is_known(desk: Desk, is_called: bool) -> None:
    """It may have waited for a free place until its leader was killed."""
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    if is_called:
        desk.flights[lid].note_call(desk.now_ms + 2)
    desk.now_ms += 7_000
    desk.end(lid, UNKNOWN)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.started_at is not None) == ("in_doubt", is_called)
    assert (view.lateness_ms is not None) == is_called


def what_was_accepted_before_it_was_in_doubt_was_started(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    desk.commit(c.LaunchesAccepted([lid], [1], None))
    desk.take_office()
    desk.end(lid, UNKNOWN)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.started_at is not None) == ("in_doubt", True)


def the_start_of_a_launch_that_was_in_doubt_does_not_move_with_its_further_attempts(desk: Desk) -> None:
    _doubt(desk, cron=ONCE, retry=Retry(limit=5, backoff="2s"))
    desk.now_ms += 25_000
    lid = _resolve(desk, "relaunch")
    again_ms = desk.now_ms
    for _ in range(3):
        desk.now_ms += 1_000
        desk.end(lid, FAILED)
        desk.now_ms += 60_000
        desk.turn()
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.attempt, view.started_at) == (5, datetime.fromtimestamp(again_ms / 1000, UTC))
    desk.end(lid, UNKNOWN)
    _resolve(desk, "failed")
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.started_at) == ("failed", datetime.fromtimestamp(again_ms / 1000, UTC))


def what_was_cancelled_before_its_call_was_not_started(desk: Desk) -> None:
    """It waited for a free place. Its place in the count of starts goes too."""
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    desk.command(CancelLaunch(f"s-{START + 60}", "not wanted", "ann"))
    desk.withdraw(lid)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.reason, view.attempt) == ("cancelled", "not wanted", 0)
    assert (view.started_at, view.lateness_ms) == (None, None)
    minute_ms = desk.now_ms // 60_000 * 60_000
    counted = minutes.activity(desk.db, minute_ms, minute_ms + 60_000, 60_000).totals
    assert (counted.started, counted.cancelled, counted.lateness_max_ms) == (0, 1, None)


def what_was_cancelled_before_its_call_can_be_backfilled(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    desk.command(CancelLaunch(f"s-{START + 60}", "not wanted", "ann"))
    desk.withdraw(lid)
    assert desk.command(Backfill("s", START, START + 61)) == 1
    desk.turns()
    assert desk.flights[lid].order.attempt == 1


@pytest.mark.parametrize("is_called", [True, False])
def what_was_begun_again_and_is_in_doubt_has_a_start_only_if_its_call_is_known(
    desk: Desk, is_called: bool
) -> None:
    """The majority was lost while it waited for a free place, and it waited again when its leader was killed."""
    put(desk, cron=ONCE)
    at(desk, 60)
    desk.withdraw(only_flight(desk))
    desk.now_ms += 5_000
    desk.turns()
    lid = only_flight(desk)
    if is_called:
        desk.flights[lid].note_call(desk.now_ms + 2)
    desk.now_ms += 5_000
    desk.end(lid, UNKNOWN)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.attempt, view.started_at is not None) == ("in_doubt", 1, is_called)


def what_was_begun_again_was_started_then(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    desk.withdraw(only_flight(desk))
    desk.now_ms += 5_000
    desk.turns()
    desk.end(only_flight(desk), SUCCEEDED)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.lateness_ms) == ("succeeded", 5_000)


def a_further_attempt_that_was_cancelled_before_its_call_is_none(desk: Desk) -> None:
    put(desk, cron=ONCE, retry=Retry(limit=5, backoff="2s"))
    at(desk, 60)
    lid = only_flight(desk)
    desk.end(lid, FAILED)
    at(desk, 70)
    assert desk.flights[lid].order.attempt == 2
    desk.command(CancelLaunch(f"s-{START + 60}", "not wanted", "ann"))
    desk.withdraw(lid)
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.attempt) == ("cancelled", 1)
    assert view.started_at == datetime.fromtimestamp(START + 60, UTC)


@pytest.mark.parametrize("reason", ["resolved on the phone", "Resolved: never mind"])
def a_start_does_not_depend_on_the_words_of_a_cancellation(desk: Desk, reason: str) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    desk.command(CancelLaunch(f"s-{START + 60}", reason, "ann"))
    desk.end(only_flight(desk), Outcome(Verdict.CANCELLED))
    (view,) = views.launches(desk.db, limit=10).items
    assert (view.state, view.reason) == ("cancelled", reason)
    assert view.started_at == datetime.fromtimestamp(START + 60, UTC)


@pytest.mark.parametrize("outcome", ["failed", "succeeded", "relaunch"])
def what_left_doubt_has_no_start_but_that_of_a_call_that_is_known(desk: Desk, outcome: str) -> None:
    _doubt(desk, cron=ONCE)
    desk.now_ms += 25_000
    lid = _resolve(desk, outcome)
    again_ms = desk.now_ms
    if outcome == "relaunch":
        desk.now_ms += 1_000
        desk.end(lid, SUCCEEDED)
    (view,) = views.launches(desk.db, limit=10).items
    started_ms = None if view.started_at is None else round(view.started_at.timestamp() * 1000)
    assert started_ms == (again_ms if outcome == "relaunch" else None)
    for attempt in views.attempts(desk.db, view.name):
        assert attempt.started_at is None


def a_later_leader_that_got_no_answer_goes_on_asking(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    desk.take_office()
    lid = only_flight(desk)
    desk.end(lid, UNKNOWN)
    assert queries.doubted_since(desk.db, 0, 10) == [lid]


def a_repeat_that_did_not_go_out_does_not_end_the_doubt_about_the_first_call(desk: Desk) -> None:
    put(desk, cron=ONCE, on_doubt="relaunch", retry={"limit": 1, "backoff": "1s", "jitter": 0})
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    at(desk, 70)
    desk.end(only_flight(desk), REFUSED)
    assert desk.states_of("s") == {START + 60: "in_doubt"}


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.CANCELLED])
def a_repeat_that_failed_or_was_stopped_does_not_end_the_doubt_about_the_first_call(
    desk: Desk, verdict: Verdict
) -> None:
    _doubt(desk, cron=ONCE)
    lid = _resolve(desk)
    desk.end(lid, Outcome(verdict, "over"))
    assert desk.states_of("s") == {START + 60: "in_doubt"}
    _resolve(desk, "succeeded")


def a_repeat_that_failed_ends_the_doubt_where_the_receiver_knows_repeats(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "recognises", lambda *_: True)
    put(desk, cron=ONCE, retry={"limit": 1, "backoff": "1s", "jitter": 0})
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    at(desk, 70)
    desk.end(only_flight(desk), Outcome(Verdict.FAILED, "over"))
    assert desk.states_of("s") == {START + 60: "failed"}


def a_doubtful_repeat_that_is_withdrawn_is_still_doubtful(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [1], [True]))
    desk.commit(c.HandOversWithdrawn([lid], [1]))
    at(desk, 61)
    assert desk.flights[lid].doubted
    desk.end(lid, REFUSED)
    assert desk.states_of("s") == {START + 60: "in_doubt"}


def what_may_have_been_called_is_not_launched_after_the_fact(desk: Desk) -> None:
    put(desk, cron=ONCE)
    at(desk, 60)
    lid = only_flight(desk)
    desk.take_office()
    desk.commit(c.AttemptsStarted([lid], [1], [True]))
    desk.commit(c.LaunchesEnded([lid], [1], [12], ["told so"], [desk.now_ms], [None]))
    at(desk, 120)
    with pytest.raises(Refused):
        desk.command(Backfill("s", START, START + 100))


def what_a_person_says_was_skipped_can_be_launched_after_the_fact(desk: Desk) -> None:
    _doubt(desk, cron=ONCE)
    at(desk, 120)
    _resolve(desk, "skipped")
    assert desk.command(Backfill("s", START, START + 100)) == 1


def a_relaunch_that_is_refused_does_not_end_the_doubt_about_the_first_call(desk: Desk) -> None:
    _doubt(desk, cron=ONCE)
    desk.end(_resolve(desk), REFUSED)
    assert desk.states_of("s") == {START + 60: "in_doubt"}
    desk.end(_resolve(desk), SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "succeeded"}


def a_relaunch_that_is_refused_is_tried_again_as_its_owner_says(desk: Desk) -> None:
    _doubt(desk, cron=ONCE, retry={"limit": 3, "backoff": "1s", "jitter": 0})
    lid = _resolve(desk)
    assert not _order_of(desk.flights[lid]).is_repeat, (
        "a person wants it, whether or not its receiver recognises it"
    )
    desk.end(lid, REFUSED)
    assert desk.states_of("s") == {START + 60: "retrying"}
    at(desk, 100)
    desk.end(only_flight(desk), UNKNOWN)
    assert desk.states_of("s") == {START + 60: "in_doubt"}


def a_relaunch_that_waits_is_in_doubt_when_its_schedule_goes(desk: Desk) -> None:
    lid = _relaunch_that_waits(desk)
    desk.command(DeleteSchedule("s"))
    at(desk, 121)
    assert desk.db.execute("SELECT state, reason FROM launch WHERE lid = ?", (lid,)).fetchone() == (
        int(LaunchState.IN_DOUBT),
        "the schedule was deleted while this launch waited; attempt 1 may have been made before",
    )


def a_relaunch_that_waits_is_in_doubt_when_its_schedule_is_made_anew(desk: Desk) -> None:
    """And is not launched after the fact."""
    _relaunch_that_waits(desk)
    desk.command(DeleteSchedule("s"))
    put(desk, overlap="queue")
    assert desk.states_of("s")[START + 60] == "in_doubt"
    at(desk, 130)
    with pytest.raises(Refused):
        desk.command(Backfill("s", START, START + 100))


def a_relaunch_that_waits_is_in_doubt_when_it_is_cancelled(desk: Desk) -> None:
    _relaunch_that_waits(desk)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    assert desk.states_of("s")[START + 60] == "in_doubt"
    assert _resolve(desk, "succeeded")


def a_repeat_that_waits_is_in_doubt_when_it_is_cancelled(desk: Desk) -> None:
    put(desk, cron=ONCE, on_doubt="relaunch", overlap="forbid")
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    assert desk.states_of("s") == {START + 60: "retrying"}
    desk.command(CancelLaunch(f"s-{START + 60}"))
    assert desk.states_of("s") == {START + 60: "in_doubt"}
    with pytest.raises(Refused, match="in doubt"):
        desk.command(LaunchNow("s"))


def a_repeat_that_is_cancelled_keeps_its_place_for_its_timeout(desk: Desk) -> None:
    put(desk, cron=ONCE, on_doubt="relaunch", timeout="5s")
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    assert queries.held(desk.db, desk.now_ms) == [(1, desk.now_ms + 5_000)]


def _relaunch_that_waits(desk: Desk) -> int:
    """Behind another launch of its schedule."""
    put(desk, overlap="allow")
    at(desk, 60)
    desk.end(only_flight(desk), UNKNOWN)
    at(desk, 120)
    put(desk, overlap="queue")
    lid = _resolve(desk)
    assert desk.states_of("s")[START + 60] == "queued"
    return lid


# It keeps its place


def under_forbid_nothing_starts_while_one_is_in_doubt(desk: Desk) -> None:
    _doubt(desk, overlap="forbid")
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "skipped"
    with pytest.raises(Refused, match="in doubt"):
        desk.command(LaunchNow("s"))


def under_allow_the_next_one_starts(desk: Desk) -> None:
    _doubt(desk)
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "started"


@pytest.mark.parametrize("overlap", ["queue", "replace"])
def under_queue_and_replace_the_next_one_waits_for_the_doubt(desk: Desk, overlap: str) -> None:
    _doubt(desk, overlap=overlap)
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "queued"
    assert desk.cancelled == set(), "nobody knows what there would be to stop"
    _resolve(desk, "succeeded")
    at(desk, 121)
    assert desk.states_of("s")[START + 120] == "started"


@pytest.mark.parametrize(("timeout", "held_s"), [(None, HELD_S), ("90s", 90)])
def the_place_is_released_after_a_while_and_the_status_says_so(
    desk: Desk, timeout: str | None, held_s: int
) -> None:
    _doubt(desk, cron="@every 60s", overlap="forbid", timeout=timeout)
    at(desk, 60 + held_s - 1)
    assert not desk.flights
    assert counts.counts(desk.db, desk.now_ms).released == 0
    at(desk, 60 + held_s + 60)
    assert desk.flights
    assert counts.counts(desk.db, desk.now_ms).released == 1
    _resolve(desk, "succeeded")
    assert counts.counts(desk.db, desk.now_ms).released == 0


def resolving_releases_the_place_at_once(desk: Desk) -> None:
    _doubt(desk, overlap="forbid")
    _resolve(desk, "failed")
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "started"


# Called again by a person


def relaunched_under_queue_it_waits_for_what_is_open(desk: Desk) -> None:
    _doubt(desk, overlap="queue", timeout="30s", deadline="45s")
    at(desk, 120)
    second = only_flight(desk)
    _resolve(desk)
    assert desk.states_of("s") == {START + 60: "queued", START + 120: "started"}
    at(desk, 200)
    desk.end(second, SUCCEEDED)
    at(desk, 201)
    states = desk.states_of("s")
    assert states[START + 60] == "started", "its first call was in time, so there is no deadline for this one"
    assert desk.flights[only_flight(desk)].order.attempt == 2


def relaunched_under_queue_it_goes_before_what_waits_for_it(desk: Desk) -> None:
    _doubt(desk, overlap="queue")
    at(desk, 120)
    assert desk.states_of("s")[START + 120] == "queued", "behind the one in doubt"
    lid = _resolve(desk)
    assert desk.states_of("s") == {START + 60: "started", START + 120: "queued"}
    desk.end(lid, SUCCEEDED)
    at(desk, 121)
    assert desk.states_of("s") == {START + 60: "succeeded", START + 120: "started"}


def why_it_was_in_doubt_is_not_overwritten_by_a_repeat_that_was_taken_back(desk: Desk) -> None:
    _doubt(desk, cron=ONCE)
    lid = _resolve(desk)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    desk.commit(c.HandOversWithdrawn([lid], [2]))
    assert desk.states_of("s") == {START + 60: "in_doubt"}
    desk.now_ms += 5_000
    _resolve(desk)
    rows = desk.db.execute("SELECT attempt, reason FROM attempt WHERE lid = ?", (lid,)).fetchall()
    assert rows == [(1, "in doubt: no answer")]


def relaunched_under_replace_it_stops_what_is_open(desk: Desk) -> None:
    _doubt(desk, overlap="replace", timeout="30s")
    at(desk, 120)
    second = only_flight(desk)
    _resolve(desk)
    assert desk.states_of("s") == {START + 60: "queued", START + 120: "started"}
    assert [lid for lid, _ in queries.to_be_cancelled(desk.db)] == [second]
    desk.end(second, Outcome(Verdict.CANCELLED))
    at(desk, 121)
    assert desk.states_of("s") == {START + 60: "started", START + 120: "cancelled"}


def relaunched_under_forbid_it_is_refused_while_another_is_open(desk: Desk) -> None:
    _doubt(desk, overlap="forbid", timeout="30s")
    at(desk, 120)
    with pytest.raises(Refused, match="open"):
        _resolve(desk)
    desk.end(only_flight(desk), FAILED)
    _resolve(desk)
    assert desk.states_of("s")[START + 60] == "started"


def its_own_doubt_is_not_in_the_way_of_a_relaunch(desk: Desk) -> None:
    for number, overlap in enumerate(("forbid", "queue", "replace")):
        put(desk, id=f"o{number}", cron=ONCE, overlap=overlap)
    at(desk, 60)
    for lid in list(desk.flights):
        desk.end(lid, UNKNOWN)
    for number in range(3):
        desk.command(ResolveLaunch(f"o{number}-{START + 60}", "relaunch", "", "ann"))
        assert desk.states_of(f"o{number}") == {START + 60: "started"}
