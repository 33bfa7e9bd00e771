"""Word that an entry was applied, for whoever waits for the next one. Nobody looks again and again."""

from __future__ import annotations

import asyncio


class Applied:
    """The newest entry that was applied. Any number of readers can wait for one beyond what they know."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.is_over = False
        """No more will come: the replica has stopped."""
        self._next = asyncio.Event()

    def notice(self, seq: int) -> None:
        self.seq = seq
        self._wake()

    def end(self) -> None:
        self.is_over = True
        self._wake()

    async def wait_beyond(self, seq: int) -> int:
        """Returns the newest sequence number when it is beyond that one, or when there will be no more."""
        while self.seq <= seq and not self.is_over:
            await self._next.wait()
        return self.seq

    def _wake(self) -> None:
        """Those who wait now are woken; those who come later wait for the next."""
        woken, self._next = self._next, asyncio.Event()
        woken.set()
