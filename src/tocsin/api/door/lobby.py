"""What the connections of one listener share: how much each is given, who has to make room, and whose turn it is.

Past the greatest number of connections, of all or of one address, a new one takes the place of the one that has
been without a request for the longest, or else of one that does not read its answer, or sends its body slowly, or sends
one that needs no token. It takes the place of one whose address has the most connections, and never of one whose
address has fewer than its own: so a few addresses cannot push out everybody else. An address has a limit of its own as
well; a trusted proxy has none, because behind it are many. Only if all of them are busy there is no room: then a few
more are let in for probes alone, so that whoever watches over the service is answered, and all else is told that there
are too many.

What is shaking hands for TLS counts as well: it holds a descriptor like the others.

What came in is parsed in slices, one at each turn of the event loop, in turn: a client that makes the parser work
(a million bytes in chunks of one byte take it seconds) makes nobody late but itself.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Collection, Container
from typing import Protocol

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything a connection is given."""

    head_s: float = 10.0
    """For the first byte of a new connection, and from the first byte of a request to the end of its head."""
    body_pause_s: float = 20.0
    """Between two pieces of a body."""
    public_body_s: float = 5.0
    """For the whole body of a request that needs no token."""
    body_bytes_per_s: float = 1024.0
    """A body that comes more slowly than this makes room for others, if there is none left."""
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
    probes_max: int = 50
    """Connections beyond these, for probes alone."""

    def within(self, descriptors: int) -> Patience:
        """Half of the process's descriptors are left for launches. A connection that was told its last word holds one
        too, and as many as are open may be like that."""
        most = max(1, (descriptors // 2 - self.probes_max) // 2)
        return msgspec.structs.replace(self, connections_max=min(self.connections_max, most))


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

    def is_slow(self) -> bool:
        """Does its body come too slowly?"""

    def is_uninvited(self) -> bool:
        """Does it send a body for which nobody needs a token?"""

    def give_up(self) -> None:
        """Go, at once."""

    def take_turn(self) -> bool:
        """Parse a little of what came. True: there is more."""


class Entry(enum.Enum):
    """How a connection is let in."""

    FREE = enum.auto()
    FOR_PROBES = enum.auto()


class Lobby:
    """The connections of one listener."""

    def __init__(self, patience: Patience, trusted: Container[str] = ()) -> None:
        """``trusted``: proxies, behind each of which are many."""
        self.patience = patience
        self.parting: set[Guest] = set()
        self._trusted = trusted
        self._all: set[Guest] = set()
        self._of_peer: dict[str, set[Guest]] = {}
        self._for_probes: dict[Guest, None] = {}
        """In the order in which they came."""
        self._line: deque[Guest] = deque()

    def enter(self, newcomer: Guest) -> Entry:
        """Let it in. For that another one may have to go."""
        if self._has_room(newcomer):
            self._all.add(newcomer)
            self._of_peer.setdefault(newcomer.peer, set()).add(newcomer)
            return Entry.FREE
        if len(self._for_probes) >= self.patience.probes_max:
            next(iter(self._for_probes)).give_up()
        self._for_probes[newcomer] = None
        return Entry.FOR_PROBES

    def _has_room(self, newcomer: Guest) -> bool:
        neighbours = self._of_peer.get(newcomer.peer, set())
        is_one_of_many = newcomer.peer in self._trusted
        if not is_one_of_many and len(neighbours) >= self.patience.peer_connections_max:
            return _one_goes(neighbours)
        return len(self._all) < self.patience.connections_max or self._one_goes_for(newcomer)

    def _one_goes_for(self, newcomer: Guest) -> bool:
        """One of those whose address has the most connections, if that has as many as the newcomer's own."""
        by_size: dict[int, list[Guest]] = {}
        for peer, guests in self._of_peer.items():
            by_size.setdefault(self._size(peer), []).extend(guests)
        own = self._size(newcomer.peer)
        return any(_one_goes(by_size[size]) for size in sorted(by_size, reverse=True) if size >= own)

    def _size(self, peer: str) -> int:
        """Of one address. Behind a trusted proxy each connection is another's."""
        return min(
            len(self._of_peer.get(peer, ())), 1 if peer in self._trusted else self.patience.connections_max
        )

    def leave(self, guest: Guest) -> None:
        """It does not count any more. May be said twice."""
        self._for_probes.pop(guest, None)
        self._all.discard(guest)
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
    in_the_way = (
        idle
        or [each for each in guests if each.is_unread() or each.is_slow()]
        or [each for each in guests if each.is_uninvited()]
    )
    eldest = min(in_the_way, key=lambda each: each.since, default=None)
    if eldest is not None:
        eldest.give_up()
    return eldest is not None
