"""A journal in memory that several replicas of one process share, with the faults that a test asks for.

It passes the suite of all engines (``ledger_test``). Each replica has a handle of its own, and only that one fails.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from tocsin.errors import Conflict, Gap, JournalFull, JournalUnavailable, Unknown
from tocsin.journal.contract import Birth, Bounds, Origin, Record, from_nothing

Loss = Literal["landed", "lost", "late"]


class Ledger:
    """What is written down."""

    def __init__(self) -> None:
        self.birth: Birth | None = None
        self.records: dict[int, Record] = {}
        self.trimmed = self.last = 0
        self.grown = asyncio.Event()

    def put(self, record: Record) -> None:
        if record.seq != self.last + 1:
            raise Conflict(f"the journal is at {self.last}, not at {record.seq - 1}")
        self.records[record.seq] = record
        self.last = record.seq
        self.wake()

    def wake(self) -> None:
        woken, self.grown = self.grown, asyncio.Event()
        woken.set()


class Handle:
    """One replica's way to it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_cut = False
        """Nothing is written or read through this handle."""
        self.loss: Loss | None = None
        """The next append gets no answer. ``late``: it lands when it is asked after and not found."""
        self.refusals = 0
        """So many appends are refused: certain that they were not written."""
        self.gate: asyncio.Event | None = None
        """Appends wait for it, and only then are written or refused."""
        self.deadline_s: float | None = None
        """So long an append waits at the gate; then it gets no answer, and was not written."""
        self.waiting = asyncio.Event()
        """Set when an append waits at the gate."""
        self.cut_after_loss = False
        """The answer was lost because the way to the journal was."""
        self._late: Record | None = None

    @property
    def birth(self) -> Birth:
        assert self._ledger.birth is not None
        return self._ledger.birth

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        if self._ledger.birth is None:
            found = await origin()
            if self._ledger.birth is None:
                self._ledger.birth = Birth(uuid.uuid4().hex, found.after, found.incarnation)
                self._ledger.trimmed = self._ledger.last = found.after

    async def append(self, id: bytes, raw: bytes, after: int) -> None:
        if self.gate is not None:
            self.waiting.set()
            try:
                async with asyncio.timeout(self.deadline_s):
                    await self.gate.wait()
            except TimeoutError:
                raise Unknown("no answer in time") from None
        self._check()
        if self.refusals:
            self.refusals -= 1
            raise JournalFull("no room")
        record = Record(after + 1, id, raw)
        loss, self.loss = self.loss, None
        if loss == "late":
            self._late = record
        elif loss != "lost":
            self._ledger.put(record)
        if loss is not None:
            self.is_cut = self.cut_after_loss
            raise Unknown("the answer was lost")
        await asyncio.sleep(0)

    async def read(self, after: int) -> AsyncIterator[Record]:
        while True:
            self._check()
            grown = self._ledger.grown
            if after < self._ledger.trimmed:
                raise Gap(
                    f"entries up to {self._ledger.trimmed} are no longer kept, {after + 1} was asked for"
                )
            record = self._ledger.records.get(after + 1)
            if record is None:
                await grown.wait()
                continue
            after = record.seq
            yield record

    async def get(self, seq: int) -> Record | None:
        self._check()
        found = self._ledger.records.get(seq)
        if found is None and self._late is not None and self._late.seq == seq:
            late, self._late = self._late, None
            self._ledger.put(late)
        return found

    async def trim(self, upto: int) -> None:
        self._check()
        upto = min(upto, self._ledger.last)
        self._ledger.trimmed = max(self._ledger.trimmed, upto)
        self._ledger.records = {s: r for s, r in self._ledger.records.items() if s > upto}

    async def bounds(self) -> Bounds:
        self._check()
        return Bounds(self._ledger.trimmed + 1, self._ledger.last)

    async def close(self) -> None:
        return

    def cut(self) -> None:
        self.is_cut = True
        self._ledger.wake()

    def heal(self) -> None:
        self.is_cut = False

    def _check(self) -> None:
        if self.is_cut:
            raise JournalUnavailable("cut off")
