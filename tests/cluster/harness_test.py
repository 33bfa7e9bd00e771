"""The tools of the other tests here do what they say."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.cluster import processes
from tests.cluster.clockshift import ClockShift
from tests.cluster.network import Direction, Network, network
from tests.cluster.places import Place, inside, on_loopback
from tests.cluster.receiver import ExecReceiver, HttpReceiver
from tests.cluster.waiting import boot_s, until

_CLOCKS = """
import json, sys, time
for line in sys.stdin:
    print(json.dumps([time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()]), flush=True)
"""
BOTH: list[Direction] = ["both", "in", "out"]


def a_stepped_clock_moves_wall_time_alone(tmp_path: Path) -> None:
    shift = ClockShift(tmp_path)
    environment = {**os.environ, **shift.environment}
    command = [sys.executable, "-c", _CLOCKS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for asked_s in (0, 3600, -3600, 0):
            shift.step(asked_s)
            process.stdin.write("what time is it?\n")
            process.stdin.flush()
            wall, boot, monotonic = json.loads(process.stdout.readline())
            assert abs(wall - time.time() - asked_s) < 1
            assert abs(boot - boot_s()) < 1
            assert abs(monotonic - time.monotonic()) < 1


def the_ports_of_replicas_do_not_overlap() -> None:
    places = on_loopback("abc")
    taken = [
        port for place in places.values() for port in (*range(place.port, place.port + 3), place.api_port)
    ]
    assert len(set(taken)) == 12


def a_process_is_found_by_the_folder_that_it_works_in(tmp_path: Path) -> None:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(["sleep", "60"])
    other = subprocess.Popen(["tail", "-f", str(tmp_path / "member" / "x"), "/dev/null"], stderr=quiet)
    try:
        until(lambda: processes.found("tail", tmp_path) == [other.pid], "the process to be found")
        assert processes.found("tail", tmp_path / "mem") == []
        assert processes.found("sleep", tmp_path) == []
        os.kill(other.pid, signal.SIGSTOP)
        until(lambda: processes.stopped(other.pid), "it to be stopped")
        assert not processes.stopped(process.pid)
    finally:
        for each in (process, other):
            each.kill()
            each.wait()
    assert not processes.alive(other.pid)
    assert not processes.send(other.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def wires() -> Iterator[Network]:
    with network("abc") as built:
        yield built


def _reaches(from_: str, to: Place) -> bool:
    with inside(from_):
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with probe, inside(to.namespace):
        heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with heard:
            heard.bind((to.host, 0))
            heard.settimeout(0.2)
            try:
                probe.sendto(b"?", (to.host, heard.getsockname()[1]))
                return heard.recv(1) == b"?"
            except (TimeoutError, PermissionError):
                return False


@pytest.mark.parametrize("direction", BOTH)
def a_cut_takes_away_the_way_to_the_others_and_nothing_else(wires: Network, direction: Direction) -> None:
    a, b, c = wires.places.values()
    switch = Place(wires.switch_host, 0, 0, wires.switch)
    assert _reaches(a.namespace, b)
    wires.cut("a", direction)
    assert _reaches(a.namespace, b) is (direction == "in")
    assert _reaches(b.namespace, a) is (direction == "out")
    assert _reaches(b.namespace, c)
    assert _reaches(a.namespace, switch)
    assert _reaches(a.namespace, a)
    wires.heal("a")
    assert _reaches(a.namespace, b)
    assert _reaches(b.namespace, a)


def no_address_of_the_network_is_seen_outside(wires: Network) -> None:
    seen = subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout
    assert "10.77." not in seen
    assert wires.places["a"].host.startswith("10.77.")


def receivers_keep_their_own_record(tmp_path: Path) -> None:
    calls, commands = HttpReceiver(tmp_path), ExecReceiver(tmp_path)
    try:
        for path, attempt in (("quick", 1), ("flaky", 1), ("flaky", 2)):
            headers = {"Idempotency-Key": f"{path}-7", "Tocsin-Attempt": str(attempt), "Tocsin-Term": "3"}
            request = urllib.request.Request(f"{calls.url}/{path}", b"x", headers, method="POST")
            refusal = pytest.raises(urllib.error.HTTPError, match="500")
            with refusal if (path, attempt) == ("flaky", 1) else nullcontext():
                urllib.request.urlopen(request, timeout=5).close()
            told = {"TOCSIN_LAUNCH": f"exec/{path}-7", "TOCSIN_ATTEMPT": str(attempt), "TOCSIN_TERM": "3"}
            line = commands.shell(flaky=path == "flaky")
            status = subprocess.run(["sh", "-c", line], env={**os.environ, **told}, check=False).returncode
            assert bool(status) is (attempt == 1 and path == "flaky")
        for prefix, seen in (("", calls.calls), ("exec/", commands.calls)):
            found = [(call.name, call.attempt, call.term, call.good) for call in seen]
            assert found == [
                (f"{prefix}quick-7", 1, 3, True),
                (f"{prefix}flaky-7", 1, 3, False),
                (f"{prefix}flaky-7", 2, 3, True),
            ]
            assert all(abs(call.at_s - boot_s()) < 5 for call in seen)
    finally:
        calls.close()
