"""gRPC over one HTTP/2 connection: calls, and streams that can be told from dead ones.

Written for what etcd needs, on the pure ``h2``: the connection takes any ``ssl.SSLContext``, says for certain whether
a request has left, and gives up on a silent server when we say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from tocsin.journal.etcd.failures import NotSent
from tocsin.journal.etcd.stream import STREAM_WINDOW, Stream

_CONNECTION_WINDOW = 1 << 30
_FRAME = 1 << 20
_CONFIGURATION = H2Configuration(
    client_side=True,
    header_encoding="utf-8",
    validate_outbound_headers=False,  # they are our own
    normalize_outbound_headers=False,
)

Metadata = Sequence[tuple[str, str]]


class Channel(asyncio.Protocol):
    """A connection to one etcd server. Once it is lost it stays so; make another."""

    def __init__(self, authority: str, scheme: str) -> None:
        self._authority = authority
        self._scheme = scheme
        self._h2 = H2Connection(_CONFIGURATION)
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._room = asyncio.Event()
        self._owed = 0
        self._gone = ""

    @classmethod
    async def connect(cls, host: str, port: int, tls: ssl.SSLContext | None, patience_s: float) -> Channel:
        """Raises NotSent when nobody answers within the given patience."""
        loop = asyncio.get_running_loop()
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout(patience_s):
                _, channel = await loop.create_connection(
                    lambda: cls(authority, "https" if tls else "http"), host, port, ssl=tls
                )
        except TimeoutError:
            raise NotSent(f"{authority} does not answer") from None
        except ssl.SSLError as wrong:
            why = getattr(wrong, "verify_message", "") or wrong.reason or str(wrong)
            raise NotSent(f"{authority}: TLS fails: {why}") from wrong
        except OSError as wrong:
            raise NotSent(f"{authority}: {wrong.strerror or wrong}") from wrong
        return channel

    @property
    def is_open(self) -> bool:
        return not self._gone

    async def call(self, path: str, body: bytes, deadline_s: float, metadata: Metadata = ()) -> bytes:
        """One request, one answer. The deadline is counted anew whenever a part of the answer arrives."""
        stream = self._begin(path, metadata)
        try:
            async with asyncio.timeout(deadline_s) as stream.deadline:
                stream.deadline_s = deadline_s
                await stream.send(body, last=True)
                return await stream.only_message()
        except TimeoutError:
            raise stream.failure(f"{self._authority} did not answer within {deadline_s:.1f} s") from None
        finally:
            self._end(stream)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, metadata: Metadata = ()) -> AsyncIterator[Stream]:
        """A stream of messages in both directions."""
        stream = self._begin(path, metadata)
        try:
            yield stream
        finally:
            self._end(stream)

    async def close(self, why: str = "closed") -> None:
        """Everything under way fails."""
        if self._transport is not None and not self._gone:
            with contextlib.suppress(ProtocolError):
                self._h2.close_connection()
            self._flush()
        self._lose(why)
        if self._transport is not None:
            self._transport.abort()  # a server that hangs would keep a farewell waiting

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.MAX_FRAME_SIZE: _FRAME,
            },
        )
        self._h2.max_inbound_frame_size = _FRAME
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._handle(event)
        except ProtocolError as wrong:
            self._lose(f"it breaks the HTTP/2 protocol: {wrong}")
            if self._transport is not None:
                self._transport.abort()
            return
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(str(exc) if exc else "it closed the connection")

    # Streams

    def _begin(self, path: str, metadata: Metadata) -> Stream:
        if self._gone:
            raise NotSent(f"{self._authority}: {self._gone}")
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(
                number,
                [
                    (":method", "POST"),
                    (":scheme", self._scheme),
                    (":path", path),
                    (":authority", self._authority),
                    ("te", "trailers"),
                    ("content-type", "application/grpc"),
                    *metadata,
                ],
            )
        except ProtocolError as wrong:
            raise NotSent(f"{self._authority}: {wrong}") from wrong
        stream = self._streams[number] = Stream(self, number)
        return stream

    def _end(self, stream: Stream) -> None:
        """Forget it, and tell the server to give up on it if it has not ended."""
        if self._streams.pop(stream.number, None) is None or stream.ended or self._gone:
            return
        with contextlib.suppress(ProtocolError):
            self._h2.reset_stream(stream.number, ErrorCodes.CANCEL)
        self._flush()

    async def send(self, stream: Stream, data: bytes, last: bool) -> None:
        """As the server makes room for it."""
        view, at = memoryview(data), 0
        while at < len(data):
            if stream.ended:
                return  # its answer came early: it did not want to hear the rest
            if self._gone:
                raise stream.failure(f"{self._authority}: {self._gone}")
            try:
                room = min(
                    self._h2.local_flow_control_window(stream.number), self._h2.max_outbound_frame_size
                )
                if room > 0:
                    part = bytes(view[at : at + room])
                    at += len(part)
                    self._h2.send_data(stream.number, part, end_stream=last and at == len(data))
            except ProtocolError as wrong:
                raise stream.failure(f"{self._authority}: {wrong}") from wrong
            if room <= 0:
                self._flush()
                self._room.clear()
                await self._room.wait()
        stream.is_sent = True
        self._flush()

    def consumed(self, stream: Stream, size: int) -> None:
        """A slow reader holds its own stream up, not the connection."""
        stream.owed += size
        if self._gone or stream.ended or stream.owed < STREAM_WINDOW // 4:
            return
        with contextlib.suppress(ProtocolError):
            self._h2.increment_flow_control_window(stream.owed, stream.number)
        stream.owed = 0
        self._flush()

    def _received(self, size: int) -> None:
        """The connection's own window is wide: what is not read yet waits in its stream."""
        self._owed += size
        if self._owed > _CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._owed)
            self._owed = 0

    def _flush(self) -> None:
        if self._transport is not None and (data := self._h2.data_to_send()):
            self._transport.write(data)

    def _handle(self, event: Event) -> None:
        match event:
            case WindowUpdated() | RemoteSettingsChanged():
                self._room.set()
            case ConnectionTerminated():
                self._on_goodbye(event)
            case DataReceived(stream_id=number, data=data, flow_controlled_length=size):
                self._received(size or 0)
                if (stream := self._streams.get(number or 0)) is not None:
                    stream.on_data(data or b"", size or 0)
            case (
                ResponseReceived(stream_id=number, headers=headers)
                | TrailersReceived(stream_id=number, headers=headers)
            ):
                if (stream := self._streams.get(number or 0)) is not None:
                    stream.on_headers({str(name): str(value) for name, value in headers or []})
            case StreamEnded(stream_id=number):
                if (stream := self._streams.get(number or 0)) is not None:
                    stream.on_end()
            case StreamReset(stream_id=number, error_code=code):
                if (stream := self._streams.get(number or 0)) is not None:
                    stream.on_reset(
                        f"{self._authority} gave up ({code!s})", code == ErrorCodes.REFUSED_STREAM
                    )
                self._room.set()
            case _:
                return

    def _on_goodbye(self, event: ConnectionTerminated) -> None:
        """Streams behind the last one it names were not looked at."""
        last = event.last_stream_id or 0
        for stream in list(self._streams.values()):
            if stream.number > last:
                stream.on_reset(f"{self._authority} is going away", unseen=True)
        self._lose("it is going away")
        if self._transport is not None:
            self._transport.close()

    def _lose(self, why: str) -> None:
        if self._gone:
            return
        self._gone = why
        for stream in list(self._streams.values()):
            stream.on_reset(f"{self._authority}: {why}", unseen=False)
        self._room.set()
