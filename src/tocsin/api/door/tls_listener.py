"""Takes connections that are to speak TLS, and counts them from their first moment.

asyncio tells of such a connection only when both sides have shaken hands. Until then nobody would count it, and a
client that never answers would hold a descriptor each time: a thousand of them would leave none for launches. So each
is a guest of the lobby while it shakes hands, without a request, and makes room for others like any that waits.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable

import structlog

from tocsin.api.door.lobby import Lobby, Stage
from tocsin.api.door.tls import Certificate

log = structlog.get_logger()

_AGAIN_S = 0.1


class TlsListener:
    """In place of an ``asyncio.Server``."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[..., asyncio.Protocol],
        shown: Certificate,
        lobby: Lobby,
        backlog: int,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._shown = shown
        self._lobby = lobby
        self._shaking: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        listener.listen(backlog)
        self._accepting = asyncio.create_task(self._accept(), name="accept")

    def close(self) -> None:
        self._accepting.cancel()
        for task in self._shaking:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._shaking, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as wrong:  # the client is gone already, or there is no descriptor
                log.warning("a connection could not be accepted", reason=wrong.strerror)
                await asyncio.sleep(_AGAIN_S)
                continue
            guest = _Handshake(address[0], loop.time(), self._lobby)
            guest.task = task = loop.create_task(self._shake_hands(connection, guest))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)
            self._lobby.enter(guest)

    async def _shake_hands(self, connection: socket.socket, guest: _Handshake) -> None:
        """From then on the connection is a guest of its own."""
        most_s = self._lobby.patience.head_s
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                functools.partial(self._protocol, on_made=guest.leave),
                connection,
                ssl=self._shown.context,
                ssl_handshake_timeout=most_s,
                ssl_shutdown_timeout=most_s,
            )
        except OSError:  # among them all that is wrong with TLS, and no answer in time
            return
        finally:
            guest.leave()


class _Handshake:
    """A connection that does not speak HTTP yet, as the lobby sees it."""

    stage = Stage.WAITING

    def __init__(self, peer: str, since: float, lobby: Lobby) -> None:
        self.peer = peer
        self.since = since
        self._lobby = lobby
        self.task: asyncio.Task[None] | None = None

    def is_unread(self) -> bool:
        return False

    def is_slow(self) -> bool:
        return False

    def is_uninvited(self) -> bool:
        return False

    def leave(self) -> None:
        self._lobby.leave(self)

    def give_up(self) -> None:
        self.leave()
        if self.task is not None:
            self.task.cancel()

    def take_turn(self) -> bool:
        return False
