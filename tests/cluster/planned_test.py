"""What people do on purpose: restart one after the other, hand the office over."""

from __future__ import annotations

import time
from pathlib import Path

from tests.cluster.checker import lateness_s
from tests.cluster.probe import PER_SECOND, Probe
from tests.cluster.trial import Trial
from tests.cluster.waiting import boot_s, until

_HAND_OVER_S = 0.5
_ROUNDS = 3
"""What else the machine does can only add to what is measured: the best of so many counts."""
_QUICK = ("exec/skip/", "http/skip/", "http/relaunch/", "http/idempotent/", "exec/relaunch")


def _latest_s(trial: Trial, since_s: float) -> float:
    """How late the latest of the quick launches was that came since that moment of the boot clock."""
    calls = [call for call in trial.load.calls if call.at_s > since_s and call.schedule.startswith(_QUICK)]
    return max(lateness_s(calls, time.time() - boot_s()))


def a_rolling_restart_under_load_loses_doubles_and_delays_nothing(trial: Trial) -> None:
    trial.begin()
    began_s = boot_s()
    trial.load.go_on(150)
    usual_s = _latest_s(trial, began_s)
    for _ in range(_ROUNDS):
        worst_s = _rolling_restart(trial)
        print(f"latest launch: {usual_s:.3f} s as a rule, {worst_s:.3f} s in the rolling restart")
        if worst_s < usual_s + _HAND_OVER_S:
            break
    trial.spotless()
    assert trial.load.doubts() == []
    assert worst_s < usual_s + _HAND_OVER_S


def _rolling_restart(trial: Trial) -> float:
    """How late the latest launch was in it."""
    began_s = boot_s()
    for replica in trial.cluster:
        until(lambda: 0.9 < time.time() % 1 < 0.97, "the last moment before launches are due", every_s=0.01)
        assert replica.stop() == 0
        replica.start()
        trial.cluster.until_healthy()
        trial.load.go_on(20)
    return _latest_s(trial, began_s)


def a_planned_hand_over_costs_less_than_half_a_second(trial: Trial, tmp_path: Path) -> None:
    leader = trial.begin()
    probe = Probe(trial.cluster, tmp_path)
    try:
        probe.start()
        term = trial.term()
        trial.cluster.step_down()
        first = probe.first_after(term)
        gap_s = first.at_s - probe.last_of(term).at_s
        print(f"{gap_s:.3f} s between the last call of the one and the first of the other")
        assert trial.cluster.until_leader() is not leader
        assert gap_s < _HAND_OVER_S + 3 / PER_SECOND
        trial.spotless()
        assert trial.load.doubts() == []
    finally:
        probe.stop()
