"""What a scenario is given: what was asked for, where its files go, and what is shared by all of a run."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import cluster
from bench.peers import Unavailable, measured
from bench.peers.postgres import postgres
from bench.service import Running, serving
from bench.table import CLUSTER, OURS, Report


class Context:
    """One run."""

    def __init__(self, report: Report, asked: argparse.Namespace, folder: Path) -> None:
        self.report = report
        self.asked = asked
        self.folder = folder
        self.kept: dict[str, dict[str, Any]] = {}
        """What a peer found that another scenario would measure again."""
        self.scenario = ""
        """Which one is being measured."""
        self._longest_s: dict[tuple[str, str], tuple[float, float]] = {}
        """By scenario and by who was measured: the longest iteration of a leader's loop, and apart from the journal."""
        self._open = contextlib.ExitStack()
        self._places = 0

    def close(self) -> None:
        self._open.close()

    def place(self, name: str) -> Path:
        """A path that nobody has used yet."""
        self._places += 1
        return self.folder / f"{self._places:02d}-{name}"

    @functools.cached_property
    def dsn(self) -> str:
        """A Postgres for all scenarios: as long as nobody asks it anything it does nothing."""
        return self._open.enter_context(postgres(self.place("postgres")))

    def peer(self, peer: str, *words: object) -> dict[str, Any] | str:
        """What a peer's program found, or why it could not."""
        try:
            more = ("--dsn", self.dsn) if peer == "pgqueuer" else ()
            return measured(peer, *words, *more)
        except Unavailable as missing:
            return _told(peer, str(missing))

    @contextlib.contextmanager
    def replicas(self) -> Iterator[Running | None]:
        """The leader of three. None: not here, and the report says why."""
        with self.all_replicas() as found:
            yield found[0] if found else None

    @contextlib.contextmanager
    def all_replicas(self) -> Iterator[list[Running]]:
        """Three replicas, the leader first. None: not here, and the report says why."""
        if self.asked.without_cluster:
            yield []
        elif not cluster.is_possible():
            self.report.note(f"three replicas were not measured: {cluster.MISSING}")
            yield []
        else:
            with cluster.three(self.place("cluster")) as three:
                leader = three.until_leader()
                followers = [replica for replica in three if replica is not leader]
                found = [cluster.running(replica) for replica in (leader, *followers)]
                yield found
                self.note_longest(CLUSTER, found)

    @contextlib.contextmanager
    def alone(self, *options: str) -> Iterator[Running]:
        with serving(self.place("data"), *options) as service:
            found = service.running()
            yield found
            self.note_longest(OURS, [found])

    def note_longest(self, who: str, services: Sequence[Running]) -> None:
        key = self.scenario, who
        for service in services:
            with contextlib.suppress(OSError):  # it was killed, as some scenarios do
                former, found = self._longest_s.get(key, (0.0, 0.0)), service.longest_s()
                self._longest_s[key] = max(former[0], found[0]), max(former[1], found[1])

    def tell_longest(self) -> None:
        """How long the leader's loop was busy at most, scenario by scenario."""
        for (scenario, who), (longest_s, worked_s) in self._longest_s.items():
            self.report.add(
                f"longest loop iteration, {scenario}",
                who,
                longest_s * 1000,
                "ms",
                less_is_better=True,
                note=f"at most {worked_s * 1000:.0f} ms apart from waiting for the journal",
            )
        for number, what in enumerate(("", ", apart from waiting for the journal")):
            longest = max((found[number] for found in self._longest_s.values()), default=None)
            reached = None if longest is None else longest * 1000
            self.report.goal(f"longest loop iteration of all{what}", reached, 200, "ms", less=True)


def _told(peer: str, reason: str) -> str:
    if "No module named" in reason:
        return f"{reason}: pip install -e '.[bench]'"
    return reason or f"{peer} could not be measured"
