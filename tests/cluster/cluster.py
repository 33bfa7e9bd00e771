"""Three replicas as people run them: processes of their own, each with its own etcd, to be killed, paused, lost."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cluster import processes
from tests.cluster.places import Place, inside
from tests.cluster.waiting import PATIENCE_S, until

_ROOT = Path(__file__).parents[2]
_SNAPSHOT_INTERVAL = "5s"
"""Short, so that trimming, and digests of whole snapshots, are part of every test."""
_ASK_EVERY_S = 0.2
UNHEARD = (OSError, http.client.HTTPException)
"""What asking a replica ends with that is down, paused or cut off."""


class Refused(Exception):
    """A replica answered, and it was not what was asked for."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode(errors='replace')[:500]}")
        self.status = status


class Replica:
    """One replica: its process, its etcd, its data directory and its log."""

    def __init__(self, name: str, place: Place, folder: Path, options: list[str]) -> None:
        self.name = name
        self.place = place
        self.data = folder / name
        self.log_path = folder / f"{name}.log"
        self.environment: dict[str, str] = {}
        """What it is started with beside what every process here has."""
        self.module = "tocsin"
        self.process: subprocess.Popen[bytes] | None = None
        self._options = options

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.place.api_port}"

    def start(self, *more: str) -> None:
        assert not self.is_running(), f"{self.name} runs already"
        command = [*self.place.command, sys.executable, "-m", self.module, "serve", "--data", str(self.data)]
        command += [
            "--listen",
            f"127.0.0.1:{self.place.api_port}",
            "--name",
            self.name,
            *(["--allow-exec", "yes", "--exec-users", "*"] if self.place.namespace else []),
            *self._options,
            *more,
        ]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env={**inherited, **self.environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_awake(self) -> bool:
        return self.is_running() and not processes.stopped(self.pid)

    def kill(self) -> None:
        """SIGKILL to Tocsin alone: its etcd and its commands live on."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        until(lambda: processes.stopped(self.pid), f"{self.name} to be stopped")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        assert self.is_running(), f"{self.name} does not run:\n{self.log()[-2000:]}"
        os.kill(self.pid, number)

    def etcd_pids(self) -> list[int]:
        return processes.found("etcd", self.data)

    def signal_etcd(self, number: signal.Signals) -> None:
        pids = until(self.etcd_pids, f"the etcd of {self.name}")
        for pid in pids:
            processes.send(pid, number)

    def kill_etcd(self) -> None:
        """Whatever runs on this replica's data. What its supervisor starts afterwards is another one."""
        pids = self.etcd_pids()
        for pid in pids:
            processes.send(pid, signal.SIGKILL)
        until(lambda: not any(processes.alive(pid) for pid in pids), f"the etcd of {self.name} to die")

    def etcd_term(self) -> int:
        """The newest term of the etcds in which this replica's led them, as its log says; 0: in none."""
        log = self.data / "member" / "etcd.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        return max((int(term) for term in re.findall(r"became leader at term (\d+)", said)), default=0)

    def crash(self) -> None:
        """The machine is gone: Tocsin first, so that nobody starts etcd again."""
        if self.is_running():
            self.kill()
        self.kill_etcd()

    def wipe(self) -> None:
        """The disk is lost, too."""
        self.crash()

        def gone() -> bool:
            """Commands that outlived it may still write there."""
            shutil.rmtree(self.data, ignore_errors=True)
            return not self.data.exists()

        until(gone, f"the data of {self.name} to be gone")

    def call(self, method: str, path: str, body: object = None, *, timeout_s: float = 5.0) -> Any:
        """One request to this very replica. Raises Refused for an answer of 400 or more."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if content else {}
        if self.place.namespace:
            headers["authorization"] = f"Bearer {self._token()}"
        with inside(self.place.namespace):
            connection = http.client.HTTPConnection("127.0.0.1", self.place.api_port, timeout=timeout_s)
            connection.connect()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            found = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise Refused(response.status, found)
        return json.loads(found) if found and "json" in (response.getheader("content-type") or "") else found

    def _token(self) -> str:
        """Where replicas have addresses of their own, callers need a token: it lies beside one of them."""
        found = sorted(self.data.parent.glob("*/admin.token"))
        return found[0].read_text().strip() if found else "none-yet"

    def ask(self, path: str, timeout_s: float = 2.0) -> Any:
        """What it answers; None: nothing, or that it cannot tell."""
        if not self.is_awake():
            return None
        try:
            return self.call("GET", path, timeout_s=timeout_s)
        except (*UNHEARD, Refused):
            return None

    def launches(self, **filters: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            query = urllib.parse.urlencode({"limit": "1000", "cursor": cursor, **filters})
            page = self.call("GET", "/v1/launches?" + query)
            yield from page["items"]
            cursor = page["cursor"]
            if not cursor:
                return

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


class Cluster:
    """The replicas together. ``closing()`` ends every process that was started here, and what those left behind."""

    def __init__(self, folder: Path, places: Mapping[str, Place], *options: str) -> None:
        secret = folder / "cluster.secret"
        secret.write_text(os.urandom(32).hex() + "\n")
        secret.chmod(0o600)
        members = ",".join(f"{name}={place.peer}" for name, place in places.items())
        shared = ["--cluster", members, "--cluster-secret", str(secret)]
        shared += ["--snapshot-interval", _SNAPSHOT_INTERVAL, *options]
        self.folder = folder
        self.replicas = {name: Replica(name, place, folder, shared) for name, place in places.items()}

    def __getitem__(self, name: str) -> Replica:
        return self.replicas[name]

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.replicas.values())

    def start(self) -> None:
        for replica in self:
            if not replica.is_running():
                replica.start()
        self.until_healthy(120)

    def leader(self) -> Replica | None:
        """The replica that says of itself that it leads, in the newest term."""
        best: tuple[int, Replica] | None = None
        for replica in self:
            status = replica.ask("/v1/status")
            is_it = status is not None and status["leader"] == replica.name
            if is_it and (best is None or status["term"] > best[0]):
                best = status["term"], replica
        return best and best[1]

    def until_leader(self, patience_s: float = PATIENCE_S, *, other_than: str = "") -> Replica:
        def other() -> Replica | None:
            found = self.leader()
            return None if found is None or found.name == other_than else found

        return until(other, "a leader", patience_s, every_s=_ASK_EVERY_S)

    def followers(self) -> list[Replica]:
        leader = self.until_leader()
        return [replica for replica in self if replica is not leader]

    def etcd_leader(self) -> Replica:
        """The one whose etcd leads the etcds. It need not be the one that leads."""
        return max(self, key=Replica.etcd_term)

    def is_healthy(self) -> bool:
        """All run, agree on who leads, and are as far as each other, give or take what is under way."""
        self.check_running()
        found = [replica.ask("/v1/status") for replica in self]
        if any(status is None for status in found):
            return False
        sequences = [status["sequence"] for status in found]
        terms = {(status["leader"], status["term"]) for status in found}
        return len(terms) == 1 and terms != {("", 0)} and max(sequences) - min(sequences) <= 20

    def until_healthy(self, patience_s: float = 90) -> Replica:
        """Bring back what was killed, paused or stopped, and wait until nobody could tell."""
        for replica in self:
            if not replica.is_running():
                replica.start()
            elif processes.stopped(replica.pid):
                replica.resume()
            for pid in replica.etcd_pids():
                if processes.stopped(pid):
                    processes.send(pid, signal.SIGCONT)
        until(self.is_healthy, "three replicas that agree", patience_s, every_s=_ASK_EVERY_S)
        return self.until_leader()

    def step_down(self) -> None:
        """As a person does it, at any replica that is awake."""
        replica = next(replica for replica in self if replica.is_awake())
        command = [*replica.place.command, sys.executable, "-m", "tocsin", "cluster", "step-down"]
        done = subprocess.run(
            [*command, "--url", replica.url],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def make_leader(self, name: str) -> Replica:
        """Hand the office to this one: the third sleeps meanwhile, so that it cannot be faster."""
        leader = self.until_leader()
        if leader.name != name:
            (third,) = [replica for replica in self if replica is not leader and replica.name != name]
            third.pause()
            try:
                self.step_down()
                until(lambda: self.leader() is self[name], f"{name} to lead")
            finally:
                third.resume()
        self.until_healthy()
        return self[name]

    def check_running(self) -> None:
        """A replica that has ended by itself is worth more than a time-out."""
        for replica in self:
            if replica.process is not None and replica.process.poll() is not None:
                raise AssertionError(
                    f"{replica.name} ended with {replica.process.returncode}:\n{replica.log()[-1000:]}"
                )

    def close(self) -> None:
        for replica in self:
            if replica.is_running():
                replica.kill()
        for replica in self:
            while replica.etcd_pids():
                replica.kill_etcd()
