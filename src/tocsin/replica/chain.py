"""An idle leader neither appends nor reads, so it would not notice that the journal's engine was restored from an old
copy. It therefore compares its own last entry with the one that the journal has in that place every few seconds: one
or two small reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tocsin.clock import Clock
from tocsin.errors import JournalError
from tocsin.journal.contract import Journal, check_end
from tocsin.model.entry import Position
from tocsin.state.store import Store

EVERY_S = 10.0


class ChainCheck:
    """Followers need none: their reader compares."""

    def __init__(self, journal: Journal, store: Store, clock: Clock, is_leader: Callable[[], bool]) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._is_leader = is_leader
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Ends with ChainBroken, or with the Gap of a journal that is gone."""
        while not await self._clock.wait(self._stop, EVERY_S):
            if self._is_leader():
                await self.once()

    async def once(self) -> None:
        known = self._store.meta.position
        try:
            end = (await self._journal.bounds()).end
            if (
                end.seq > known.seq
            ):  # as far as it is not an append of ours, somebody else writes to the journal
                record = await self._journal.get(known.seq)
                end = known if record is None else Position(record.seq, record.id)
        except JournalError as wrong:
            if not wrong.retryable:
                raise
            return  # it does not answer: nothing is launched either
        check_end(end, *known)
