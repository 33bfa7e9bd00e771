"""SIGKILL, of whatever there is to kill."""

from __future__ import annotations

import pytest
from tests.cluster.cluster import Replica
from tests.cluster.trial import Trial
from tests.cluster.waiting import boot_s, let_pass, until

_SURELY_S = 10.0
"""Fail-over is far quicker as a rule, as ``bench/scenarios/failover.py`` measures. Here the machine is busy."""
_AUTHORITY_S = 3.0
"""Longer than any leader may act without having heard from a majority, calls under way included."""


def a_killed_leader_is_replaced(trial: Trial) -> None:
    term, leader = trial.term(), trial.begin()
    moment = boot_s()
    leader.kill()
    assert trial.until_launches_of_a_newer_term(term) - moment < _SURELY_S
    assert trial.cluster.until_leader() is not leader
    trial.spotless()


def an_etcd_that_is_killed_comes_back_by_itself(trial: Trial) -> None:
    leader = trial.begin()
    before = leader.etcd_pids()
    leader.kill_etcd()
    until(lambda: set(leader.etcd_pids()) - set(before), "another etcd")
    trial.load.go_on()
    trial.spotless()


def a_leader_killed_together_with_its_etcd_is_replaced(trial: Trial) -> None:
    term, leader = trial.term(), trial.begin()
    moment = boot_s()
    leader.crash()
    assert trial.until_launches_of_a_newer_term(term) - moment < _SURELY_S
    trial.spotless()


@pytest.mark.parametrize("survivor", ["leader", "follower"])
def without_a_majority_launches_stop_and_nothing_is_lost(trial: Trial, survivor: str) -> None:
    leader = trial.begin()
    left = leader if survivor == "leader" else trial.cluster.followers()[0]
    for replica in trial.cluster:
        if replica is not left:
            replica.crash()
    let_pass(_AUTHORITY_S)
    stopped = len(trial.load.calls)
    written = len(trial.load.writer.acknowledged)
    let_pass(_AUTHORITY_S)
    assert len(trial.load.calls) == stopped, "launches must stop when they cannot be written down"
    assert len(trial.load.writer.acknowledged) == written, "nothing can be acknowledged without a majority"
    assert _answers(left), "reading must go on"
    trial.spotless()
    assert len(trial.load.writer.acknowledged) > written


def _answers(replica: Replica) -> bool:
    return replica.ask("/v1/status") is not None and replica.ask("/v1/schedules") is not None
