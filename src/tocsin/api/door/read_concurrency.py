"""Limits how many reads of one caller run at once. Further reads of that caller wait for their turn.

A client that hangs up leaves its connection, and its place among the connections, but the work goes on. So a caller who
sends and hangs up, again and again, would have any number of reads at work, and everybody else would wait behind them.
Streams and imports have limits of their own, and writes are limited by their rate.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tocsin.errors import TooMany

READS_MAX = 16
WAITING_MAX = 200
"""As many as there may be connections from one address."""


class _Line:
    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class ReadConcurrency:
    """The reads of all callers."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    async def enter(self, who: str) -> None:
        """Wait for a place of this caller, and take it. Raises ``TooMany`` where too many wait."""
        line = self._lines.setdefault(who, _Line())
        if line.running < READS_MAX:
            line.running += 1
            return
        if len(line.waiting) >= WAITING_MAX:
            raise TooMany(
                f"{READS_MAX} requests of this caller are being answered, and {WAITING_MAX} wait",
                hint="wait for answers before you ask for more",
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn  # whoever leaves gives its place to this one
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(who)
            raise

    def leave(self, who: str) -> None:
        """Give the place to the next one of this caller."""
        line = self._lines[who]
        while line.waiting:
            turn = line.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        line.running -= 1
        if not line.running:
            del self._lines[who]
