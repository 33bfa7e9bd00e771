"""What the connections of one listener share: how much each is given, who has to make room, and whose turn it is.

Past the greatest number of connections, of all or of one address, a new one takes the place of the one that has
been without a request for the longest, or else of one that does not read its answer; only if all of them are busy
is it turned away. An address has a limit of its own so that one client cannot push out everybody else.

What came in is parsed in slices, one at each turn of the event loop, in turn: a client that makes the parser work
(a million bytes in chunks of one byte take it seconds) makes nobody late but itself.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Collection
from typing import Any, Protocol

import msgspec


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
    """For a client to read our last word; a connection closed on unread bytes would take that word back. Also for
    the rest of a body that was answered before it had come."""
    head_bytes_max: int = 32 * 1024
    """Of a request line and its headers; an eighth more may pass."""
    connections_max: int = 1_000
    peer_connections_max: int = 200
    """Of one address."""


class Stage(enum.Enum):
    """Where a connection is."""

    WAITING = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWERING = enum.auto()
    DRAINING = enum.auto()
    OVER = enum.auto()


_WITHOUT_REQUEST = (Stage.WAITING, Stage.HEAD, Stage.DRAINING)


class Guest(Protocol):
    """A connection, as the lobby sees it."""

    stage: Stage
    since: float
    """When it was last done with a request, or came."""

    @property
    def peer(self) -> str:
        """The address it came from."""

    def is_unread(self) -> bool:
        """Has the client left its answer lying for a while?"""

    def give_up(self) -> None:
        """Go, at once."""

    def take_turn(self) -> bool:
        """Parse a little of what came. True: there is more."""


class Lobby:
    """The connections of one listener."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.parting: set[Guest] = set()
        self._of_peer: dict[str, set[Guest]] = {}
        self._line: deque[Guest] = deque()

    def make_room(self, newcomer: Guest, connections: set[Any]) -> bool:
        """True when there is room for the newcomer; for that another one may have to go."""
        neighbours = self._of_peer.setdefault(newcomer.peer, set())
        neighbours.add(newcomer)
        if len(neighbours) > self.patience.peer_connections_max and not _one_goes(neighbours - {newcomer}):
            return False
        return len(connections) <= self.patience.connections_max or _one_goes(connections - {newcomer})

    def leave(self, guest: Guest) -> None:
        """It does not count any more. May be said twice."""
        neighbours = self._of_peer.get(guest.peer, set())
        neighbours.discard(guest)
        if not neighbours:
            self._of_peer.pop(guest.peer, None)

    def is_quiet(self) -> bool:
        """Nobody has anything to parse."""
        return not self._line

    def line_up(self, guest: Guest) -> None:
        """It has something to parse, and waits for its turn."""
        self._line.append(guest)
        if len(self._line) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        guest = self._line[0]
        try:
            is_more = guest.take_turn()
        except Exception:
            guest.give_up()
            raise
        finally:
            self._line.popleft()
            if self._line:
                asyncio.get_running_loop().call_soon(self._turn)
        if is_more:
            self.line_up(guest)


def _one_goes(guests: Collection[Guest]) -> bool:
    idle = [each for each in guests if each.stage in _WITHOUT_REQUEST]
    eldest = min(
        idle or [each for each in guests if each.is_unread()], key=lambda each: each.since, default=None
    )
    if eldest is not None:
        eldest.give_up()
    return eldest is not None
