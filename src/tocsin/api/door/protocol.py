"""How long a connection may take, and what it is told when that is over.

uvicorn waits for ever: for the first byte, for the rest of a head, for the next piece of a body. A few thousand
connections that send one byte a minute would then shut everybody else out. Here each connection is in one of these
stages, and when the time of a stage is over, so is the connection:

=========  ======================================================================  ===================
waiting    open, nothing sent yet; or kept between two requests                    closed
head       the first byte of a request is there, its head is not yet complete      closed
body       the head is complete, the body is not; each piece starts the time anew  408
answering  the request is complete: the answer may take as long as it likes        no end by the clock
draining   it was answered before its body was complete; the rest is dropped       closed
over       a last word was said; what still comes in is dropped                    closed
=========  ======================================================================  ===================

The time for a body stands still while we are the slow ones: reading is paused, or the client waits for our
"100 Continue". A client that does not read its answer has its own limit. Past the greatest number of connections a
new one takes the place of the one that has been without a request for the longest; only if all of them are busy is
it turned away with 503.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tocsin.api.problems import MEDIA_TYPE
from tocsin.model.answer import Problem
from tocsin.model.problem import http_problem


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything a connection is given."""

    head_s: float = 10.0
    """For the first byte of a new connection, and from the first byte of a request to the end of its head."""
    body_pause_s: float = 20.0
    """Between two pieces of a body."""
    unread_s: float = 60.0
    """For a client to go on reading, once so much of an answer waits that no more can be sent."""
    keep_alive_s: int = 30
    """Between an answer and the next request."""
    linger_s: float = 1.0
    """For a client to read our last word; a connection closed on unread bytes would take that word back."""
    head_bytes_max: int = 32 * 1024
    """Of a request line and its headers; an eighth more may pass."""
    connections_max: int = 1_000


class Stage(enum.Enum):
    """Where a connection is."""

    WAITING = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWERING = enum.auto()
    DRAINING = enum.auto()
    OVER = enum.auto()


class Lobby:
    """What the connections of one listener share: who waits for how long, and how many are being turned away."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.parting: set[PatientProtocol] = set()

    def make_room(self, newcomer: PatientProtocol, connections: set[Any]) -> bool:
        """True when there is room for the newcomer; for that the one that waits longest may have to go."""
        if len(connections) <= self.patience.connections_max:
            return True
        idle = (each for each in connections - {newcomer} if each.stage in (Stage.WAITING, Stage.HEAD))
        eldest = min(idle, key=lambda each: each.since, default=None)
        if eldest is None:
            return False
        eldest.give_up()
        return True


class _Flow(FlowControl):
    """Tells when reading goes on: the client's time starts anew."""

    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        was_paused = self.read_paused
        super().resume_reading()
        if was_paused:
            self._resumed()


class PatientProtocol(H11Protocol):
    """One connection, with an end to its patience."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        lobby: Lobby,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._lobby = lobby
        self._patience = lobby.patience
        self._timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self.stage = Stage.WAITING
        self.since = self.loop.time()
        """When it was last done with a request, or came."""

    # What asyncio and uvicorn call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # why: as uvicorn does
        super().connection_made(transport)
        self.flow = _Flow(transport, self._reading_again)
        if self._lobby.make_room(self, self.connections):
            self._enter(Stage.WAITING, self._patience.head_s)
        else:
            self._last_word(http_problem(503, "there are too many connections", retryable=True))

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter(Stage.OVER, None)
        self._lobby.parting.discard(self)
        super().connection_lost(exc)  # which resumes writing
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """A head in small pieces: the parser measures only what is incomplete, so a head that comes whole in one
        large piece would be of any size."""
        at = 0
        while at < len(data) and self.stage is not Stage.OVER:
            is_body = self.conn.their_state is h11.SEND_BODY
            end = len(data) if is_body else at + self._patience.head_bytes_max // 8
            super().data_received(data[at:end])
            at = end

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self._patience.unread_s, self.give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def handle_events(self) -> None:
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
        super().on_response_complete()
        if self.stage is Stage.OVER or self.transport.is_closing():
            return
        self._mind_the_stage()

    # The stages

    def _mind_the_stage(self) -> None:
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE:
            if self.stage is not Stage.DRAINING:
                self._enter(Stage.DRAINING, self._patience.head_s)
        elif theirs is h11.SEND_BODY:
            self._enter(Stage.BODY, self._patience.body_pause_s)
        elif theirs is not h11.IDLE:
            self._enter(Stage.ANSWERING, None)
        elif not self.conn.trailing_data[0]:
            self._enter(Stage.WAITING, self._patience.keep_alive_s)
        elif self.stage is not Stage.HEAD:  # the time for a head runs from its first byte
            self._enter(Stage.HEAD, self._patience.head_s)

    def _enter(self, stage: Stage, seconds: float | None) -> None:
        self.stage = stage
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._out_of_patience)

    def _out_of_patience(self) -> None:
        if self.stage is not Stage.BODY:
            self.give_up()
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._enter(Stage.BODY, self._patience.body_pause_s)
        else:
            pause = f"{self._patience.body_pause_s:g}s"
            self._last_word(http_problem(408, f"nothing more of the body came for {pause}", retryable=True))

    def _reading_again(self) -> None:
        if self.stage is Stage.BODY:
            self._enter(Stage.BODY, self._patience.body_pause_s)

    def give_up(self) -> None:
        """Close without a word, and at once: whoever did not send does not read either."""
        self._enter(Stage.OVER, None)
        self.connections.discard(self)
        self.transport.abort()

    def _last_word(self, problem: Problem) -> None:
        """Say what was wrong, if an answer has not begun already, and part."""
        is_unanswered = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = (
                True  # whoever waits for the rest of the body learns that it will not come
            )
            self.cycle.message_event.set()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        if not is_unanswered or len(self._lobby.parting) >= self._patience.connections_max:
            self.give_up()
            return
        self.conn.send_failed()
        self.transport.write(_answer(problem))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._lobby.parting.add(self)
        self._enter(Stage.OVER, self._patience.linger_s)


def _answer(problem: Problem) -> bytes:
    """Written by hand: the parser, which would write it otherwise, has given the connection up."""
    body = msgspec.json.encode(problem)
    retry = "Retry-After: 1\r\n" if problem.status == 503 else ""
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{retry}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
