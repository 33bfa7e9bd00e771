"""A journal in memory that several replicas of one process share, with the faults that a test asks for.

It passes the suite of all engines (``ledger_test``). Each replica has a handle of its own, and only that one fails.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from tocsin.errors import Conflict, Gap, JournalFull, JournalUnavailable, PresenceMoved, Unknown
from tocsin.journal.contract import (
    Birth,
    Bounds,
    Election,
    Origin,
    Record,
    SeenPresence,
    check_end,
    from_nothing,
)
from tocsin.model.entry import Position
from tocsin.model.presence import Presence

Loss = Literal["landed", "lost", "late"]


class Ledger:
    """What is written down."""

    def __init__(self) -> None:
        self.birth: Birth | None = None
        self.records: dict[int, Record] = {}
        self.trimmed = self.last = 0
        self.last_id = b""
        self.grown = asyncio.Event()
        self.term = 0
        self.present: dict[str, SeenPresence] = {}

    @property
    def end(self) -> Position:
        return Position(self.last, self.last_id)

    def put(self, record: Record, after: Position, election: Election | None = None) -> None:
        if after != self.end:
            raise Conflict(f"the journal is at {self.end}, not at {after}")
        if election is not None:
            seen = self.present.get(election.leader)
            if election.leader and (0 if seen is None else seen.version) != election.version:
                raise PresenceMoved(f"{election.leader} was heard since")
            self.term = election.term
        self.records[record.seq] = record
        self.last, self.last_id = record.seq, record.id
        self.wake()

    def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        if self.end == (last.seq, id):
            return
        if self.end != last or last.seq not in self.records:
            raise Conflict(f"the journal is at {self.end}, not at {last}")
        self.records[last.seq] = Record(last.seq, id, raw)
        self.last_id = id
        self.wake()

    def put_presence(self, replica: str, presence: Presence) -> None:
        if any(term != self.term for term in presence.terms.values()):
            raise Conflict(f"the term is {self.term}")
        version = 1 + max((seen.version for seen in self.present.values()), default=0)
        self.present[replica] = SeenPresence(replica, version, presence)
        self.wake()

    def wake(self) -> None:
        woken, self.grown = self.grown, asyncio.Event()
        woken.set()


class Handle:
    """One replica's way to it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.is_cut = False
        """Nothing is written or read through this handle."""
        self.loss: Loss | None = None
        """The next append gets no answer. ``late``: it lands when it is asked after and not found."""
        self.refusals = 0
        """So many appends are refused: certain that they were not written."""
        self.gate: asyncio.Event | None = None
        """Appends and presence wait for it, and only then are written or refused."""
        self.deadline_s: float | None = None
        """So long an append waits at the gate; then it gets no answer, and was not written."""
        self.waiting = asyncio.Event()
        """Set when an append waits at the gate."""
        self.cut_after_loss = False
        """The answer was lost because the way to the journal was."""
        self._late: tuple[Record, Position, Election | None] | None = None

    @property
    def birth(self) -> Birth:
        assert self.ledger.birth is not None
        return self.ledger.birth

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        if self.ledger.birth is None:
            found = await origin()
            if self.ledger.birth is None:
                self.ledger.birth = Birth(uuid.uuid4().hex, found.after, found.incarnation)
                self.ledger.trimmed = self.ledger.last = found.after
                self.ledger.last_id = self.ledger.birth.start.id

    async def append(self, id: bytes, raw: bytes, after: Position, election: Election | None = None) -> None:
        if self.gate is not None:
            self.waiting.set()
        try:
            await self.pass_gate(self.deadline_s)
        except JournalUnavailable:
            raise Unknown("no answer in time") from None
        self.check()
        if self.refusals:
            self.refusals -= 1
            raise JournalFull("no room")
        record = Record(after.seq + 1, id, raw)
        loss, self.loss = self.loss, None
        if loss == "late":
            self._late = record, after, election
        elif loss != "lost":
            self.ledger.put(record, after, election)
        if loss is not None:
            self.is_cut = self.cut_after_loss
            raise Unknown("the answer was lost")
        await asyncio.sleep(0)

    async def read(self, after: int, id: bytes | None = None) -> AsyncIterator[Record]:
        while True:
            self.check()
            grown = self.ledger.grown
            if after < self.ledger.trimmed:
                raise Gap(
                    f"entries up to {self.ledger.trimmed} are no longer kept, {after + 1} was asked for"
                )
            record = self.ledger.records.get(after + 1)
            if record is None:
                check_end(self.ledger.end, after, id)
                await grown.wait()
                continue
            after, id = record.seq, record.id
            yield record

    async def get(self, seq: int) -> Record | None:
        self.check()
        found = self.ledger.records.get(seq)
        if found is None and self._late is not None and self._late[0].seq == seq:
            late, self._late = self._late, None
            self.ledger.put(*late)
        return found

    async def trim(self, upto: int) -> None:
        self.check()
        upto = min(upto, self.ledger.last)
        self.ledger.trimmed = max(self.ledger.trimmed, upto)
        self.ledger.records = {s: r for s, r in self.ledger.records.items() if s > upto}

    async def bounds(self) -> Bounds:
        self.check()
        return Bounds(self.ledger.trimmed + 1, *self.ledger.end)

    async def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        self.check()
        self.ledger.replace_last(last, id, raw)

    async def close(self) -> None:
        return

    async def pass_gate(self, deadline_s: float | None) -> None:
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.sleep(0)
                if self.gate is not None:
                    await self.gate.wait()
        except TimeoutError:
            raise JournalUnavailable("no answer in time") from None

    def cut(self) -> None:
        self.is_cut = True
        self.ledger.wake()

    def heal(self) -> None:
        self.is_cut = False

    def check(self) -> None:
        if self.is_cut:
            raise JournalUnavailable("cut off")


class Presences:
    """One replica's way to the presence of all: as cut as its way to the journal is."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._ledger = handle.ledger

    async def put(self, replica: str, presence: Presence) -> None:
        await self._handle.pass_gate(0.5)
        self._handle.check()
        self._ledger.put_presence(replica, presence)

    async def watch(self) -> AsyncIterator[list[SeenPresence]]:
        known: dict[str, SeenPresence] = {}
        is_first = True
        while True:
            self._handle.check()
            grown = self._ledger.grown
            changed = [seen for seen in self._ledger.present.values() if known.get(seen.replica) != seen]
            if changed or is_first:
                is_first = False
                known = dict(self._ledger.present)
                yield changed
                continue
            await grown.wait()

    async def close(self) -> None:
        return
