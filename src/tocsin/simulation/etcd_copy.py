"""The journal in a copy of a replica's own etcd, read without the others.

A private etcd is started on a copy of it: on loopback, without TLS, as the only member of a cluster of its own. It is
asked, and ended. The last entries may be missing: on the disk of one member nothing says that the others have them.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tocsin.errors import JournalUnavailable
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.member.program import clean_environment, find_program

PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.05
_STOP_S = 5.0
_ANSWER_S = 10.0


@contextlib.contextmanager
def etcd_journal(data: Path, program: str = "etcd") -> Iterator[EtcdJournal]:
    """Not yet open. Raises ClusterError where there is no fit etcd, JournalUnavailable if it does not start there."""
    found = find_program(program)
    with tempfile.TemporaryDirectory(prefix="tocsin-etcd-") as folder:
        copy = Path(folder) / "etcd"
        shutil.copytree(data, copy)
        peer, port = _free_ports(2)
        command = [
            found.path,
            f"--data-dir={copy}",
            "--name=replay",
            "--force-new-cluster",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=replay=http://127.0.0.1:{peer}",
            f"--listen-client-urls=http://127.0.0.1:{port}",
            f"--advertise-client-urls=http://127.0.0.1:{port}",
        ]
        log = Path(folder) / "log"
        with log.open("wb") as chatter:
            running = subprocess.Popen(
                command, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=chatter, stderr=chatter
            )
        try:
            asyncio.run(_until_it_answers(_client(port), running, log))
            yield EtcdJournal(_client(port), DEFAULT_PREFIX)
        finally:
            _end(running)


def _client(port: int) -> EtcdClient:
    return EtcdClient([Endpoint("127.0.0.1", port)], deadline_s=_ANSWER_S)


async def _until_it_answers(client: EtcdClient, running: subprocess.Popen[bytes], log: Path) -> None:
    """It takes connections long before it has read its data and elected itself."""
    until_s = time.monotonic() + PATIENCE_S
    try:
        while not await _answers(client):
            if running.poll() is not None:
                raise JournalUnavailable(f"etcd ended at once: {_last_words(log)}")
            if time.monotonic() > until_s:
                raise JournalUnavailable(f"etcd did not start in {PATIENCE_S:.0f} s: {_last_words(log)}")
            await asyncio.sleep(_LOOK_EVERY_S)
    finally:
        await client.close()


async def _answers(client: EtcdClient) -> bool:
    try:
        await client.range(b"anything")
    except JournalUnavailable:
        return False
    return True


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    telling = [line for line in lines if "panic" in line or "fatal" in line.lower()] or lines[-1:]
    return telling[0][:300] if telling else "it did not say why"


def _end(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


def _free_ports(count: int) -> list[int]:
    """That nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
