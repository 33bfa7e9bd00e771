"""Real etcd servers on this machine, for tests: one or several, which can be killed, stopped and started again."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.needs import lacking
from tests.ports import own_ports

from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint

_PATIENCE_S = 30.0


class EtcdServer:
    """One server with its own folder and ports."""

    def __init__(self, name: str, folder: Path, client_port: int, peer_port: int, health_port: int) -> None:
        self.name = name
        self.folder = folder
        self.client_port = client_port
        self.peer_port = peer_port
        self.health_port = health_port
        self.process: subprocess.Popen[bytes] | None = None
        self.command: list[str] = []

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.client_port)

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def file_bytes(self) -> int:
        return (self.folder / "member" / "snap" / "db").stat().st_size

    def start(self) -> None:
        with (self.folder.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL ends it, SIGSTOP leaves it hanging with its connections open, SIGCONT lets it go on."""
        assert self.process is not None
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(_PATIENCE_S)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)


class EtcdCluster:
    """Servers that form one etcd cluster."""

    def __init__(self, servers: Sequence[EtcdServer], scheme: str) -> None:
        self.servers = list(servers)
        self.scheme = scheme

    @property
    def endpoints(self) -> list[Endpoint]:
        return [server.endpoint for server in self.servers]

    @property
    def url(self) -> str:
        """For ``--journal``; a prefix or options may be added."""
        return "etcd://" + ",".join(str(endpoint) for endpoint in self.endpoints)

    def client(self) -> EtcdClient:
        return EtcdClient(self.endpoints)

    def ctl(self, *words: str) -> str:
        """etcd's own command line, at the first server."""
        program = shutil.which("etcdctl") or lacking("etcdctl is not installed")
        command = [program, "--endpoints", f"{self.scheme}://{self.servers[0].endpoint}", *words]
        done = subprocess.run(
            command, env={"ETCDCTL_API": "3"}, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
        return done.stdout


@contextlib.contextmanager
def etcd(
    folder: Path, count: int = 1, scheme: str = "http", options: Sequence[str] = ()
) -> Iterator[EtcdCluster]:
    """A cluster that has a leader, with more options of etcd if they are wanted."""
    program = shutil.which("etcd") or lacking("etcd is not installed")
    for _ in range(3):
        cluster = _prepared(program, folder, count, scheme, options)
        try:
            for server in cluster.servers:
                server.start()
            if _is_up(cluster):
                yield cluster
                return
        finally:
            for server in cluster.servers:
                server.end()
        shutil.rmtree(folder)  # another process took one of its ports: once more with others
    raise AssertionError(f"etcd did not start: see the logs in {folder}")


def _prepared(program: str, folder: Path, count: int, scheme: str, options: Sequence[str]) -> EtcdCluster:
    folder.mkdir(parents=True, exist_ok=True)
    ports = own_ports(3 * count)
    servers = [
        EtcdServer(f"etcd{at}", folder / f"etcd{at}", *ports[3 * at : 3 * at + 3]) for at in range(count)
    ]
    everyone = ",".join(f"{server.name}={server.peer_url}" for server in servers)
    for server in servers:
        here = f"{scheme}://{server.endpoint}"
        server.command = [
            *(program, "--name", server.name, "--data-dir", str(server.folder)),
            *("--listen-client-urls", here, "--advertise-client-urls", here),
            *("--listen-peer-urls", server.peer_url, "--initial-advertise-peer-urls", server.peer_url),
            *("--listen-metrics-urls", f"http://127.0.0.1:{server.health_port}"),
            *("--initial-cluster", everyone, "--initial-cluster-token", folder.name),
            *("--heartbeat-interval", "100", "--election-timeout", "1000", "--logger", "zap"),
            *options,
        ]
    return EtcdCluster(servers, scheme)


def _is_up(cluster: EtcdCluster) -> bool:
    """False: a server has ended."""
    deadline = time.monotonic() + _PATIENCE_S
    waiting = list(cluster.servers)
    while waiting and time.monotonic() < deadline:
        for server in cluster.servers:
            if server.process is None or server.process.poll() is not None:
                return False
        waiting = [server for server in waiting if not _serves(server)]
        time.sleep(0.05)
    return not waiting


def _serves(server: EtcdServer) -> bool:
    """etcd calls itself healthy when it can read with a majority."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.health_port}/health", timeout=2) as answer:
            return b'"true"' in answer.read()
    except OSError:
        return False


def damage_log(data: Path) -> None:
    """As a bad block of the disk does: an etcd that is started with this data ends at once, always. The byte is one of
    the first record that has a checksum. Damage that looks like an append that was cut off would be repaired."""
    (log, *_) = sorted((data / "member" / "wal").glob("*.wal"))
    with log.open("r+b") as file:
        file.seek(40)
        (found,) = file.read(1)
        file.seek(40)
        file.write(bytes([found ^ 0xFF]))
