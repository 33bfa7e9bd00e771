"""The checker finds what it is there to find, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster import checker
from tests.cluster.checker import Call, Evidence

CALL = Call("h-100", 1, 1, 50.0, True)
DONE = {"schedule": "h", "state": "succeeded", "reason": ""}
MISSED = "Not launched; missed: nothing was decided at that time, and the policy launches only the last one."


def _evidence(calls: list[Call], launches: dict[str, Any], answer: str = MISSED, **fields: Any) -> Evidence:
    spec = {"id": "h", "cron": "*/5 * * * * *", "target": {"kind": "http"}, **fields}
    return Evidence({"h": spec}, calls, launches, 100, 105, lambda _id, _instant: answer)


def a_launch_that_was_made_once_is_no_fault() -> None:
    assert checker.faults(_evidence([CALL], {"h-100": DONE})) == []


def a_missed_occurrence_is_no_fault() -> None:
    assert checker.faults(_evidence([], {})) == []


def an_attempt_that_was_made_twice_is_a_double_under_skip() -> None:
    evidence = _evidence([CALL, CALL], {"h-100": DONE})
    assert checker.doubles(evidence) == ["h-100 was done 2 times", "attempt 1 of h-100 was made 2 times"]


def a_second_attempt_after_one_that_did_the_work_is_a_double() -> None:
    evidence = _evidence([CALL, CALL._replace(attempt=2)], {"h-100": DONE}, retry={"limit": 3})
    assert checker.doubles(evidence) == ["h-100 was done 2 times"]


def a_second_attempt_after_a_refusal_is_right() -> None:
    evidence = _evidence([CALL._replace(good=False), CALL._replace(attempt=2)], {"h-100": DONE})
    assert checker.faults(evidence) == []


@pytest.mark.parametrize(
    "fields", [{"on_doubt": "relaunch"}, {"target": {"kind": "http", "idempotent": True}}]
)
def where_repeating_is_allowed_twice_is_right_and_never_is_lost(fields: dict[str, Any]) -> None:
    assert checker.faults(_evidence([CALL, CALL], {"h-100": DONE}, **fields)) == []
    doubt = {**DONE, "state": "in_doubt", "reason": "it cannot be known"}
    assert checker.lost(_evidence([], {"h-100": doubt}, **fields)) == [
        "h-100 was never done: in_doubt (it cannot be known)"
    ]


def under_skip_a_doubt_is_an_end() -> None:
    doubt = {**DONE, "state": "in_doubt", "reason": "it cannot be known"}
    assert checker.faults(_evidence([], {"h-100": doubt})) == []
    assert checker.faults(_evidence([CALL], {"h-100": doubt})) == []
    assert len(checker.doubts(_evidence([CALL], {"h-100": doubt}))) == 1


def a_success_that_nobody_saw_is_false() -> None:
    assert len(checker.false_successes(_evidence([], {"h-100": DONE}))) == 1
    assert len(checker.false_successes(_evidence([CALL._replace(good=False)], {"h-100": DONE}))) == 1


@pytest.mark.parametrize("launches", [{}, {"h-100": {**DONE, "state": "skipped", "reason": "missed"}}])
def what_was_done_must_be_on_record(launches: dict[str, Any]) -> None:
    assert len(checker.unrecorded(_evidence([CALL], launches))) == 1


@pytest.mark.parametrize(("state", "reason"), [("running", ""), ("failed", ""), ("skipped", "")])
def an_end_without_a_reason_is_none(state: str, reason: str) -> None:
    launch = {**DONE, "state": state, "reason": reason}
    assert len(checker.unfinished(_evidence([CALL], {"h-100": launch}))) == 1


def a_blank_is_a_fault() -> None:
    assert len(checker.unaccounted(_evidence([], {}, "Its record is no longer kept."))) == 1


def a_lost_record_accounts_for_what_doubt_skips_and_for_nothing_else() -> None:
    answer = "Not launched; missed: the record of this time was lost, it may have been launched."
    lost = _evidence([], {}, answer, missed="all")
    assert len(checker.unaccounted(lost)) == 1
    assert checker.unaccounted(lost._replace(lost_record=True)) == []
    relaunched = _evidence([], {}, answer, on_doubt="relaunch")._replace(lost_record=True)
    assert len(checker.unaccounted(relaunched)) == 1


def under_all_a_missed_occurrence_is_a_fault() -> None:
    assert len(checker.unaccounted(_evidence([], {}, missed="all"))) == 1


def what_lies_outside_the_stretch_is_not_judged() -> None:
    late = CALL._replace(name="h-105")
    evidence = _evidence([late, late], {"h-105": {**DONE, "state": "running"}})
    assert checker.faults(evidence) == []


def an_early_call_is_found_and_a_late_one_is_measured() -> None:
    evidence = _evidence([CALL], {"h-100": DONE})
    assert checker.early(evidence, wall_less_boot_s=49.9) == ["h-100 came 0.100 s early"]
    assert checker.early(evidence, wall_less_boot_s=50.25) == []
    assert checker.lateness_s([CALL, CALL._replace(attempt=2)], 50.25) == [0.25]


def equal_sequences_must_have_equal_digests() -> None:
    assert checker.digests_disagree([("a", 1, "x"), ("b", 2, "y"), ("a", 2, "y")]) == []
    assert len(checker.digests_disagree([("a", 2, "x"), ("b", 2, "y")])) == 1
    assert len(checker.digests_disagree([("a", 2, "x"), ("a", 2, "y")])) == 1


def a_call_survives_its_line() -> None:
    assert Call.read(CALL.line().decode()) == CALL


@pytest.mark.parametrize(("cron", "instants"), [("* * * * * *", [7, 8, 9]), ("*/4 * * * * *", [8])])
def occurrences_are_counted_from_the_minute(cron: str, instants: list[int]) -> None:
    assert list(checker.occurrences({"cron": cron}, 7, 10)) == instants
