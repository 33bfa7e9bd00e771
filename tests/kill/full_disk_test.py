"""A full disk: launches stop with a clear state, nothing acknowledged is lost, and it goes on by itself."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kill.receiver import ExecReceiver, HttpReceiver
from tests.kill.service import Service, wait_for
from tests.needs import lacking


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        lacking("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(place: Path) -> Path:
    """Take every last byte."""
    ballast = place / "ballast"
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), b"x" * 4096)
    with ballast.open("ab") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), b"x")
    return ballast


def _refused(service: Service, id: str) -> dict[str, object] | None:
    """The problem that an attempt to create a schedule met with, if any."""
    try:
        service.put({"id": id, "cron": "0 0 1 1 *", "target": {"kind": "null"}, "payload": "x" * 8_000})
    except urllib.error.HTTPError as refused:
        return {"status": refused.code, **json.loads(refused.read())}
    return None


def a_full_disk_stops_launches_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    calls, commands = HttpReceiver(), ExecReceiver(tmp_path / "commands.log")
    service = Service(small_disk / "data", "--snapshot-interval", "2s")
    try:
        service.start()
        service.wait_ready()
        service.put({"id": "call", "cron": "* * * * * *", "target": {"kind": "http", "url": calls.url}})
        command = {"kind": "exec", "shell": commands.shell()}
        service.put({"id": "command", "cron": "* * * * * *", "target": command, "missed": "all"})
        wait_for(lambda: len(calls.seen) > 2 and len(commands.seen) > 2, "the first launches")

        ballast = _fill(small_disk)
        acknowledged = _create_until_refused(service)
        wait_for(lambda: not _ready(service), "readiness to turn red")
        stopped = len(calls.seen)
        status = service.status()
        assert any("no room" in issue or "full" in issue for issue in status["issues"]), status["issues"]
        moment = time.time()
        wait_for(lambda: time.time() > moment + 7, "time to pass without room")
        assert len(calls.seen) - stopped <= 2, "launches must stop when they cannot be written down"

        ballast.unlink()
        service.wait_ready()
        seen = len(calls.seen), len(commands.seen)
        wait_for(lambda: len(calls.seen) > seen[0] + 2, "calls to go on by themselves")
        wait_for(lambda: len(commands.seen) > seen[1] + 2, "commands to go on by themselves")
        held = {item["id"] for item in service.call("GET", "/v1/schedules?limit=1000")["items"]}
        assert set(acknowledged) <= held, "an acknowledged schedule is gone"

        service.kill()
        service.start()
        service.wait_ready()
        held = {item["id"] for item in service.call("GET", "/v1/schedules?limit=1000")["items"]}
        assert set(acknowledged) <= held, "an acknowledged schedule did not survive"
        doubled = Counter(found.name for found in [*calls.seen, *commands.seen])
        assert {name: count for name, count in doubled.items() if count > 1} == {}
        assert service.stop() == 0
    finally:
        service.close()
        calls.close()


def a_start_on_a_full_disk_waits_for_room(small_disk: Path, tmp_path: Path) -> None:
    commands = ExecReceiver(tmp_path / "commands.log")
    service = Service(small_disk / "data")
    try:
        service.start()
        service.wait_ready()
        command = {"kind": "exec", "shell": commands.shell()}
        service.put({"id": "command", "cron": "* * * * * *", "target": command})
        wait_for(lambda: len(commands.seen) > 2, "the first launches")
        service.kill()
        ballast = _fill(small_disk)
        service.start()
        wait_for(
            lambda: "cannot take office yet" in service.log(), "the service to find that there is no room"
        )
        ballast.unlink()
        service.wait_ready()
        seen = len(commands.seen)
        wait_for(lambda: len(commands.seen) > seen, "commands to go on by themselves")
        assert service.stop() == 0
    finally:
        service.close()


def a_disk_that_takes_no_writes_turns_readiness_red(tmp_path: Path) -> None:
    """Stands for a file system that became read-only: what precedes each entry on the disk cannot be written."""
    service = Service(tmp_path / "data")
    try:
        service.start()
        service.wait_ready()
        (tmp_path / "data" / "offered").unlink()
        (tmp_path / "data" / "offered").mkdir()
        wait_for(lambda: _refused(service, "x") is not None, "a refusal")
        wait_for(lambda: not _ready(service), "readiness to turn red")
        assert any("offered cannot be written" in issue for issue in service.status()["issues"])
        (tmp_path / "data" / "offered").rmdir()
        service.wait_ready()
    finally:
        service.close()


def _create_until_refused(service: Service) -> list[str]:
    """The ids that were acknowledged before there was no more room."""
    acknowledged = []
    for number in range(5_000):
        problem = _refused(service, f"filler/{number}")
        if problem is not None:
            assert problem["status"] == 503, problem
            assert problem["retryable"] is True
            return acknowledged
        acknowledged.append(f"filler/{number}")
    raise AssertionError("there was room for everything")


def _ready(service: Service) -> bool:
    try:
        service.call("GET", "/readyz", raw=True)
    except urllib.error.HTTPError as refused:
        if refused.code != 503:
            raise
        return False
    return True
