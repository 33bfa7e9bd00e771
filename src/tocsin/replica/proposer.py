"""Changes become one durable entry, and are applied. One append is in flight at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalFull, JournalUnavailable, Stopping, Unknown
from tocsin.journal import codec
from tocsin.journal.contract import Journal, settle
from tocsin.model.change import Change
from tocsin.model.entry import Entry
from tocsin.observe.metrics import Metrics
from tocsin.replica.notices import Applied
from tocsin.state.apply import apply
from tocsin.state.store import Store

log = structlog.get_logger()
_T = TypeVar("_T")
RunOnState = Callable[..., Awaitable[_T]]


class Proposer:
    """The only one that appends."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        on_state: Callable[[Callable[[], list[object]]], Awaitable[list[object]]],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._on_state = on_state
        self._pause = pause
        self.applied = Applied(store.meta.seq)
        self.stopping = False
        """Nobody waits any more for an entry that cannot be applied: the next start will apply it."""
        self.problem = ""
        """What keeps entries from being written or applied, in words. Empty: nothing."""

    async def commit(self, changes: Sequence[Change], term: int, now_ms: int) -> list[object]:
        """Append and apply. Raises JournalFull or JournalUnavailable when it is certain that nothing landed."""
        entry = Entry(id=os.urandom(16), term=term, time_ms=now_ms, changes=list(changes))
        raw = codec.encode(entry)
        seq = self._store.meta.seq
        began_s = self._clock.elapsed_s()
        await self._append(entry.id, raw, seq)
        self._metrics.append_seconds.observe(self._clock.elapsed_s() - began_s)
        self._metrics.entries.inc()
        return await self._apply(seq + 1, entry, raw)

    async def _append(self, id: bytes, raw: bytes, after: int) -> None:
        """Certain when it returns, and certain when it raises: an unknown answer is asked after until it is known."""
        try:
            await self._journal.append(id, raw, after)
            self.problem = ""
            return
        except Unknown as unknown:
            self.problem = str(unknown)
            log.warning("the answer to an append was lost, asking", seq=after + 1, reason=str(unknown))
        except Exception as refused:  # why: noted for the status page, then raised as it is
            self.problem = str(refused)
            raise
        while True:
            try:
                await settle(self._journal, id, raw, after)
                self.problem = ""
                return
            except (Unknown, JournalFull, JournalUnavailable) as unknown:
                # Also a refusal proves nothing here: the first offer may still land.
                self.problem = str(unknown)
                await self._pause(0.5)

    async def _apply(self, seq: int, entry: Entry, raw: bytes) -> list[object]:
        """The entry is the truth already. Where there is no room to apply it, there is no way but to wait."""
        while True:
            try:
                results = await self._on_state(lambda: apply(self._store, seq, entry, raw))
                self.problem = ""
                self.applied.notice(seq)
                return results
            except sqlite3.OperationalError as wrong:
                self.problem = f"entry {seq} is in the journal but cannot be applied yet: {wrong}"
                log.error("cannot apply", seq=seq, reason=str(wrong))
                if self.stopping:
                    raise Stopping(self.problem) from wrong
                await self._pause(1.0)
