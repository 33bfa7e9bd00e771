"""The outcomes of a batch tell when its events were sent."""

from __future__ import annotations

from tests.replica.lone import LeapClock

from tocsin.targets.batch_times import TOGETHER_S, with_calls
from tocsin.targets.contract import SUCCEEDED, TOO_LATE, Outcome, Verdict


class _Clock(LeapClock):
    """Half a second past the moment 5,000."""

    def wall_ms(self) -> int:
        return 5_500

    def elapsed_s(self) -> float:
        return 100.5


def each_outcome_has_the_moment_at_which_its_event_was_sent() -> None:
    failed = Outcome(Verdict.FAILED, "refused")
    found = with_calls([SUCCEEDED, failed, SUCCEEDED], [100.0, 100.2, 100.1], _Clock())
    assert [outcome.called_ms for outcome in found] == [5_000, 5_200, 5_100]
    assert [outcome.reason for outcome in found] == ["", "refused", ""]


def what_was_not_sent_or_did_not_start_has_none() -> None:
    nobody = Outcome(Verdict.NOT_STARTED, "no stream takes it")
    doubt = Outcome(Verdict.UNKNOWN, "it may have gone out before")
    given = [TOO_LATE, nobody, doubt]
    assert with_calls(given, [None, 100.0, None], _Clock()) == given


def those_that_were_sent_together_share_the_moment_of_the_first() -> None:
    sent_s = [100.0 + number * TOGETHER_S / 100 for number in range(500)]
    found = with_calls([SUCCEEDED] * 500, sent_s, _Clock())
    assert len({id(outcome) for outcome in found}) == 5
    for outcome, at_s in zip(found, sent_s, strict=True):
        assert outcome.called_ms is not None
        late_ms = 5_000 + (at_s - 100) * 1000 - outcome.called_ms
        assert -1 <= late_ms <= TOGETHER_S * 1000 + 1
