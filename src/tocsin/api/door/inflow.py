"""What comes in on one connection: measured by the parser, and held back while nobody can take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl

CHUNKS_FREE = 256
"""So many chunks of a body may be of any size."""
CHUNK_BYTES_MEAN_MIN = 16
"""Of more than these the mean must be at least this: each chunk costs the parser as much as a kilobyte does."""
REST_BYTES_MAX = 64 * 1024
"""A rest of a body that is not wanted any more is read up to this, so that the connection can be kept."""
_CLOSE = b"\r\nconnection: close\r\n\r\n"


class MeasuredConnection(h11.Connection):
    """The parser, with a mind of what a request may cost. It refuses framing that two readers could read
    differently, and tells clients early when their connection will not be kept."""

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(h11.SERVER, head_bytes_max)
        self.is_chunked = False
        self.body_left = 0
        """Of a body of known length."""
        self.body_bytes = 0
        """So much of it has come."""
        self._chunks = 0
        self._head = b""
        """Of an answer whose body comes at once."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._begin(event)
        elif isinstance(event, h11.Data):
            self._count(event)
        return event

    def send(self, event: Any) -> Any:
        written = super().send(event)
        if isinstance(event, h11.Response) and event.status_code >= 400 and self.is_rest_too_long():
            # The parser is not told: it would have the connection closed at once, and its last word be lost.
            written = written.replace(b"\r\n\r\n", _CLOSE, 1)
        if isinstance(event, h11.Response) and _has_length(event):
            self._head = written
            return b""
        head, self._head = self._head, b""
        return head + written if head else written

    def is_rest_too_long(self) -> bool:
        """Is what is still to come of the body more than would be read only to keep the connection?"""
        if self.their_state is not h11.SEND_BODY:
            return False
        return self.is_chunked or self.they_are_waiting_for_100_continue or self.body_left > REST_BYTES_MAX

    def _begin(self, request: h11.Request) -> None:
        headers = dict(request.headers)
        self.is_chunked = b"transfer-encoding" in headers
        if self.is_chunked and b"content-length" in headers:
            raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding exclude each other")
        self.body_left = int(headers.get(b"content-length", b"0"))
        self._chunks = self.body_bytes = 0

    def _count(self, data: h11.Data) -> None:
        size = len(data.data)
        self.body_left = max(0, self.body_left - size)
        self.body_bytes += size
        self._chunks += data.chunk_start
        if self._chunks > CHUNKS_FREE and self.body_bytes < self._chunks * CHUNK_BYTES_MEAN_MIN:
            raise h11.RemoteProtocolError("the chunks of the body are too small")


def _has_length(response: h11.Response) -> bool:
    """Then its body is at hand; a stream has none, and its reader waits for the head."""
    return any(name == b"content-length" for name, _ in response.headers)


class Flow(FlowControl):
    """Reading stops for two reasons: what was parsed waits for the application, what came waits to be parsed.
    It goes on when neither holds."""

    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed
        self.is_held = False

    def hold(self) -> None:
        """What came waits to be parsed."""
        self.is_held = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def release(self) -> None:
        """All that came is parsed."""
        was_held, self.is_held = self.is_held, False
        if was_held and not self.read_paused:
            self._go_on()

    def resume_reading(self) -> None:
        if not self.read_paused:
            return
        self.read_paused = False
        if not self.is_held:
            self._go_on()
        self._resumed()

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()
