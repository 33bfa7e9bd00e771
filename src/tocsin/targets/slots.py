"""A limited number of places, shared so that nobody who holds his own for long can keep everybody else waiting.

Who asks belongs to a *lane*, such as the host that is called. A lane gets no more places than a third of those that
are still free: one alone has a quarter of all, the next a quarter of the rest, and when a dozen have taken theirs and
let nothing go, one that has none yet still finds a place. Who waits is served lane after lane, not in the order of
arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Shares:
    """Who holds how many of a limited number of places."""

    def __init__(self, limit: int, *, shared: bool = True, held: dict[str, int] | None = None) -> None:
        """Not ``shared``: there are no lanes to be fair to."""
        self.limit = limit
        self.shared = shared
        self.held = held or {}
        self.total = sum(self.held.values())

    def has_room(self, lane: str, *, limit: int | None = None) -> bool:
        """``limit``: as if there were so many places."""
        free = (self.limit if limit is None else limit) - self.total
        return free > 0 and (not self.shared or self.held.get(lane, 0) < max(1, free // 3))

    def take(self, lane: str, number: int = 1) -> None:
        self.held[lane] = self.held.get(lane, 0) + number
        self.total += number

    def give_back(self, lane: str, number: int = 1) -> None:
        left = self.held[lane] - number
        self.total -= number
        if left:
            self.held[lane] = left
        else:
            del self.held[lane]

    def copy(self) -> Shares:
        return Shares(self.limit, shared=self.shared, held=dict(self.held))


class Slots:
    """Places that are waited for."""

    def __init__(self, limit: int, *, shared: bool = True) -> None:
        self._shares = Shares(limit, shared=shared)
        self._waiting: dict[str, dict[asyncio.Future[bool], None]] = {}
        self._turns: deque[str] = deque()
        """Lanes in which somebody waits, in the order in which they are served."""

    def shares(self) -> Shares:
        """Who holds how many, as of now."""
        return self._shares.copy()

    def is_free(self, lane: str) -> bool:
        """Would ``take`` return at once?"""
        return lane not in self._waiting and self._shares.has_room(lane)

    async def take(self, lane: str, ticket: asyncio.Future[bool] | None = None) -> bool:
        """Wait for a place. False: the ticket was sent away (its result was set to False), and there is none."""
        if self.is_free(lane):
            self._shares.take(lane)
            return True
        ticket = ticket or asyncio.get_running_loop().create_future()
        if lane not in self._waiting:
            self._waiting[lane] = {}
            self._turns.append(lane)
        self._waiting[lane][ticket] = None
        try:
            got = await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and ticket.result():
                self.give_back(lane)  # it came in the same moment
            else:
                self._leave(lane, ticket)
            raise
        if not got:
            self._leave(lane, ticket)
        return got

    def give_back(self, lane: str) -> None:
        self._shares.give_back(lane)
        self._serve()

    def _serve(self) -> None:
        """Hand out what is free: one a lane, then the next lane."""
        passed = 0
        while self._turns and passed < len(self._turns) and self._shares.total < self._shares.limit:
            lane = self._turns[0]
            self._turns.rotate(-1)
            ticket = self._next_of(lane) if self._shares.has_room(lane) else None
            if ticket is None:
                passed += 1
            else:
                passed = 0
                self._shares.take(lane)
                ticket.set_result(True)

    def _next_of(self, lane: str) -> asyncio.Future[bool] | None:
        waiting = self._waiting.get(lane, {})
        while waiting:
            ticket = next(iter(waiting))
            self._leave(lane, ticket)
            if not ticket.done():
                return ticket
        return None

    def _leave(self, lane: str, ticket: asyncio.Future[bool]) -> None:
        waiting = self._waiting.get(lane)
        if waiting is None:
            return
        waiting.pop(ticket, None)
        if not waiting:
            del self._waiting[lane]
            self._turns.remove(lane)
