"""The wall clock of one replica is stepped, by an hour or by 40 days. Authority is measured with another clock."""

from __future__ import annotations

from tests.cluster.special import Special
from tests.cluster.trial import Trial
from tests.cluster.waiting import until

_HOUR_S = 3600
_DAYS_S = 40 * 24 * _HOUR_S


def _step(trial: Trial, special: Special, step_s: int) -> None:
    """The others must see how far its clock is off."""
    special.clock.step(step_s)
    other = next(found for found in trial.cluster if found is not special.replica)

    def is_seen() -> bool:
        views = other.call("GET", "/v1/cluster")["replicas"]
        offsets = [view["clock_offset_ms"] for view in views if view["name"] == special.replica.name]
        return bool(offsets) and offsets[0] is not None and abs(offsets[0] - step_s * 1000) < 5_000

    until(is_seen, "the step to be seen by the others", every_s=0.3)


def a_follower_whose_clock_is_stepped_changes_nothing(trial: Trial, special: Special) -> None:
    if trial.begin() is special.replica:
        trial.cluster.step_down()
        trial.cluster.until_leader(other_than=special.replica.name)
    trial.begin()
    term = trial.term()
    for step_s in (_HOUR_S, -_HOUR_S, _DAYS_S, -_DAYS_S, 0):
        _step(trial, special, step_s)
        trial.load.go_on(60)
    assert trial.term() == term, "a clock that is off must not make anybody take office"
    trial.spotless()


def a_leader_whose_clock_is_stepped_neither_launches_early_nor_stops(trial: Trial, special: Special) -> None:
    """There are three clocks to compare: the one that is alone with its opinion does not lead."""
    trial.begin()
    for step_s in (_HOUR_S, -_HOUR_S, _DAYS_S, -_DAYS_S):
        trial.cluster.make_leader(special.replica.name)
        _step(trial, special, step_s)
        trial.load.go_on(60, patience_s=30)
        assert trial.cluster.until_leader(20) is not special.replica
        _step(trial, special, 0)
    trial.spotless()
