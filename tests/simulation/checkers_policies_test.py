"""Claims about the checkers: what is in order passes, what is broken is found. Policies, and the calm at the end."""

from __future__ import annotations

import msgspec
from tests.simulation.telling import T0, Telling, at_workshop, found, ordinary

from tocsin.model.command import LaunchNow, ResolveLaunch
from tocsin.model.schedule import Retry
from tocsin.simulation.history import History, MissedRow

SKIP = "missed: nothing was decided at that time, and the policy is 'skip'"
LAST = "missed: nothing was decided at that time, and the policy launches only the last one"
ALL = "missed: nothing was decided at that time, and 'all' launches at most 1000"


# Overlap


def two_launches_at_once_are_found_where_the_owner_forbids_it() -> None:
    for overlap in ("forbid", "queue", "replace"):
        telling = Telling(overlap=overlap)
        telling.launch(T0 + 60, lasts_s=70)
        telling.launch(T0 + 120)
        assert found(telling, "overlap") == [
            f"s-{T0 + 120} began on plain-steady while s-{T0 + 60} went on at plain-steady"
        ]


def two_launches_at_once_are_in_order_where_the_owner_allows_it() -> None:
    telling = Telling()
    telling.launch(T0 + 60, lasts_s=70)
    telling.launch(T0 + 120)
    assert found(telling, "overlap") == []


def a_launch_that_never_ends_is_in_the_way_of_the_next() -> None:
    telling = Telling(overlap="forbid")
    telling.launch(T0 + 60, lasts_s=None, answer="")
    telling.launch(T0 + 300)
    assert len(found(telling, "overlap")) == 1


def a_launch_in_doubt_may_still_go_on() -> None:
    telling = Telling(overlap="forbid")
    telling.mark(telling.launch(T0 + 60, lasts_s=70), state="in_doubt", reason="no answer in time")
    telling.launch(T0 + 120)
    assert found(telling, "overlap") == []


def a_call_that_was_cut_may_still_go_on_but_a_command_that_was_stopped_may_not() -> None:
    for receiver, findings in (("plain", 0), ("workshop", 1)):
        telling = Telling(overlap="replace")
        name = telling.launch(T0 + 60, lasts_s=70, receiver=receiver)
        telling.mark(name, state="cancelled", cancel=f"replaced by s-{T0 + 120}")
        telling.launch(T0 + 120, receiver=receiver)
        assert len(found(telling, "overlap")) == findings


def a_backfill_waits_for_everything_whatever_the_policy() -> None:
    telling = Telling()
    telling.launch(T0 + 120, lasts_s=70)
    name = telling.launch(T0 + 60, T0 + 130)
    assert found(telling, "overlap") == []
    telling.mark(name, is_backfill=True)
    assert len(found(telling, "overlap")) == 1


def what_falls_due_does_not_wait_for_a_backfill_where_the_owner_allows_overlaps() -> None:
    telling = Telling()
    telling.launch(T0 + 120, lasts_s=70)
    telling.mark(telling.launch(T0 + 60, T0 + 120), is_backfill=True)
    assert found(telling, "overlap") == []


def a_relaunch_by_hand_may_run_beside_another() -> None:
    telling = Telling(overlap="queue")
    telling.launch(T0 + 120, lasts_s=70)
    name = telling.launch(T0 + 60, T0 + 130)
    telling.asked(T0 + 129, ResolveLaunch(name, "relaunch"))
    assert found(telling, "overlap") == []


def an_older_launch_that_was_not_told_to_stop_is_found() -> None:
    telling = at_workshop(overlap="replace")
    older = telling.launch(T0 + 360, lasts_s=100, receiver="workshop")
    telling.launch(T0 + 420, T0 + 461, receiver="workshop")
    assert found(telling, "overlap") == [f"{older} was not told to stop when s-{T0 + 420} was to replace it"]
    telling.mark(older, cancel=f"replaced by s-{T0 + 420}")
    assert found(telling, "overlap") == []


# Deadlines


def a_start_behind_its_deadline_is_found() -> None:
    telling = Telling(deadline="10s")
    telling.launch(T0 + 60, T0 + 70)
    assert found(telling, "deadline") == []
    telling.launch(T0 + 120, T0 + 130.001)
    assert found(telling, "deadline") == [f"s-{T0 + 120} was started 10001 ms late; its deadline is 10000 ms"]


def a_deadline_is_counted_from_the_moment_that_jitter_planned() -> None:
    telling = Telling(deadline="10s", jitter="30s")
    name = telling.launch(T0 + 60, T0 + 99)
    telling.mark(name, planned_ms=(T0 + 90) * 1000)
    assert found(telling, "deadline") == []
    telling.mark(name, planned_ms=(T0 + 80) * 1000)
    assert len(found(telling, "deadline")) == 2, "by the record, and by the call"


def a_skip_as_too_late_of_what_was_not_is_found() -> None:
    telling = Telling(deadline="10s")
    name = telling.row(T0 + 60, "skipped", reason="deadline: too late", ended_ms=(T0 + 70) * 1000)
    assert found(telling, "deadline") == [f"{name} was skipped as too late when it was 10000 ms late"]
    telling.mark(name, ended_ms=(T0 + 70) * 1000 + 1)
    assert found(telling, "deadline") == []


def a_call_in_a_term_that_has_not_believed_its_clock_is_found() -> None:
    telling = Telling()
    name = telling.launch(T0 + 60)
    telling.call(name, T0 + 60, is_timed=False)
    telling.call(f"s-{T0 + 61}-manual", T0 + 61, is_timed=False)
    assert found(telling, "believed clock") == [
        f"{name} was called by a in term 1, which has not believed its clock"
    ]


def a_backfill_and_a_run_now_have_no_deadline() -> None:
    telling = Telling(deadline="10s")
    telling.mark(telling.launch(T0 + 60, T0 + 200), is_backfill=True)
    assert found(telling, "deadline") == []


def what_waited_is_judged_by_the_version_that_is_in_force_when_its_turn_comes() -> None:
    telling = Telling(deadline="10s", overlap="queue")
    name = telling.start(T0 + 60, T0 + 100)
    telling.put(at_s=T0 + 90, overlap="queue", deadline="1m")
    telling.mark(name, version=1)
    assert found(telling, "deadline") == []


# Retry


def retried(waited_s: float, attempts: int = 2, **policies: object) -> tuple[Telling, str]:
    """Every attempt but the last one fails at once."""
    telling = Telling(**policies)
    name = telling.start(T0 + 60)
    at_s, failed = float(T0 + 60), []
    for attempt in range(1, attempts):
        call = telling.call(name, at_s, attempt=attempt, answer="failed", lasts_s=0.0)
        failed.append((attempt, int(call.ended_ms or 0) + 2, "status 500"))
        at_s += waited_s
    telling.call(name, at_s, attempt=attempts)
    telling.mark(name, state="succeeded", attempt=attempts, failed_attempts=tuple(failed))
    return telling, name


def a_retry_before_its_wait_is_over_is_found() -> None:
    assert found(retried(5.0, retry=Retry(limit=1, backoff="5s"))[0], "retry") == []
    telling, name = retried(4.0, retry=Retry(limit=1, backoff="5s"))
    assert found(telling, "retry") == [
        f"attempt 2 of {name} was made 3998 ms after attempt 1 had failed; it was to wait 5000 ms"
    ]


def the_wait_doubles_up_to_its_maximum() -> None:
    assert len(found(retried(5.0, 3, retry=Retry(limit=2, backoff="5s"))[0], "retry")) == 1
    assert found(retried(5.0, 3, retry=Retry(limit=2, backoff="5s", max_backoff="5s"))[0], "retry") == []
    assert found(retried(10.0, 3, retry=Retry(limit=2, backoff="5s"))[0], "retry") == []


def an_attempt_too_many_is_found() -> None:
    telling, name = retried(5.0, 3, retry=Retry(limit=1, backoff="1s"))
    assert found(telling, "retry") == [f"{name} was tried 3 times; 2 are allowed"]
    telling.asked(T0 + 64, ResolveLaunch(name, "relaunch"))
    assert found(telling, "retry") == []


def a_retry_without_a_policy_is_found() -> None:
    assert len(found(retried(5.0)[0], "retry")) == 1
    assert found(retried(5.0, on_doubt="relaunch")[0], "retry") == []


def a_count_that_a_new_leader_begins_anew_is_found() -> None:
    telling, name = retried(5.0, retry=Retry(limit=2, backoff="1s"))
    telling.call(name, T0 + 80, attempt=1, by="b", term=2)
    assert found(telling, "retry") == [f"attempt 1 of {name} was made after attempt 2"]


def an_attempt_that_was_held_up_until_after_the_next_one_says_nothing_about_the_wait() -> None:
    telling, name = retried(5.0, on_doubt="relaunch")
    first = telling.history.calls[0]
    first.sent_ms, first.at_ms, first.ended_ms = ((T0 + 90) * 1000.0 + after for after in (0, 1, 2))
    telling.mark(name, failed_attempts=((1, (T0 + 61) * 1000, "outcome unknown, to be called again"),))
    for call in telling.history.calls:
        call.term = call.attempt
    assert found(telling, "retry") == []


def a_call_of_a_former_leader_that_was_held_up_is_no_retry() -> None:
    telling, name = retried(5.0, retry=Retry(limit=2, backoff="1s"))
    for call in telling.history.calls:
        call.term = 2
    telling.call(name, T0 + 80, attempt=1, by="b", term=1)
    assert found(telling, "retry") == []


# Missed


def away(missed: str, *made_up: tuple[int, float], **policies: object) -> Telling:
    """Nobody is in office from 3:10 to 6:30, and these are made up for: which, and when."""
    telling = Telling(missed=missed, **policies)
    telling.launches(1, 3)
    for minute, at_s in made_up:
        telling.launch(T0 + 60 * minute, T0 + at_s)
    telling.launches(7, 9)
    telling.absences.append(((T0 + 190) * 1000, (T0 + 390) * 1000))
    return telling


def _give_up(telling: Telling, from_minute: int, before_s: int, reason: str) -> Telling:
    telling.missed.append(MissedRow("s", 1, T0 + 60 * from_minute, T0 + before_s, (T0 + 390) * 1000, reason))
    return telling


def what_was_missed_is_not_launched_under_skip() -> None:
    assert found(_give_up(away("skip"), 4, 361, SKIP), "missed") == []
    assert len(found(away("skip", (6, 390.0)), "missed")) == 1


def only_the_last_of_what_was_missed_is_launched_under_last() -> None:
    assert found(_give_up(away("last", (6, 390.0)), 4, 360, LAST), "missed") == []
    assert len(found(away("last", (5, 390.0), (6, 390.0)), "missed")) == 1
    assert found(away("last", (5, 390.0)), "missed") == [
        f"s-{T0 + 300} was made up for after the absence from {(T0 + 190) * 1000} to {(T0 + 390) * 1000}, "
        f"and {T0 + 360} would have been the last"
    ]


def all_of_what_was_missed_is_launched_in_order_under_all() -> None:
    assert found(away("all", (4, 390.0), (5, 390.0), (6, 390.0)), "missed") == []
    assert len(found(away("all", (4, 392.0), (5, 391.0), (6, 393.0)), "missed")) == 1
    assert len(found(_give_up(away("all", (6, 390.0)), 4, 360, ALL), "missed")) == 1


def catching_up_faster_than_its_spread_is_found() -> None:
    spread = {"catch_up_spread": "200s"}
    assert found(away("all", (4, 440.0), (5, 500.0), (6, 560.0), **spread), "missed") == []
    assert len(found(away("all", (4, 440.0), (5, 499.0), (6, 560.0), **spread), "missed")) == 1


def what_is_given_up_as_missed_without_an_absence_is_found() -> None:
    telling = _give_up(away("skip"), 4, 361, SKIP)
    telling.absences.clear()
    assert len(found(telling, "missed")) == 1
    telling.missed[0] = msgspec.structs.replace(telling.missed[0], reason="missed: the record was lost")
    assert len(found(telling, "missed")) == 1
    telling.lost(T0 + 380, T0 + 100, after=2)
    assert found(telling, "missed") == []


def a_single_occurrence_that_is_skipped_as_missed_needs_an_absence_and_the_policy() -> None:
    telling = away("skip")
    telling.row(T0 + 240, "skipped", reason=SKIP, ended_ms=(T0 + 390) * 1000)
    assert found(telling, "missed") == []
    telling.absences.clear()
    assert len(found(telling, "missed")) == 1
    telling = away("last")
    telling.row(T0 + 240, "skipped", reason=SKIP, ended_ms=(T0 + 390) * 1000)
    assert len(found(telling, "missed")) == 1


def what_is_kept_under_last_is_the_last() -> None:
    assert len(found(_give_up(away("last"), 4, 300, LAST), "missed")) == 1


# The calm


def _with_finals(history: History, **facts: object) -> History:
    history.finals["b"] = msgspec.structs.replace(history.finals["b"], **facts)
    return history


def replicas_that_do_not_agree_who_leads_are_found() -> None:
    assert found(_with_finals(ordinary().told(), leader=""), "calm") == [
        "it is not clear who leads in the end: a says a, b says nobody, c says a"
    ]


def a_replica_that_is_not_there_in_the_end_is_found() -> None:
    history = ordinary().told()
    del history.finals["c"]
    assert found(history, "calm") == ["c is not there in the end"]


def a_replica_that_is_behind_in_the_end_is_found() -> None:
    assert found(_with_finals(ordinary().told(), seq=5), "calm") == [
        "b has applied 5 entries in the end, of 11"
    ]


def an_entry_of_the_last_moment_need_not_have_reached_everybody() -> None:
    telling = ordinary()
    telling.entry(T0 + 589)
    assert found(_with_finals(telling.told(), seq=11), "calm") == []


def what_is_overdue_in_the_end_is_found() -> None:
    telling = ordinary()
    telling.due["s"] = (T0 + 570, (T0 + 570) * 1000)
    assert found(telling, "calm") == [f"s at {T0 + 570} has been due for 20 s"]


def a_late_start_in_the_calm_is_found_and_an_earlier_one_is_not() -> None:
    telling = Telling()
    telling.launch(T0 + 60, T0 + 66)
    telling.launch(T0 + 360, T0 + 362)
    assert found(telling, "calm") == []
    telling.launch(T0 + 420, T0 + 422.1)
    assert found(telling, "calm") == [f"s-{T0 + 420} was started 2100 ms late although nothing was broken"]


def a_launch_whose_call_ended_long_ago_and_that_is_still_open_is_found() -> None:
    telling = ordinary()
    telling.mark(f"s-{T0 + 60}", state="running", ended_ms=None)
    assert found(telling, "calm") == [f"s-{T0 + 60} is still running: its call ended long ago"]


def a_launch_that_goes_on_in_truth_may_be_open() -> None:
    telling = at_workshop()
    telling.launches(1, 9, receiver="workshop", lasts_s=None, answer="")
    assert found(telling, "calm") == []


def a_launch_that_was_started_and_never_called_is_found() -> None:
    telling = ordinary()
    del telling.history.calls[0]
    telling.mark(f"s-{T0 + 60}", state="started", ended_ms=None)
    assert found(telling, "calm") == [f"s-{T0 + 60} is still started: no call of it was ever made"]


def a_retry_and_a_launch_in_line_that_nothing_holds_up_are_found() -> None:
    telling = ordinary()
    failed = ((1, (T0 + 61) * 1000, "status 500"),)
    telling.mark(f"s-{T0 + 60}", state="retrying", reason="status 500", failed_attempts=failed)
    assert len(found(telling, "calm")) == 1
    telling = at_workshop(overlap="queue")
    telling.row(T0 + 60, "queued", reason="waits")
    assert found(telling, "calm") == [f"s-{T0 + 60} is still queued: nothing else of its schedule is open"]
    telling.launch(T0 + 120, receiver="workshop", lasts_s=None, answer="")
    assert found(telling, "calm") == []


def whoever_asks_in_the_calm_is_answered() -> None:
    telling = ordinary()
    telling.asked(T0 + 100, LaunchNow("s"), "nobody")
    telling.asked(T0 + 100, LaunchNow("s"), "uncertain")
    assert found(telling, "calm") == []
    telling.asked(T0 + 400, LaunchNow("s"), "nobody")
    telling.asked(T0 + 400, LaunchNow("s"), "")
    assert len(found(telling, "calm")) == 2
