"""``make cluster``: what it prints can be typed, and does what it says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.processes import found
from tests.cluster.waiting import until
from tests.needs import program
from tests.ports import own_ports

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / "deploy" / "local_cluster.py"


class Terminal:
    """The script as somebody runs it, and what it has printed so far."""

    def __init__(self, folder: Path) -> None:
        self.data, self._log = folder / "cluster", folder / "terminal.log"
        self._api_port = own_ports(26)[0]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self._command(self.data), stdout=log, stderr=log, cwd=_ROOT)

    def _command(self, data: Path) -> list[str]:
        ports = ["--api-port", str(self._api_port), "--cluster-port", str(self._api_port + 3)]
        return [sys.executable, str(_SCRIPT), "--example", "--data", str(data), *ports]

    def second(self, data: Path) -> subprocess.CompletedProcess[str]:
        """Somebody types the same again, in another terminal."""
        return subprocess.run(
            self._command(data), capture_output=True, text=True, timeout=30, cwd=_ROOT, check=False
        )

    def text(self) -> str:
        return self._log.read_text()

    def leader(self) -> tuple[str, int]:
        """The last one that it named: its name, and the process that is to be killed."""
        name, pid = re.findall(
            r"^=> ([abc]) leads, term \d+\. To kill it: kill -9 (\d+)$", self.text(), re.M
        )[-1]
        return name, int(pid)

    def until_leader(self, other_than: str = "") -> tuple[str, int]:
        def another() -> tuple[str, int] | None:
            with contextlib.suppress(IndexError):
                if self.leader()[0] != other_than:
                    return self.leader()
            return None

        assert self.process.poll() is None, self.text()
        return until(another, "a leader")

    def launches(self) -> list[str]:
        """What the commands themselves have written down."""
        log = self.data / "seconds.log"
        return re.findall(r"example/every-second-(\d+), term", log.read_text()) if log.exists() else []

    def number(self, replica: str, metric: str) -> float:
        url = f"http://127.0.0.1:{self._api_port + 'abc'.index(replica)}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            (found,) = re.findall(rf"^{metric} (\S+)$", answer.read().decode(), re.M)
        return float(found)

    def left(self) -> list[int]:
        return found("etcd", self.data) + found(Path(sys.executable).name, self.data)


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Terminal]]:
    """All that were opened here."""
    program("etcd", "etcd-server")
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        for pid in one.left():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def terminal(terminals: list[Terminal], tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """The one that runs; a new one where a test has ended it."""
    if not terminals or terminals[-1].process.poll() is not None:
        terminals.append(Terminal(tmp_path_factory.mktemp("terminal")))
    return terminals[-1]


def a_second_one_is_refused_and_leaves_the_first_alone(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until_leader()
    before = found("etcd", terminal.data)
    same_folder, same_ports = terminal.second(terminal.data), terminal.second(tmp_path / "other")
    assert same_folder.returncode == same_ports.returncode == 2
    assert f"Another 'make cluster' uses {terminal.data}" in same_folder.stdout
    assert "Another program listens on 127.0.0.1, port " in same_ports.stdout
    assert "The cluster is up" not in same_folder.stdout + same_ports.stdout
    assert len(before) == 3
    assert found("etcd", terminal.data) == before, "nobody was ended or started"
    count = len(terminal.launches())
    until(lambda: len(terminal.launches()) >= count + 2, "launches that go on")


def the_leader_can_be_killed_and_launches_go_on(terminal: Terminal) -> None:
    name, pid = terminal.until_leader()
    until(lambda: len(terminal.launches()) >= 3, "launches")
    os.kill(pid, signal.SIGKILL)
    new, _ = terminal.until_leader(other_than=name)
    before = len(terminal.launches())
    until(lambda: len(terminal.launches()) >= before + 3, "launches that go on")
    assert len(set(terminal.launches())) == len(terminal.launches()), "nothing twice"
    assert terminal.number(new, "tocsin_leader") == 1
    assert terminal.number(new, "tocsin_term") >= 2
    until(lambda: terminal.number(new, "tocsin_peers_reachable") == 1, "the leader to miss one", every_s=0.5)
    assert terminal.number(new, "tocsin_peers") == 2
    assert f"{name} was killed by signal 9" in terminal.text()


def ctrl_c_leaves_nothing_running(terminal: Terminal) -> None:
    """Also of a replica that was killed, and whose etcd waits for it to come back."""
    name, pid = terminal.until_leader()
    killed = f"{name} was killed by signal 9. It is started again"
    before = terminal.text().count(killed)
    os.kill(pid, signal.SIGKILL)
    until(lambda: terminal.text().count(killed) > before, "the killed one to be noticed")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(60) == 0, terminal.text()
    assert terminal.left() == []
    secret = terminal.data / "cluster.secret"
    assert secret.stat().st_mode & 0o777 == 0o600


def a_second_ctrl_c_does_not_wait_for_one_that_does_not_end(terminal: Terminal) -> None:
    _, pid = terminal.until_leader()
    os.kill(pid, signal.SIGSTOP)
    terminal.process.send_signal(signal.SIGINT)
    until(lambda: "Stopping all three" in terminal.text(), "the first Ctrl-C to be heard")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(15) == 0, terminal.text()
    assert terminal.left() == []


def without_etcd_it_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), "--data", str(tmp_path / "cluster"), "--etcd", "no-such-program"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "apt-get install etcd-server" in done.stdout
    assert not (tmp_path / "cluster").exists()
