"""Takes the connections of other replicas, and bounds how many may shake hands at a time.

asyncio tells of a connection only when both sides have shaken hands. Until then nobody would count it: strangers that
connect and say nothing would take all descriptors, and nothing could be launched or written down. So only a few shake
hands at a time, and the eldest of them gives way to a new one. Whoever has shaken hands is a replica of this cluster.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

log = structlog.get_logger()

SHAKING_MAX = 64
_BACKLOG = 128
_AGAIN_S = 0.1


class PeerListener:
    """In place of an ``asyncio.Server``."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext,
        *,
        handshake_s: float,
        shutdown_s: float,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._handshake_s = handshake_s
        self._shutdown_s = shutdown_s
        self._shaking: dict[asyncio.Task[None], None] = {}
        """The eldest first."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept(), name="accept replicas")

    def close(self) -> None:
        self._accepting.cancel()
        for task in list(self._shaking):
            task.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as wrong:  # the other side is gone already, or there is no descriptor
                log.warning("a connection of a replica could not be accepted", reason=wrong.strerror)
                await asyncio.sleep(_AGAIN_S)
                continue
            if len(self._shaking) >= SHAKING_MAX:
                next(iter(self._shaking)).cancel()
            task = loop.create_task(self._shake_hands(connection))
            self._shaking[task] = None
            task.add_done_callback(lambda done: self._shaking.pop(done, None))

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=self._shutdown_s,
            )
        except (
            OSError,
            asyncio.CancelledError,
        ):  # all that is wrong with TLS, no answer in time, or it gave way
            return
