"""How long a connection may take, and what it is told when that is over.

uvicorn waits for ever: for the first byte, for the rest of a head, for the next piece of a body. A few thousand
connections that send one byte a minute would then shut everybody else out. Here each connection is in one of these
stages, and when the time of a stage is over, so is the connection:

=========  ======================================================================  ===================
waiting    open, nothing sent yet; or kept between two requests                    closed
head       the first byte of a request is there, its head is not yet complete      closed
body       the head is complete, the body is not; each piece starts the time anew  408
           (but for requests that need no token: they have a few seconds in all)
answering  the request is complete: the answer may take as long as it likes        no end by the clock
draining   it was answered before its body was complete; a short rest is dropped   closed
over       a last word was said; what still comes in is not even parsed            closed
=========  ======================================================================  ===================

The time for a body stands still while we are the slow ones: reading is paused, or the client waits for our
"100 Continue". A client that does not read its answer has its own limit, and no further request of it is begun
meanwhile. What connections share, their number and their turns, stands in ``lobby``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from typing import Any

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tocsin.api.door.access import is_public
from tocsin.api.door.guard import PROBES
from tocsin.api.door.inflow import Flow, MeasuredConnection
from tocsin.api.door.lobby import Entry, Lobby, Stage
from tocsin.api.problems import MEDIA_TYPE
from tocsin.model.answer import Problem
from tocsin.model.problem import http_problem

SLICE_BYTES = 64 * 1024
"""Of a body of known length, which costs next to nothing to parse. Of all else an eighth of a head is a slice."""
AHEAD_MAX = 4
"""So many requests in a row may be sent before the answer to the one before has gone out."""


_TOO_MANY = http_problem(503, "there are too many connections", retryable=True)


class PatientProtocol(H11Protocol):
    """One connection, with an end to its patience."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        lobby: Lobby,
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_made``: called when the connection is there, before it is a guest of the lobby."""
        super().__init__(config, server_state, app_state, _loop)
        self._on_made = on_made
        self._lobby = lobby
        self._patience = lobby.patience
        self.conn: MeasuredConnection = MeasuredConnection(lobby.patience.head_bytes_max)
        self.flow: Flow
        self._came = bytearray()
        """And is not parsed yet."""
        self._is_in_line = False
        self._is_for_probes = False
        self._ahead = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_since = 0.0
        self._body_since = 0.0
        self.stage = Stage.WAITING
        self.since = self.loop.time()
        """When it was last done with a request, or came."""

    # What asyncio and uvicorn call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # why: as uvicorn does
        super().connection_made(transport)
        self.flow = Flow(transport, self._reading_again)
        self._on_made()
        if self._lobby.enter(self) is Entry.FOR_PROBES:
            self._is_for_probes = True
            self.app = _only_probes(self.app)
        self._enter(Stage.WAITING, self._patience.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter(Stage.OVER, None)
        self._lobby.parting.discard(self)
        self._lobby.leave(self)
        super().connection_lost(exc)  # which resumes writing
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """What is cheap to parse is parsed at once if nobody else waits for that; all else waits for its turn."""
        if self.stage is Stage.OVER:
            return
        self._came += data
        is_cheap = len(data) <= self._slice_bytes() and not self.conn.is_chunked
        if is_cheap and not self._is_in_line and self._lobby.is_quiet():
            self._parse_slice()
        self._line_up()

    def _parse_slice(self) -> None:
        """A head in small slices: the parser measures only what is incomplete, so a head that comes whole in one
        large piece would be of any size."""
        if not self._came or not self._may_parse():
            return
        size = self._slice_bytes()
        piece = bytes(self._came[:size])
        del self._came[:size]
        super().data_received(piece)
        if self._came:
            self.flow.hold()
        else:
            self.flow.release()

    def _slice_bytes(self) -> int:
        small = self._patience.head_bytes_max // 8
        is_body = self.conn.their_state is h11.SEND_BODY
        return max(small, min(self.conn.body_left, SLICE_BYTES)) if is_body else small

    def _may_parse(self) -> bool:
        """Not while the application is behind with reading, or the client with reading its answers."""
        if self.stage is Stage.OVER or self.flow.read_paused:
            return False
        return not self.flow.write_paused or self.conn.their_state is h11.SEND_BODY

    def _line_up(self) -> None:
        if not self._came or self._is_in_line:
            return
        self.flow.hold()
        if self._may_parse():
            self._is_in_line = True
            self._lobby.line_up(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_since = self.loop.time()
            self._unread_timer = self.loop.call_later(self._patience.unread_s, self.give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        if self.stage is not Stage.OVER:
            self._line_up()

    def handle_events(self) -> None:
        if self.conn.their_state is h11.IDLE:  # a request may begin
            self.server_state.default_headers = [(b"date", _date(int(time.time())).encode())]
        super().handle_events()
        if self.stage is not Stage.OVER:
            self._mind_the_stage()

    def send_400_response(self, msg: str) -> None:
        """Called while the parser's complaint is being handled: it says which status it deserves."""
        wrong = sys.exc_info()[1]
        status = getattr(wrong, "error_status_hint", 400)
        if status == 431:
            most = self._patience.head_bytes_max
            problem = http_problem(431, "the head of the request is too large", allowed=f"{most} bytes")
        else:
            problem = http_problem(
                status, f"this is not an HTTP request that can be understood: {str(wrong or msg)[:200]}"
            )
        self._last_word(problem)

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self._ahead = self._ahead + 1 if self._came or self.conn.trailing_data[0] else 0
        if (self._ahead > AHEAD_MAX or self._is_for_probes) and not self.transport.is_closing():
            self._part()
            return
        super().on_response_complete()
        if self.stage is Stage.OVER:
            return
        if self.transport.is_closing():
            if (
                not self.transport.get_write_buffer_size()
            ):  # under TLS the client has still to say that it has heard it
                self._enter(Stage.DRAINING, self._patience.linger_s)
            return
        if self.conn.is_rest_too_long():
            self._part()
        else:
            self._mind_the_stage()

    # What the lobby asks

    def take_turn(self) -> bool:
        self._parse_slice()
        self._is_in_line = bool(self._came) and self._may_parse()
        return self._is_in_line

    @property
    def peer(self) -> str:
        return self.client[0] if self.client else ""

    def is_unread(self) -> bool:
        is_late = self.loop.time() - self._unread_since >= self._patience.linger_s
        return self._unread_timer is not None and is_late

    def is_slow(self) -> bool:
        """One that we do not read is not slow."""
        lasted_s = self.loop.time() - self._body_since
        wanted = self._patience.body_bytes_per_s * (lasted_s - self._patience.linger_s)
        return self.stage is Stage.BODY and not self._is_held_back() and self.conn.body_bytes < wanted

    def is_uninvited(self) -> bool:
        return self.stage is Stage.BODY and self._is_public()

    # The stages

    def _mind_the_stage(self) -> None:
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE:
            if self.stage is not Stage.DRAINING:
                self._enter(Stage.DRAINING, self._patience.linger_s)
        elif theirs is h11.SEND_BODY:
            self._enter_body()
        elif theirs is not h11.IDLE:
            self._enter(Stage.ANSWERING, None)
        elif not self.conn.trailing_data[0]:
            self._enter(Stage.WAITING, self._patience.keep_alive_s)
        elif self.stage is not Stage.HEAD:  # the time for a head runs from its first byte
            self._enter(Stage.HEAD, self._patience.head_s)

    def _enter_body(self) -> None:
        now_s = self.loop.time()
        if self.stage is not Stage.BODY:
            self._body_since = now_s
        left_s = self._body_since + self._patience.public_body_s - now_s
        self._enter(Stage.BODY, max(0.0, left_s) if self._is_public() else self._patience.body_pause_s)

    def _is_public(self) -> bool:
        return is_public(self.cycle.scope["path"])

    def _is_held_back(self) -> bool:
        """Are we the slow ones?"""
        is_asked_to_wait = self.cycle is not None and self.cycle.waiting_for_100_continue
        return self.flow.read_paused or self.flow.is_held or is_asked_to_wait

    def _enter(self, stage: Stage, seconds: float | None) -> None:
        self.stage = stage
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._out_of_patience)

    def _out_of_patience(self) -> None:
        if self.stage is not Stage.BODY:
            self.give_up()
        elif self._is_public():
            most = f"{self._patience.public_body_s:g}s"
            self._last_word(http_problem(408, f"the body did not come within {most}", retryable=True))
        elif self._is_held_back():
            self._enter(Stage.BODY, self._patience.body_pause_s)
        else:
            pause = f"{self._patience.body_pause_s:g}s"
            self._last_word(http_problem(408, f"nothing more of the body came for {pause}", retryable=True))

    def _reading_again(self) -> None:
        if self.stage is Stage.BODY:
            self._enter_body()
        if self.stage is not Stage.OVER:
            self._line_up()

    def give_up(self) -> None:
        """Close without a word, and at once: whoever did not send does not read either."""
        self._enter(Stage.OVER, None)
        self._came.clear()
        self.connections.discard(self)
        self._lobby.leave(self)
        self.transport.abort()

    def _last_word(self, problem: Problem) -> None:
        """Say what was wrong, if an answer has not begun already, and part."""
        is_unanswered = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = (
                True  # whoever waits for the rest of the body learns that it will not come
            )
            self.cycle.message_event.set()
        if not is_unanswered:
            self.give_up()
            return
        self.conn.send_failed()
        self.transport.write(_answer(problem))
        self._part()

    def _part(self) -> None:
        """The last word is said: leave the client a moment to read it, whatever it goes on sending."""
        self._unset_keepalive_if_required()
        self._came.clear()
        self.connections.discard(self)
        self._lobby.leave(self)
        if len(self._lobby.parting) >= self._patience.connections_max:
            self.give_up()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._enter(Stage.OVER, self._patience.linger_s)
        self._lobby.parting.add(self)
        self.flow.release()
        self.flow.resume_reading()


@lru_cache(maxsize=1)
def _date(at_s: int) -> str:
    return formatdate(at_s, usegmt=True)


def _only_probes(app: Any) -> Any:
    """The same application for whoever watches over the service; to all else there is no room."""

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        body = msgspec.json.encode(_TOO_MANY)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": _TOO_MANY.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answered


def _answer(problem: Problem) -> bytes:
    """Written by hand: the parser, which would write it otherwise, has given the connection up."""
    body = msgspec.json.encode(problem)
    retry = "Retry-After: 1\r\n" if problem.status == 503 else ""
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\n"
        f"Date: {_date(int(time.time()))}\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{retry}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
