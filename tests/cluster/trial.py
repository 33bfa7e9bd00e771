"""One fault, from a healthy cluster under load to a healthy cluster under load."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.cluster.checker import Call
from tests.cluster.cluster import Cluster, Replica
from tests.cluster.load import Load
from tests.cluster.places import Place
from tests.cluster.waiting import boot_s, let_pass, until
from tests.needs import program


class Trial:
    """A cluster under load. ``begin`` marks a moment, ``spotless`` judges what has happened since."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self.cluster = cluster
        self.load = load
        self.leader: Replica | None = None
        self._from_s = 0
        self._began_s = 0.0

    def begin(self) -> Replica:
        """Healthy and under way; who leads."""
        self.leader = self.cluster.until_healthy()
        self.load.go_on(10)
        self._from_s = int(time.time())
        self._began_s = boot_s()
        return self.leader

    def term(self) -> int:
        return int(self.cluster.until_leader().call("GET", "/v1/status")["term"])

    def until_launches_of_a_newer_term(self, term: int, patience_s: float = 30) -> float:
        """When the first one arrived, on the boot clock."""

        def newer() -> list[Call]:
            return [call for call in self.load.calls if call.term > term and call.at_s > self._began_s]

        return min(call.at_s for call in until(newer, f"launches of a term after {term}", patience_s))

    def spotless(self, *, lost_record: bool = False) -> None:
        """All is well again, launches go on, and nothing that must not have happened has. ``lost_record``: of some of
        the time the service may say that it cannot know, but only where doubt means not to launch."""
        self.cluster.until_healthy()
        self.load.go_on()
        found = self.load.faults(self._from_s, lost_record=lost_record)
        assert not found, f"{len(found)} faults ({self.load.summary}):\n" + "\n".join(found[:40])


def pause(replica: Replica, what: str, seconds: float) -> None:
    """Stop its ``tocsin``, its ``etcd`` or ``both`` for so long."""
    if what != "etcd":
        replica.pause()
    if what != "tocsin":
        replica.signal_etcd(signal.SIGSTOP)
    let_pass(seconds)
    if what != "tocsin":
        replica.signal_etcd(signal.SIGCONT)
    if what != "etcd":
        replica.resume()


def trial_of(folder: Path, places: dict[str, Place], receivers: Place | None = None, *options: str) -> Trial:
    """Start replicas and load. Whoever asks for it closes it, also when the start fails."""
    program("etcd", "etcd-server")
    cluster = Cluster(folder, places, *options)
    return Trial(cluster, Load(cluster, folder, receivers))


def close(trial: Trial) -> None:
    trial.load.writer.stop()
    trial.cluster.close()
    trial.load.close()
