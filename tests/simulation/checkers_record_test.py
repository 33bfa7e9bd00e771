"""Claims about the checkers: what is in order passes, what is broken is found. What is promised and recorded."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from tests.simulation.telling import T0, Telling, at_workshop, found, ordinary

from tocsin.model import change as c
from tocsin.model.command import CancelLaunch, ResolveLaunch
from tocsin.model.schedule import Retry
from tocsin.model.target import HttpTarget
from tocsin.simulation.history import MissedRow

NOBODY = "missed: nothing was decided at that time, and the policy is 'skip'"


def stretch(from_s: int, before_s: int, reason: str = NOBODY, id: str = "s") -> MissedRow:
    return MissedRow(id, 1, from_s, before_s, before_s * 1000, reason)


# At least once


def a_success_that_was_never_done_is_found_where_it_may_be_called_again() -> None:
    telling = ordinary(on_doubt="relaunch")
    telling.history.calls[0].had_effect = False
    assert found(telling, "at least once") == [f"s-{T0 + 60} is recorded as succeeded and was never done"]


def a_doubt_before_all_attempts_were_made_is_found_where_it_may_be_called_again() -> None:
    for retry, last in ((None, 8), (Retry(limit=2), 2)):
        telling = ordinary(on_doubt="relaunch", retry=retry)
        telling.mark(f"s-{T0 + 60}", state="in_doubt", reason="no answer in time", attempt=last)
        assert len(found(telling, "at least once")) == 1
        telling.mark(f"s-{T0 + 60}", attempt=last + 1)
        assert found(telling, "at least once") == []


def a_doubt_is_final_where_it_must_not_be_called_again_or_is_to_be_stopped() -> None:
    telling = ordinary()
    telling.mark(f"s-{T0 + 60}", state="in_doubt", reason="no answer in time")
    assert found(telling, "at least once") == []
    telling = ordinary(on_doubt="relaunch")
    telling.mark(f"s-{T0 + 60}", state="in_doubt", reason="no answer in time", cancel="by hand")
    assert found(telling, "at least once") == []


# Nothing lost


def an_occurrence_without_any_record_is_found() -> None:
    telling = ordinary()
    del telling.rows[f"s-{T0 + 120}"]
    assert found(telling, "nothing lost") == [
        f"s: nothing is recorded of its occurrence at {T0 + 120} (version 1)"
    ]


def an_occurrence_within_a_missed_stretch_is_accounted_for() -> None:
    telling = ordinary()
    del telling.rows[f"s-{T0 + 120}"], telling.rows[f"s-{T0 + 180}"]
    telling.missed.append(stretch(T0 + 120, T0 + 181))
    assert found(telling, "nothing lost") == []
    telling.missed[0] = stretch(T0 + 120, T0 + 180)
    assert len(found(telling, "nothing lost")) == 1


def an_occurrence_behind_what_is_due_is_still_to_come() -> None:
    telling = ordinary()
    del telling.rows[f"s-{T0 + 480}"], telling.rows[f"s-{T0 + 540}"]
    telling.due["s"] = (T0 + 480, (T0 + 480) * 1000)
    assert found(telling, "nothing lost") == []


def a_launch_by_hand_does_not_account_for_an_occurrence() -> None:
    telling = ordinary()
    del telling.rows[f"s-{T0 + 120}"]
    telling.row(T0 + 120, "succeeded", manual=True)
    assert len(found(telling, "nothing lost")) == 1


def a_schedule_that_goes_on_and_has_nothing_to_come_is_found() -> None:
    telling = ordinary()
    telling.told()
    del telling.due["s"]
    history = telling.history
    history.finals = {name: msgspec.structs.replace(final, due={}) for name, final in history.finals.items()}
    assert found(history, "nothing lost") == [
        f"s: the record says that nothing is to come, but {T0 + 600} is"
    ]


def a_paused_version_promises_nothing() -> None:
    telling = Telling()
    telling.launches(1, 3)
    telling.put(at_s=T0 + 200, enabled=False)
    telling.put(at_s=T0 + 400)
    telling.launches(7, 9)
    assert found(telling, "nothing lost") == []


def an_edit_that_drops_the_second_in_which_it_was_made_is_found() -> None:
    telling = Telling()
    telling.launches(1, 2)
    telling.put(at_s=T0 + 180.4, cron="30 * * * * *")
    for minute in range(3, 10):
        telling.launch(T0 + 60 * minute + 30)
    telling.due["s"] = (T0 + 630, (T0 + 630) * 1000)
    assert found(telling, "nothing lost") == [
        f"s: nothing is recorded of its occurrence at {T0 + 180} (version 1)"
    ]
    telling.row(T0 + 180, "skipped", reason="the schedule was edited before it could be launched", version=1)
    assert found(telling, "nothing lost") == []


def nothing_is_promised_before_the_start_and_after_the_end() -> None:
    start, end = (datetime.fromtimestamp(T0 + after, UTC) for after in (120, 240))
    telling = Telling(start=start, end=end)
    telling.launches(2, 4)
    history = telling.told()
    history.finals = {name: msgspec.structs.replace(final, due={}) for name, final in history.finals.items()}
    assert found(history, "nothing lost") == []
    del telling.rows[f"s-{T0 + 240}"]
    assert len(found(telling, "nothing lost")) == 1


def what_was_forgotten_had_been_recorded() -> None:
    telling = ordinary()
    del telling.rows[f"s-{T0 + 60}"]
    telling.entry(T0 + 580, c.HistoryForgotten([1], 0))
    assert found(telling, "nothing lost") == []


def _deleted(name: str, kept_each: int, **fields: object) -> list[str]:
    """What is found when that one of five launches was deleted."""
    telling = ordinary()
    telling.rows[name] = msgspec.structs.replace(telling.rows[name], **fields)
    history = telling.told()
    history.kept_each = kept_each
    history.finals = {
        replica: msgspec.structs.replace(final, deleted=[name]) for replica, final in history.finals.items()
    }
    return found(history, "kept")


def a_launch_that_was_deleted_although_it_is_to_be_kept_is_found() -> None:
    oldest = min(ordinary().rows)
    newer = len(ordinary().rows) - 1
    assert _deleted(oldest, kept_each=newer) == []
    text = f"{oldest} was deleted with {newer} newer ones; {newer + 1} are kept"
    assert _deleted(oldest, kept_each=newer + 1) == [text]


def a_launch_that_was_deleted_while_it_was_open_is_found() -> None:
    oldest = min(ordinary().rows)
    assert _deleted(oldest, kept_each=1, state="running") == [f"{oldest} was deleted while it was running"]


def a_launch_that_is_recorded_twice_is_found() -> None:
    telling = ordinary()
    history = telling.told()
    for final in history.finals.values():
        final.launches.append(final.launches[0])
    assert found(history, "nothing lost") == [f"s-{T0 + 60} is recorded twice"]


def a_year_of_absence_of_an_every_second_schedule_is_one_step() -> None:
    telling = Telling(cron="* * * * * *")
    year = 366 * 86_400
    telling.history.ended_ms += year * 1000.0
    telling.missed.append(stretch(T0 + 1, T0 + year))
    telling.due["s"] = (T0 + year, (T0 + year) * 1000)
    assert found(telling, "nothing lost") == []
    assert found(telling, "chronos") != []


# Rows are true


def a_success_of_which_nothing_succeeded_is_found() -> None:
    telling = ordinary()
    telling.history.calls[0].answer = "failed"
    assert found(telling, "rows true") == [
        f"s-{T0 + 60} is recorded as succeeded, and nothing of it succeeded: failed"
    ]


def a_failure_of_what_succeeded_or_goes_on_or_was_cut_off_is_found() -> None:
    for answer in ("succeeded", "", "lost"):
        telling = ordinary()
        telling.history.calls[0].answer = answer
        telling.mark(f"s-{T0 + 60}", state="failed", reason="status 500")
        assert len(found(telling, "rows true")) == 1, answer


def a_failure_of_what_was_never_called_is_true() -> None:
    telling = ordinary()
    del telling.history.calls[0]
    telling.mark(f"s-{T0 + 60}", state="failed", reason="connection refused")
    assert found(telling, "rows true") == []


def a_start_or_an_end_at_another_time_than_the_commands_own_is_found() -> None:
    for moment in ("started_ms", "ended_ms"):
        for off_ms, findings in ((900, 0), (-900, 0), (3_000, 1), (-3_000, 1)):
            telling = at_workshop()
            name = telling.launch(T0 + 60, receiver="workshop", place="a")
            telling.mark(name, **{moment: getattr(telling.rows[name], moment) + off_ms})
            assert len(found(telling, "rows true")) == findings, (moment, off_ms)


def a_skip_or_a_missed_stretch_of_what_was_done_is_found() -> None:
    telling = ordinary()
    telling.mark(f"s-{T0 + 60}", state="skipped", reason="overlap")
    assert len(found(telling, "rows true")) == 1
    del telling.rows[f"s-{T0 + 60}"]
    telling.missed.append(stretch(T0 + 60, T0 + 61))
    assert found(telling, "rows true") == [f"s-{T0 + 60} is recorded as missed ({NOBODY}), and was done by a"]


def what_was_given_up_because_the_record_was_lost_may_have_been_done() -> None:
    telling = ordinary()
    reason = "missed: the record of this time was lost, it may have been launched, and on_doubt is 'skip'"
    telling.mark(f"s-{T0 + 60}", state="skipped", reason=reason)
    del telling.rows[f"s-{T0 + 120}"]
    telling.missed.append(stretch(T0 + 120, T0 + 121, reason))
    assert len(found(telling, "rows true")) == 2
    telling.lost(T0 + 130, T0 + 30, after=2)
    assert found(telling, "rows true") == []


def what_may_be_called_again_is_given_up_by_its_own_policies_after_a_loss() -> None:
    for on_doubt, findings in (("skip", 1), ("relaunch", 0)):
        telling = ordinary(on_doubt=on_doubt)
        telling.mark(f"s-{T0 + 60}", state="skipped", reason=NOBODY)
        telling.lost(T0 + 130, T0 + 30, after=2)
        assert len(found(telling, "rows true")) == findings


def a_start_of_a_command_that_was_cancelled_before_it_began_is_found() -> None:
    telling = at_workshop()
    name, *_ = telling.launches(answer="cancelled")
    telling.mark(name, state="cancelled", reason="cancelled", started_ms=(T0 + 60) * 1000)
    telling.asked(T0 + 60, CancelLaunch(name))
    assert [text for text in found(telling, "rows true") if name in text] == []
    telling.history.calls = [call for call in telling.history.calls if call.name != name]
    (wrong,) = [text for text in found(telling, "rows true") if name in text]
    assert wrong.endswith("with a start, though it was never begun")
    telling.mark(name, started_ms=None)
    assert [text for text in found(telling, "rows true") if name in text] == []


def a_cancellation_that_nobody_asked_for_is_found() -> None:
    telling = ordinary()
    name = f"s-{T0 + 60}"
    telling.mark(name, state="cancelled", reason="cancelled")
    assert len(found(telling, "rows true")) == 1
    telling.asked(T0 + 60, CancelLaunch(name))
    assert found(telling, "rows true") == []
    telling.history.calls[0].receiver = "workshop"
    assert found(telling, "rows true") == [
        f"{name} is recorded as cancelled (cancelled), and it had succeeded"
    ]


def a_doubt_without_any_reason_for_it_is_found() -> None:
    telling = ordinary()
    telling.mark(f"s-{T0 + 60}", state="in_doubt", reason="no answer in time")
    assert len(found(telling, "rows true")) == 1


def a_fault_or_a_silent_receiver_explains_a_doubt() -> None:
    telling = ordinary()
    telling.mark(f"s-{T0 + 60}", state="in_doubt", reason="no answer in time")
    telling.fault("partition", T0 + 20, T0 + 30)
    assert found(telling, "rows true") == []
    for facts in ({"is_told": False}, {"lasts_s": None, "answer": ""}, {"lasts_s": 31.0}):
        telling = Telling()
        telling.mark(telling.launch(T0 + 60, **facts), state="in_doubt", reason="no answer in time")
        assert found(telling, "rows true") == []


def whatever_did_not_succeed_has_a_reason() -> None:
    telling = ordinary()
    telling.history.calls[0].answer = "failed"
    telling.mark(f"s-{T0 + 60}", state="failed", reason="")
    assert found(telling, "rows true") == [f"s-{T0 + 60} is failed without a reason"]


def what_a_person_said_is_not_checked_and_neither_is_what_a_target_lied_about() -> None:
    telling = ordinary()
    telling.history.calls[0].answer = telling.history.calls[1].answer = "failed"
    telling.history.lies.add(f"s-{T0 + 60}")
    telling.asked(T0 + 130, ResolveLaunch(f"s-{T0 + 120}", "succeeded"))
    assert found(telling, "rows true") == []


# Nothing early


def a_call_before_its_instant_by_the_callers_own_clock_is_found() -> None:
    telling = ordinary()
    telling.history.calls[0].clock_ms = (T0 + 60) * 1000 - 1
    assert found(telling, "nothing early") == [f"s-{T0 + 60} was called by a 1 ms before its moment"]


def a_clock_that_is_ahead_is_not_early_by_itself() -> None:
    telling = ordinary()
    telling.history.calls[0].sent_ms -= 3_000
    assert found(telling, "nothing early") == []


def a_clock_that_was_put_back_after_the_decision_excuses_the_call() -> None:
    telling = ordinary()
    telling.history.calls[0].clock_ms -= 5_000
    telling.fault("clock step", T0 + 60)
    assert found(telling, "nothing early") == []


def a_call_before_the_moment_that_jitter_planned_is_found() -> None:
    telling = ordinary(jitter="30s")
    telling.mark(f"s-{T0 + 60}", planned_ms=(T0 + 70) * 1000)
    assert len(found(telling, "nothing early")) == 1


def a_planned_moment_that_jitter_does_not_allow_is_found() -> None:
    telling = Telling(jitter="30s")
    telling.launch(T0 + 60, T0 + 91)
    telling.mark(f"s-{T0 + 60}", planned_ms=(T0 + 90) * 1000)
    assert found(telling, "nothing early") == []
    telling.mark(f"s-{T0 + 60}", planned_ms=(T0 + 90) * 1000 + 1)
    assert len(found(telling, "nothing early")) == 1


# No replica ends by itself


def a_replica_that_ends_by_itself_is_found_unless_a_fault_explains_it() -> None:
    telling = ordinary()
    telling.history.ended_badly.append(((T0 + 100) * 1000.0, "b", "JournalUnavailable: it does not answer"))
    assert len(found(telling, "nobody ends")) == 1
    telling.fault("lost disk", T0 + 90, T0 + 95)
    assert found(telling, "nobody ends") == []


def a_defect_is_never_explained_by_a_fault() -> None:
    telling = ordinary()
    telling.fault("lost disk", T0 + 90, T0 + 95)
    for why in ("KeyError: 7", "Diverged: at entry 5", "UnknownChange: Foo"):
        telling.history.ended_badly = [((T0 + 100) * 1000.0, "b", why)]
        assert len(found(telling, "nobody ends")) == 1, why


# Chronos


def a_run_too_many_and_a_run_too_few_are_found_by_counting_alone() -> None:
    telling = ordinary()
    telling.call(f"s-{T0 + 180}", T0 + 185)
    assert len(found(telling, "chronos")) == 1
    telling = ordinary()
    del telling.history.calls[3]
    assert len(found(telling, "chronos")) == 1


def a_run_that_is_late_within_reason_meets_its_target() -> None:
    telling = Telling()
    telling.launches(1, 4)
    telling.launch(T0 + 300, T0 + 306)
    telling.launches(6, 9)
    assert found(telling, "chronos") == []


def targets_around_an_absence_are_left_out_of_the_count() -> None:
    telling = Telling()
    telling.launches(1, 3)
    telling.launch(T0 + 360, T0 + 365)
    telling.launches(7, 9)
    telling.absences.append(((T0 + 190) * 1000, (T0 + 365) * 1000))
    assert found(telling, "chronos") == []


def schedules_for_which_more_is_legal_are_left_out_of_the_count() -> None:
    for policies in ({"overlap": "forbid"}, {"deadline": "5s"}, {"retry": Retry(limit=1)}, {"jitter": "5s"}):
        telling = ordinary(**policies)
        telling.call(f"s-{T0 + 180}", T0 + 185)
        assert found(telling, "chronos") == []
    telling = ordinary(target=HttpTarget("http://idempotent-steady/", idempotent=True))
    assert found(telling, "chronos") == []


def commands_are_counted_like_calls() -> None:
    telling = at_workshop()
    telling.launches(receiver="workshop", place="disk of a")
    assert found(telling, "chronos") == []
    telling.call(f"s-{T0 + 60}", T0 + 65, receiver="workshop", place="disk of b")
    assert len(found(telling, "chronos")) == 1
