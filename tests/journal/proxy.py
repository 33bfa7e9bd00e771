"""A TCP proxy in front of a server, which can hold or lose what passes in either direction."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tocsin.journal.etcd.endpoints import Endpoint


class Proxy:
    """What clients send passes while ``requests`` is set, what the server answers while ``answers`` is."""

    def __init__(self, server: Endpoint) -> None:
        self._server = server
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.requests = asyncio.Event()
        self.answers = asyncio.Event()
        self.held = asyncio.Event()
        """Something is being held at this moment or was before."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.open()

    def open(self) -> None:
        self.requests.set()
        self.answers.set()
        self.held.clear()

    def cut(self) -> None:
        """Every connection breaks; what was held is lost, or passes if it was let go before."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._server)
        self._writers |= {writer, back}
        for source, target, gate in ((reader, back, self.requests), (there, writer, self.answers)):
            self._pumps.add(asyncio.create_task(self._pump(source, target, gate)))

    async def close(self) -> None:
        self.cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not gate.is_set():
                    self.held.set()
                    await gate.wait()
                target.write(data)
                await target.drain()
        target.close()


@contextlib.asynccontextmanager
async def proxy(server: Endpoint) -> AsyncIterator[Proxy]:
    made = Proxy(server)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.endpoint = Endpoint(*listening.sockets[0].getsockname())
    try:
        yield made
    finally:
        listening.close()
        await made.close()
