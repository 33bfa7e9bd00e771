"""What a scenario is given: what was asked for, where its files go, and what is shared by all of a run."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import cluster
from bench.peers import Unavailable, measured
from bench.peers.postgres import postgres
from bench.service import Running, serving
from bench.table import Report


class Context:
    """One run."""

    def __init__(self, report: Report, asked: argparse.Namespace, folder: Path) -> None:
        self.report = report
        self.asked = asked
        self.folder = folder
        self.kept: dict[str, dict[str, Any]] = {}
        """What a peer found that another scenario would measure again."""
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
        if self.asked.without_cluster:
            yield None
        elif not cluster.is_possible():
            self.report.note(f"three replicas were not measured: {cluster.MISSING}")
            yield None
        else:
            with cluster.three(self.place("cluster")) as three:
                yield cluster.running(three.until_leader())

    @contextlib.contextmanager
    def alone(self, *options: str) -> Iterator[Running]:
        with serving(self.place("data"), *options) as service:
            yield service.running()


def _told(peer: str, reason: str) -> str:
    if "No module named" in reason:
        return f"{reason}: pip install -e '.[bench]'"
    return reason or f"{peer} could not be measured"
