"""The real service as users start it: ``tocsin serve`` in a process of its own, or three of them with their etcds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import until

ROOT = Path(__file__).parents[1]
_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)


class Seen(NamedTuple):
    """What the record says of a herd."""

    number: int
    first_start_s: float
    last_start_s: float
    last_end_s: float


class Running(NamedTuple):
    """Where a service is that somebody has started, alone or with others."""

    url: str
    state: Path
    pid: int
    log_path: Path

    def term(self) -> int:
        return int(json.loads(get(self.url, "/v1/status"))["term"])

    def absences(self) -> float:
        return metrics_of(self.url)["tocsin_absences_total"]

    def longest_s(self) -> tuple[float, float]:
        """Of all iterations of the leader's loop, and apart from waiting for the journal."""
        found = metrics_of(self.url)
        return found["tocsin_loop_longest_iteration_seconds"], found["tocsin_loop_longest_work_seconds"]


class Service:
    """One process. What it is asked here goes over HTTP; only what it recorded is read from its file."""

    def __init__(self, data: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.data = data
        self._options = options
        self._environment = dict(environment or {})
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log_path(self) -> Path:
        return self.data.with_suffix(".log")

    def start(self, patience_s: float = 600) -> float:
        """Seconds until it is ready."""
        began = time.monotonic()
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}
        words = ["serve", "--json", "--data", str(self.data), "--listen", "127.0.0.1:0", "--rate-limit", "0"]
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tocsin", *words, *self._options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**kept, **self._environment},
            )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        if not told:
            raise RuntimeError(f"the service did not start:\n{self.log()[-2000:]}")
        self.url = json.loads(told)["url"]
        until(self.is_ready, "the service to be ready", patience_s, every_s=0.02)
        return time.monotonic() - began

    def stop(self) -> float:
        """In good order; the seconds that took."""
        began = time.monotonic()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()
        return time.monotonic() - began

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def is_ready(self) -> bool:
        try:
            return bool(get(self.url, "/readyz", timeout_s=5))
        except OSError:
            return False

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(get(self.url, "/v1/status"))
        return found

    def metrics(self) -> dict[str, float]:
        return metrics_of(self.url)

    @property
    def state(self) -> Path:
        return self.data / "state.db"

    @property
    def journal(self) -> Path:
        return self.data / "journal.db"

    def running(self) -> Running:
        return Running(self.url, self.state, self.pid, self.log_path)


@contextlib.contextmanager
def serving(data: Path, *options: str) -> Iterator[Service]:
    service = Service(data, *options)
    try:
        service.start()
        yield service
    finally:
        service.stop()


def get(url: str, path: str, timeout_s: float = 60) -> bytes:
    with urllib.request.urlopen(url + path, timeout=timeout_s) as answer:
        found: bytes = answer.read()
        return found


def metrics_of(url: str) -> dict[str, float]:
    """Every sample by its name and labels, ``name{a="b"}``."""
    text = get(url, "/metrics").decode()
    return {
        f"{name}{{{labels}}}" if labels else name: float(value)
        for name, labels, value in _SAMPLE.findall(text)
    }


def succeeded(url: str, kind: str) -> int:
    """How many launches of this kind of target have ended well since the service started."""
    found = metrics_of(url)
    return int(
        sum(
            value
            for name, value in found.items()
            if name.startswith("tocsin_launches_total{") and f'"{kind}"' in name and '"succeeded"' in name
        )
    )


def recorded(state: Path, due_s: int, until_s: int | None = None) -> Seen:
    """What the state file says of the launches for that second (or for those up to ``until_s``)."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as db:
        row = db.execute(
            "SELECT count(*), min(started_ms), max(started_ms), max(ended_ms) FROM launch "
            "WHERE instant_s BETWEEN ? AND ? AND state = 10",
            (due_s, due_s if until_s is None else until_s),
        ).fetchone()
    return Seen(row[0], *((number or 0) / 1000 for number in row[1:]))


def lateness_ms(before: Mapping[str, float], after: Mapping[str, float], share: float) -> float:
    """A percentile of the time from the planned moment to the durable start, between two looks at the metrics. The
    histogram counts every launch; within a bucket they are taken to be spread evenly."""
    bounds = []
    for name, value in after.items():
        if name.startswith("tocsin_lateness_seconds_bucket"):
            bound = name.partition('le="')[2].partition('"')[0]
            bounds.append((float(bound.replace("+Inf", "inf")), value - before.get(name, 0.0)))
    bounds.sort()
    wanted = share * bounds[-1][1]
    former_s, former = 0.0, 0.0
    for bound_s, number in bounds:
        if number >= wanted and number > former:
            if bound_s == float("inf"):
                return former_s * 1000
            return (former_s + (bound_s - former_s) * (wanted - former) / (number - former)) * 1000
        former_s, former = bound_s, number
    return 0.0
