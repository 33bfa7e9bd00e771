"""A real service on a free loopback port, and a way to ask it that hides nothing."""

from __future__ import annotations

import copy
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

T = TypeVar("T")
START_TIMEOUT_S = 20


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """``tocsin serve`` as a process of its own."""

    def __init__(self, data: Path, *options: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tocsin",
                "serve",
                "--json",
                "--data",
                str(data),
                "--listen",
                "127.0.0.1:0",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=(data.parent / "log").open("wb"),
            env=environment,
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        assert ready, "the service did not become ready in time"
        line = self.process.stdout.readline()
        assert line, (data.parent / "log").read_text()
        self.url: str = json.loads(line)["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.log = data.parent / "log"
        self.data = data
        self.token = ""

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        raw: bool = False,
    ) -> Answer:
        """One request. ``body`` is sent as JSON, or as it is when ``raw``."""
        sent = dict(headers or {})
        if self.token:
            sent.setdefault("authorization", f"Bearer {self.token}")
        content: Any = body
        if body is not None and not raw:
            content = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            found = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def as_(self, token: str) -> Service:
        """The same service, asked with this token; empty: without any."""
        other = copy.copy(self)
        other.token = token
        return other

    def create(self, id: str, **fields: Any) -> Any:
        answer = self.ask("POST", "/v1/schedules", schedule(id, **fields))
        assert answer.status == 201, answer
        return answer.json

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(10)


def schedule(id: str, **fields: Any) -> dict[str, Any]:
    """A schedule that is not due in the life of a test."""
    return {"id": id, "cron": "0 0 29 2 *", "target": {"kind": "null"}, **fields}


def eventually(look: Callable[[], T], *, within_s: float = 10) -> T:
    """The first true answer, asked for again and again until it comes."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.02)  # only spares the processor between two looks


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("node") / "data")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that wants tokens, asked with that of its admin."""
    running = Service(tmp_path_factory.mktemp("guarded") / "data", "--tokens", "always")
    running.token = (running.data / "admin.token").read_text().strip()
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def wait() -> Callable[..., Any]:
    return eventually


@pytest.fixture
def sample() -> Callable[..., dict[str, Any]]:
    return schedule


@pytest.fixture
def start() -> Iterator[Callable[..., Service]]:
    """Services that a test starts and stops itself."""
    started: list[Service] = []

    def one(data: Path, *options: str) -> Service:
        started.append(Service(data, *options))
        return started[-1]

    yield one
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
