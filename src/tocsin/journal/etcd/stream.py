"""One exchange of gRPC messages on a channel, and how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol
from urllib.parse import unquote

from tocsin.journal.etcd.failures import UNAVAILABLE, Lost, NotSent, Said

STREAM_WINDOW = 8 << 20
_MESSAGE_BYTES_MAX = 1 << 30
_OK = 0


class Carrier(Protocol):
    """The channel, as a stream sees it."""

    async def send(self, stream: Stream, data: bytes, last: bool) -> None: ...

    def consumed(self, stream: Stream, size: int) -> None: ...


class Stream:
    """One exchange on a channel."""

    def __init__(self, carrier: Carrier, number: int) -> None:
        self._carrier = carrier
        self.number = number
        self.is_sent = False
        """A whole message is out, as far as we can tell."""
        self.ended = False
        self.owed = 0
        """Bytes that were read and whose room the server has not got back yet."""
        self.deadline: asyncio.Timeout | None = None
        self.deadline_s = 0.0
        self._headers: dict[str, str] = {}
        self._buffer = bytearray()
        self._messages: deque[bytes] = deque()
        self._ahead = 0
        """Room that was given for a large message before it was read."""
        self._changed = asyncio.Event()
        self._broken: Lost | NotSent | None = None

    async def send(self, body: bytes, last: bool = False) -> None:
        await self._carrier.send(self, b"\0" + len(body).to_bytes(4, "big") + body, last)

    async def receive(self) -> bytes:
        """The next message. Raises Lost, NotSent, or Said when the server ended it with an error."""
        while not self._messages:
            if self._broken is not None:
                raise self._broken
            if self.ended:
                raise self._final()
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        size = len(message) + 5
        ahead = min(self._ahead, size)
        self._ahead -= ahead
        self._carrier.consumed(self, size - ahead)
        return message

    async def only_message(self) -> bytes:
        """The answer to a call: what came before the status, if that is good."""
        while not self.ended:
            if self._broken is not None:
                raise self._broken
            self._changed.clear()
            await self._changed.wait()
        if self._headers.get("grpc-status") == str(_OK) and self._messages:
            return self._messages[0]
        raise self._final()

    def failure(self, why: str) -> Lost | NotSent:
        """What it means that it went wrong now."""
        return Lost(why) if self.is_sent else NotSent(why)

    # Called by the channel

    def on_headers(self, headers: dict[str, str]) -> None:
        self._headers |= headers
        self._progress()

    def on_data(self, data: bytes, size: int) -> None:
        self._buffer += data
        padding = size - len(data)
        self._carrier.consumed(self, padding)
        while len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[1:5], "big")
            if length > _MESSAGE_BYTES_MAX or self._buffer[0]:
                self.on_reset("it sent a message that cannot be read", unseen=False)
                return
            if len(self._buffer) < 5 + length:
                self._make_way(5 + length)
                break
            self._messages.append(bytes(self._buffer[5 : 5 + length]))
            del self._buffer[: 5 + length]
        self._progress()

    def on_end(self) -> None:
        self.ended = True
        self._changed.set()

    def on_reset(self, why: str, unseen: bool) -> None:
        if not self.ended and self._broken is None:
            self._broken = NotSent(why) if unseen else self.failure(why)
        self._changed.set()

    def _make_way(self, size: int) -> None:
        """A message larger than the window must not wait for its own end."""
        if size > STREAM_WINDOW // 2 and not self._ahead:
            self._ahead = size
            self._carrier.consumed(self, size)

    def _progress(self) -> None:
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.deadline_s)
        self._changed.set()

    def _final(self) -> Said | Lost:
        status = self._headers.get("grpc-status", "")
        if not status.isdigit():
            return Lost(f"no etcd answered, but something with HTTP status {self._headers.get(':status')}")
        return Said(int(status) or UNAVAILABLE, unquote(self._headers.get("grpc-message", "")))
