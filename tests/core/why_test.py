"""``why`` answers for any schedule and instant, from what was recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.desk import Desk, schedule_of

from tocsin.decide import why
from tocsin.model import change as c
from tocsin.model.command import CancelLaunch, DeleteSchedule, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.state import facts, past
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

IDEMPOTENT = {"kind": "http", "url": "http://receiver/", "idempotent": True}
START = 1_700_000_040  # 2023-11-14T22:14:00Z


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def _why(desk: Desk, second: int, id: str = "s") -> str:
    found = facts.gather(desk.db, id, START + second)
    in_force = None if found.in_force is None else why.InForce(*found.in_force)
    known = why.Facts(
        id,
        START + second,
        desk.now_ms,
        *found._replace(in_force=in_force),
        history_age_ms=30 * 86_400_000,
        lost_until_ms=past.lost_until_ms(desk.db, desk.now_ms),
    )
    return why.explain(known)


def _at(desk: Desk, second: int) -> None:
    desk.now_ms = (START + second) * 1000
    desk.turns()


def _put(desk: Desk, **fields: object) -> None:
    desk.command(PutSchedule(schedule_of(cron="* * * * *", **fields)))


def a_success_is_told_with_its_times(desk: Desk) -> None:
    _put(desk)
    _at(desk, 60)
    desk.now_ms += 1_500
    desk.end(*desk.flights, SUCCEEDED)
    assert _why(desk, 60) == (
        "It was launched and succeeded. Started at 2023-11-14T22:15:00Z; ended at 2023-11-14T22:15:01.500Z."
    )


def a_failure_is_told_with_its_reason(desk: Desk) -> None:
    _put(desk)
    _at(desk, 60)
    desk.end(*desk.flights, Outcome(Verdict.FAILED, reason="exit status 3"))
    assert _why(desk, 60).startswith("It was launched and failed: exit status 3. Started at")


def doubt_is_told_as_doubt(desk: Desk) -> None:
    _put(desk)
    _at(desk, 60)
    desk.end(*desk.flights, Outcome(Verdict.UNKNOWN, reason="the leader ended during the call"))
    assert _why(desk, 60).startswith("It is in doubt whether it was launched")


UNKNOWN = Outcome(Verdict.UNKNOWN, reason="no answer")
REPEATS = {"on_doubt": "relaunch", "retry": {"limit": 1, "backoff": "1s", "jitter": 0}}
NO_MORE = "It is in doubt what became of it, and it is not called again: "


def doubt_is_told_with_the_policy_that_ended_it(desk: Desk) -> None:
    _put(desk)
    _at(desk, 60)
    desk.end(*desk.flights, UNKNOWN)
    assert "the policy is rather to skip than to launch twice: no answer" in _why(desk, 60)


def repeats_that_are_used_up_are_not_told_as_a_policy_to_skip(desk: Desk) -> None:
    _put(desk, **REPEATS)
    _at(desk, 60)
    desk.end(*desk.flights, UNKNOWN)
    assert _why(desk, 60).startswith(
        "It waits for its next attempt: outcome unknown, to be called again: no ans"
    )
    _at(desk, 62)
    desk.end(*desk.flights, Outcome(Verdict.FAILED, reason="HTTP 500"))
    assert _why(desk, 60).startswith(
        NO_MORE + "HTTP 500 (attempt 2 of 2); an earlier call may have gone out."
    )
    assert _why(desk, 60).endswith("; attempt 2.")


@pytest.mark.parametrize("policy", [{"on_doubt": "relaunch"}, {"target": IDEMPOTENT}])
def doubt_about_a_first_call_is_told_by_the_policy_of_its_own_version(
    desk: Desk, policy: dict[str, object]
) -> None:
    _put(desk, **policy)
    _at(desk, 60)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    desk.end(*desk.flights, UNKNOWN)
    _put(desk)
    assert _why(desk, 60).startswith(NO_MORE + "no answer; it is stopped if ")


def an_attempt_that_was_not_made_is_not_told_as_failed(desk: Desk) -> None:
    _put(desk)
    _at(desk, 60)
    desk.commit(c.HandOversWithdrawn([*desk.flights], [1]))
    assert _why(desk, 60).startswith("It waits for its next attempt: the leader left office before the call.")


def a_missed_stretch_names_the_absence(desk: Desk) -> None:
    _put(desk)
    _at(desk, 1)
    desk.commit(*_renewal())
    desk.now_ms = (START + 600) * 1000
    desk.take_office()
    desk.turns()
    assert _why(desk, 120) == (
        "Not launched; missed: nothing was decided at that time, and the policy launches only the last one. "
        "Nothing was decided from 2023-11-14T22:14:01Z to 2023-11-14T22:24:00Z."
    )


def a_stretch_whose_record_was_lost_does_not_say_that_nothing_was_decided(desk: Desk) -> None:
    _put(desk)
    _at(desk, 1)
    desk.commit(*_renewal())
    lost_ms, desk.now_ms = desk.now_ms, (START + 600) * 1000
    desk.take_office()
    desk.commit(c.Restored(lost_ms))
    desk.turns()
    told = _why(desk, 120)
    assert "the record of this time was lost" in told
    assert told.endswith(
        " Nothing was decided from 2023-11-14T22:14:01Z to 2023-11-14T22:24:00Z, or the record of it was lost."
    )


def _renewal() -> list[object]:
    from tocsin.model import change as c

    return [c.Checkpoint()]


def a_skip_by_overlap_names_the_launch_that_was_open(desk: Desk) -> None:
    _put(desk, overlap="forbid")
    _at(desk, 60)
    _at(desk, 120)
    assert _why(desk, 120) == f"Not launched: overlap: s-{START + 60} was still open."


def a_pause_is_told_with_its_note(desk: Desk) -> None:
    _put(desk)
    desk.command(SwitchSchedule("s", enabled=False, note="stocktaking"))
    _at(desk, 300)
    assert _why(desk, 180) == (
        "The schedule was paused then, since 2023-11-14T22:14:00Z (stocktaking): it had no occurrences."
    )
    desk.command(SwitchSchedule("s", enabled=True))
    _at(desk, 600)
    assert "was paused then" in _why(desk, 180)


def an_instant_that_is_no_occurrence_names_its_neighbours(desk: Desk) -> None:
    _put(desk)
    assert _why(desk, 90) == (
        "'* * * * *' (UTC) has no occurrence at that instant; the nearest are "
        "before: 2023-11-14T22:15:00Z, after: 2023-11-14T22:16:00Z."
    )


def the_future_is_told_as_future(desk: Desk) -> None:
    _put(desk)
    assert _why(desk, 60) == "It is the next occurrence, planned for 2023-11-14T22:15:00Z."
    assert _why(desk, 600) == "It lies in the future and is on the schedule's timeline."


def what_did_not_exist_is_told_so(desk: Desk) -> None:
    assert _why(desk, 60) == "There is no schedule 's', and no record that there was."
    _put(desk)
    assert _why(desk, -600).startswith(
        "The schedule did not exist yet: it was created at 2023-11-14T22:14:00Z"
    )
    desk.now_ms += 90_000
    desk.command(DeleteSchedule("s"))
    assert _why(desk, 300).startswith(
        "The schedule did not exist any more: it was deleted at 2023-11-14T22:15:30Z"
    )


def what_is_no_longer_kept_is_told_so_and_not_as_a_deletion(desk: Desk) -> None:
    _put(desk)
    desk.now_ms += 90_000
    desk.command(PutSchedule(schedule_of(cron="*/2 * * * *")))
    desk.now_ms += 3_600_000
    desk.forget(age_s=60)
    assert (
        _why(desk, 60) == "What was recorded of that time is no longer kept, nor what the schedule was then."
    )
    desk.command(DeleteSchedule("s"))
    assert (
        _why(desk, 60) == "What was recorded of that time is no longer kept, nor what the schedule was then."
    )


def a_run_now_is_told_as_one(desk: Desk) -> None:
    _put(desk)
    desk.now_ms += 5_000
    desk.hand_over([desk.command(LaunchNow("s"))])
    desk.end(*desk.flights, SUCCEEDED)
    assert _why(desk, 5).startswith("By hand. It was launched and succeeded.")


def forgotten_history_is_told_as_forgotten(desk: Desk) -> None:
    from tocsin.model import change as c

    _put(desk)
    _at(desk, 60)
    desk.end(*desk.flights, SUCCEEDED)
    desk.now_ms += 40 * 86_400_000
    desk.commit(c.HistoryForgotten([1], desk.now_ms - 30 * 86_400_000))
    assert _why(desk, 60) == "That was so long ago that its record is no longer kept."


LOST = " The record of that time, or of a later time, was lost: it may have been launched nevertheless."


def _lose_record(desk: Desk, since: int, until: int) -> None:
    desk.now_ms = (START + until) * 1000
    term = desk.store.meta.term + 1
    desk.commit(c.TookOffice(term, "desk"), c.Restored((START + since) * 1000))
    desk.turns()


def what_a_lost_record_leaves_uncertain_is_told(desk: Desk) -> None:
    desk.now_ms += 60_000
    _put(desk, enabled=False)
    _lose_record(desk, 90, 270)
    assert _why(desk, 0).startswith("The schedule did not exist yet")
    assert _why(desk, 120).startswith("The schedule was paused then")
    assert [second for second in (0, 60, 120, 240, 270, 300) if _why(desk, second).endswith(LOST)] == [
        0,
        60,
        120,
        240,
    ]


def what_was_skipped_before_a_record_was_lost_may_have_been_backfilled_since(desk: Desk) -> None:
    _put(desk, overlap="forbid")
    _at(desk, 60)
    _at(desk, 120)
    assert _why(desk, 120).endswith("was still open.")
    _lose_record(desk, 130, 170)
    assert _why(desk, 120).endswith("was still open." + LOST)
    assert LOST not in _why(desk, 60)


def a_reason_that_tells_of_the_lost_record_is_enough(desk: Desk) -> None:
    _put(desk)
    _lose_record(desk, 30, 270)
    assert "the record of this time was lost" in _why(desk, 120)
    assert LOST not in _why(desk, 120)
