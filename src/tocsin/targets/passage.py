"""How far an HTTP call got, when, and the last look at the clock before its first byte leaves.

aiohttp's tracing tells when a connection is there and when something is about to be written. It hands the headers to
the socket together with the first bytes of the body, or at once if there is no body; in both cases directly after it
told, within the same step of the event loop. So a process that was paused anywhere before finds out there, and what is
raised there keeps every byte back. This needs aiohttp 3.12, which no longer writes the headers ahead, and uvloop 0.23,
which no longer gathers what is written until the end of its round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp

from tocsin.clock import Clock
from tocsin.targets.authority import AUTHORITY_ENDED, has_ended


class TooLateError(aiohttp.ClientConnectionError):
    """Authority has ended, and nothing was sent."""


class Passage:
    """One call's way out."""

    def __init__(
        self, until_s: float | None, deadline_s: float | None, clock: Clock, *, has_body: bool
    ) -> None:
        self.connected = False
        """From here on an error leaves doubt."""
        self.called_ms: int | None = None
        """When the first byte left; None: none did."""
        self._until_s = until_s
        self._deadline_s = deadline_s
        self._clock = clock
        self._has_body = has_body
        self._refused = False
        self._patience = asyncio.timeout(None)
        self._is_waiting = False

    @asynccontextmanager
    async def within_authority(self) -> AsyncIterator[None]:
        """To wait in for the connection: it is given up when authority ends, unless the request went out by then."""
        async with asyncio.timeout(None) as self._patience:
            self._is_waiting = True
            self._wait_on()
            try:
                yield
            finally:
                self._is_waiting = False

    def renew(self, until_s: float) -> None:
        """Authority lasts until then."""
        if self._until_s is not None:
            self._until_s = max(self._until_s, until_s)
            self._wait_on()

    def _wait_on(self) -> None:
        end_s = self._end_s()
        if self._is_waiting and not self._patience.expired() and end_s is not None:
            left_s = max(0.0, end_s - self._clock.elapsed_s())
            self._patience.reschedule(asyncio.get_running_loop().time() + left_s)

    def _end_s(self) -> float | None:
        ends_s = [end_s for end_s in (self._until_s, self._deadline_s) if end_s is not None]
        return min(ends_s, default=None)

    @property
    def too_late(self) -> bool:
        """Certain: nothing was sent, and nothing will be."""
        return self._refused or self._patience.expired()

    def enter(self) -> None:
        """A connection is about to be looked for. The second time it would be aiohttp trying again by itself."""
        if self.connected:
            raise aiohttp.ClientConnectionError("the connection was lost after the request went out")

    def about_to_write_headers(self) -> None:
        self.look_at_the_clock()
        if not self._has_body:
            self._go()

    def about_to_write_body(self) -> None:
        if self.called_ms is None:
            self.look_at_the_clock()
            self._go()

    def look_at_the_clock(self) -> None:
        """Raise if authority has ended."""
        if self.too_late or has_ended(self._end_s(), self._clock.elapsed_s()):
            self._refused = True
            raise TooLateError(AUTHORITY_ENDED)

    def _go(self) -> None:
        self._is_waiting = False
        self._patience.reschedule(None)  # the answer may take as long as it takes
        self.called_ms = self._clock.wall_ms()


def guarded_session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """A session for calls that bring a ``Passage`` as their ``trace_request_ctx``."""
    trace = aiohttp.TraceConfig()

    async def before_connect(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.enter()
        context.trace_request_ctx.look_at_the_clock()

    async def connected(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.connected = True

    async def connected_before(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.enter()
        context.trace_request_ctx.connected = True

    async def before_headers(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.about_to_write_headers()

    async def before_body(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.about_to_write_body()

    trace.on_connection_create_start.append(before_connect)
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected_before)
    trace.on_request_headers_sent.append(before_headers)
    trace.on_request_chunk_sent.append(before_body)
    return aiohttp.ClientSession(
        connector=connector,
        trace_configs=[trace],
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
    )
