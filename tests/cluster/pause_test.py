"""SIGSTOP: whoever is stopped does not know it, and believes afterwards that no time has passed."""

from __future__ import annotations

import signal

import pytest
from tests.cluster import processes
from tests.cluster.special import Special
from tests.cluster.trial import Trial, pause
from tests.cluster.waiting import let_pass, until

_LONGER_THAN_OFFICE_S = 5.0


@pytest.mark.parametrize("what", ["tocsin", "etcd", "both"])
def a_leader_that_is_paused_for_a_second_or_five_does_no_harm(trial: Trial, what: str) -> None:
    trial.begin()
    for seconds in (1, 5):
        pause(trial.cluster.until_healthy(), what, seconds)
    trial.spotless()


def a_leader_that_is_paused_for_half_a_minute_is_replaced_and_follows(trial: Trial) -> None:
    """Meanwhile the journal is trimmed behind its back: it goes on with another one's snapshot."""
    term, leader = trial.term(), trial.begin()
    pause(leader, "both", 30)
    trial.cluster.until_healthy()
    assert trial.term() > term
    trial.spotless()


def a_leaders_etcd_and_a_follower_paused_for_half_a_minute_stop_no_launches(trial: Trial) -> None:
    """The other two etcds are a majority, and the leader can ask them."""
    leader = trial.begin()
    follower = trial.cluster.followers()[0]
    follower.pause()
    leader.signal_etcd(signal.SIGSTOP)
    let_pass(15)
    trial.load.go_on(30, patience_s=10)
    let_pass(15)
    leader.signal_etcd(signal.SIGCONT)
    follower.resume()
    trial.spotless()


def a_leader_and_a_follower_that_are_paused_leave_one_that_leads(trial: Trial) -> None:
    """Their etcds go on, so there is a majority, and the third Tocsin does all the work."""
    term, leader = trial.term(), trial.begin()
    follower, third = trial.cluster.followers()
    leader.pause()
    follower.pause()
    trial.until_launches_of_a_newer_term(term)
    assert trial.cluster.until_leader() is third
    let_pass(_LONGER_THAN_OFFICE_S)
    leader.resume()
    follower.resume()
    trial.cluster.until_healthy()
    assert trial.cluster.leader() is third
    trial.spotless()


def a_leader_paused_between_the_first_synchronisation_point_and_the_call_does_not_call_late(
    trial: Trial, special: Special
) -> None:
    """It wakes up with orders in its hand that the journal knows of, when another one has long concluded them."""
    trial.begin()
    leader = trial.cluster.make_leader(special.replica.name)
    term = trial.term()
    special.trap.touch()
    until(
        lambda: not special.trap.exists() and processes.stopped(leader.pid),
        "the leader to stop before the call",
    )
    trial.until_launches_of_a_newer_term(term)
    let_pass(_LONGER_THAN_OFFICE_S)
    called = {call for call in trial.load.calls if call.term <= term}
    leader.resume()
    trial.load.go_on(40)
    late = [call for call in trial.load.calls if call.term <= term and call not in called]
    assert late == [], "calls of a term that was over"
    trial.spotless()
