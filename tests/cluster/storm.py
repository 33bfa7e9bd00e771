"""Faults by chance, one after the other: ``python -m tests.cluster.storm --faults 50 --seed 7``. Too long for CI."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Replica
from tests.cluster.places import on_loopback
from tests.cluster.trial import Trial, close, pause, trial_of
from tests.cluster.waiting import let_pass


def _pauses(replica: Replica, chance: random.Random) -> str:
    what = chance.choice(["tocsin", "tocsin", "etcd", "both"])
    seconds = chance.choice([chance.uniform(0.3, 3.0), chance.uniform(1.0, 8.0)])
    pause(replica, what, seconds)
    return f"paused {what} of {replica.name} for {seconds:.2f} s"


def _kill(replica: Replica, chance: random.Random) -> str:
    replica.kill()
    let_pass(chance.uniform(0.0, 4.0))
    return f"killed {replica.name}"


def _crash(replica: Replica, chance: random.Random) -> str:
    replica.crash()
    let_pass(chance.uniform(0.0, 4.0))
    return f"crashed {replica.name}"


def _kill_etcd(replica: Replica, chance: random.Random) -> str:
    replica.kill_etcd()
    return f"killed the etcd of {replica.name}"


def _stop(replica: Replica, chance: random.Random) -> str:
    status = replica.stop()
    assert status == 0, status
    return f"stopped {replica.name}"


FAULTS: list[Callable[[Replica, random.Random], str]] = [
    _pauses,
    _pauses,
    _pauses,
    _kill,
    _crash,
    _kill_etcd,
    _stop,
]


def storm(trial: Trial, faults: int, chance: random.Random) -> None:
    for number in range(faults):
        leader = trial.begin()
        let_pass(chance.uniform(0.0, 1.0))
        for _ in range(chance.choice([1, 1, 2])):
            replica = leader if chance.random() < 0.7 else chance.choice(list(trial.cluster))
            if replica.is_running():
                print(f"{number} {time.strftime('%T')} {chance.choice(FAULTS)(replica, chance)}", flush=True)
        trial.spotless()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    print(f"--seed {asked.seed}, logs in {folder}")
    under_load = trial_of(folder, on_loopback("abc"))
    try:
        under_load.cluster.start()
        under_load.load.start()
        storm(under_load, asked.faults, random.Random(asked.seed))
    finally:
        close(under_load)
