"""SIGSTOP: whoever is stopped does not know it, and believes afterwards that no time has passed."""

from __future__ import annotations

import re
import signal

import pytest
from tests.cluster import processes
from tests.cluster.cluster import Replica
from tests.cluster.load import sequence_of
from tests.cluster.special import Special
from tests.cluster.trial import Trial, pause
from tests.cluster.waiting import let_pass, until

_LONGER_THAN_OFFICE_S = 5.0
_UNDER_WAY = 50
"""More entries than come between a question how far a replica is and the moment it stops."""


@pytest.mark.parametrize("what", ["tocsin", "etcd", "both"])
def a_leader_that_is_paused_for_a_second_or_five_does_no_harm(trial: Trial, what: str) -> None:
    trial.begin()
    for seconds in (1, 5):
        pause(trial.cluster.until_healthy(), what, seconds)
    trial.spotless()


def a_leader_its_etcd_and_a_follower_paused_for_half_a_minute_leave_one_that_leads(trial: Trial) -> None:
    """Two etcds are a majority, and the third Tocsin does all the work. The journal is trimmed behind the back of the
    one that sleeps longest: it goes on with what its etcd has sent meanwhile, or with a snapshot of another."""
    term, leader = trial.term(), trial.begin()
    follower, third = trial.cluster.followers()
    reached = sequence_of(follower)
    follower.pause()
    leader.pause()
    leader.signal_etcd(signal.SIGSTOP)
    trial.until_launches_of_a_newer_term(term)
    assert trial.cluster.until_leader() is third
    let_pass(15)
    trial.load.go_on(30, patience_s=10)
    let_pass(15)
    leader.signal_etcd(signal.SIGCONT)
    leader.resume()
    until(lambda: _trimmed(third) > reached + _UNDER_WAY, "the journal to be trimmed", 90)
    follower.resume()
    trial.cluster.until_healthy()
    assert trial.cluster.leader() is third
    trial.spotless()


def _trimmed(replica: Replica) -> int:
    """Up to where it has trimmed the journal, as its log says."""
    return max(
        (int(upto) for upto in re.findall(r"the journal was trimmed +upto=(\d+)", replica.log())), default=0
    )


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
