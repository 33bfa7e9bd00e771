"""The wall clock of one replica is stepped by an hour. Authority is measured with another clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.clockshift import ClockShift
from tests.cluster.cluster import Replica
from tests.cluster.trial import Trial
from tests.cluster.waiting import until

_HOUR_S = 3600


def _with_a_clock_of_its_own(trial: Trial, replica: Replica, folder: Path) -> ClockShift:
    shift = ClockShift(folder)
    assert replica.stop() == 0
    replica.environment.update(shift.environment)
    trial.cluster.until_healthy()
    return shift


def _is_seen(trial: Trial, replica: Replica, step_s: int) -> bool:
    """Do the others see how far its clock is off?"""
    other = next(found for found in trial.cluster if found is not replica)
    views = other.call("GET", "/v1/cluster")["replicas"]
    offsets = [view["clock_offset_ms"] for view in views if view["name"] == replica.name]
    return bool(offsets) and offsets[0] is not None and abs(offsets[0] - step_s * 1000) < 5_000


def _with_the_clock_of_all(trial: Trial, replica: Replica) -> None:
    replica.environment.clear()
    assert replica.stop() == 0
    trial.cluster.until_healthy()


@pytest.mark.parametrize("step_s", [_HOUR_S, -_HOUR_S])
def a_follower_whose_clock_is_stepped_is_not_noticed(trial: Trial, step_s: int, tmp_path: Path) -> None:
    trial.begin()
    follower = trial.cluster.followers()[0]
    shift = _with_a_clock_of_its_own(trial, follower, tmp_path)
    leader, term = trial.begin(), trial.term()
    assert leader is not follower
    shift.step(step_s)
    until(lambda: _is_seen(trial, follower, step_s), "the step to be seen by the others")
    trial.load.go_on(90)
    assert trial.term() == term, "a clock that is off must not make anybody take office"
    shift.step(0)
    trial.spotless()
    _with_the_clock_of_all(trial, follower)


@pytest.mark.parametrize("step_s", [_HOUR_S, -_HOUR_S])
def a_leader_whose_clock_is_stepped_neither_launches_early_nor_stops_for_an_hour(
    trial: Trial, step_s: int, tmp_path: Path
) -> None:
    """Three clocks are there to compare: the one that is alone with its opinion should not lead."""
    trial.begin()
    follower = trial.cluster.followers()[0]
    shift = _with_a_clock_of_its_own(trial, follower, tmp_path)
    trial.cluster.make_leader(follower.name)
    trial.begin()
    shift.step(step_s)
    until(lambda: _is_seen(trial, follower, step_s), "the step to be seen by the others")
    trial.load.go_on(60, patience_s=30)
    assert trial.cluster.until_leader(20) is not follower
    shift.step(0)
    trial.spotless()
    _with_the_clock_of_all(trial, follower)
