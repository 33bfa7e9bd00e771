"""The journal: a service that a majority of the machines keeps, as everybody sees it through a network that fails.

How a majority agrees is not ours to simulate; that it does, and what remains when disks are lost, is. Each
machine's disk holds the entries up to some number. An entry stands when a majority of the disks hold it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from tocsin.errors import Conflict, Gap, JournalFull, JournalUnavailable, PresenceMoved, Unknown
from tocsin.journal import codec
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
from tocsin.model.entry import Entry, Position
from tocsin.model.presence import Presence
from tocsin.simulation.history import Acknowledged, History, Landed, Lost
from tocsin.simulation.network import JOURNAL, Network, Refusal, Silence
from tocsin.simulation.virtual import Process, VirtualLoop

_T = TypeVar("_T")
PATIENCE_S = 1.5
"""So long an engine waits for an answer before it says that it does not know."""
PRESENCE_PATIENCE_S = 0.5


class JournalCopy(NamedTuple):
    """A journal as it was."""

    birth: Birth
    trimmed: int
    last: int
    records: dict[int, Record]
    landed_s: dict[int, float]
    ids: dict[int, bytes]
    elections: list[tuple[int, int]]


class Quorum:
    """What is written down, and on which disks."""

    def __init__(
        self, loop: VirtualLoop, names: list[str], now_ms: Callable[[], float], history: History
    ) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._history = history
        self._births = 0
        self.birth: Birth | None = None
        self.records: dict[int, Record] = {}
        self.landed_s: dict[int, float] = {}
        self.trimmed = self.last = 0
        self.ids: dict[int, bytes] = {}
        """By number, also of entries that were trimmed, and of the birth."""
        self.up: dict[str, bool] = dict.fromkeys(names, True)
        self.held: dict[str, int] = dict.fromkeys(names, 0)
        """By machine: the last entry that its disk holds."""
        self.lagging: set[str] = set()
        """Machines that do not hear of new entries for now."""
        self.is_full = False
        self.is_halted = False
        """A majority of the disks is lost, and nobody has decided yet how it goes on."""
        self._former: Birth | None = None
        """The journal that was lost with all its disks."""
        self.grown = asyncio.Event()
        self.server = Process(JOURNAL, 0)
        self._elections: list[tuple[int, int]] = []
        """Sequence number and term."""
        self._version = 0
        self.present: dict[str, SeenPresence] = {}
        self.heard = asyncio.Event()
        """Set when a presence is written."""
        self.presence_late_s: dict[str, Callable[[], float | None]] = {}
        """By machine: how much later its presence arrives, while entries are as fast as ever. None: never."""

    def has_majority(self) -> bool:
        return 2 * sum(up for name, up in self.up.items() if name not in self.lagging) > len(self.up)

    def host(self) -> Process | None:
        return self.server if self.has_majority() and not self.is_halted else None

    @property
    def term(self) -> int:
        return self._elections[-1][1] if self._elections else 0

    @property
    def end(self) -> Position:
        return Position(self.last, self.ids[self.last])

    def put(self, record: Record, after: Position, author: Process, election: Election | None = None) -> None:
        """Raises Conflict, or it stands."""
        if self.is_full:
            raise JournalFull("no room")
        if after != self.end:
            raise Conflict(f"the journal is at {self.end}, not at {after}")
        if election is not None:
            self._compare(election)
            self._elections.append((record.seq, election.term))
        assert self.birth is not None
        self.records[record.seq] = record
        self.landed_s[record.seq] = self._loop.time()
        self.last = record.seq
        self.ids[record.seq] = record.id
        self.spread()
        entry = codec.decode(record.raw, record.seq)
        self._history.landed.append(
            Landed(
                self._now_ms(),
                self.birth.incarnation,
                record.seq,
                author.name,
                author.number,
                entry,
                len(record.raw),
            )
        )
        self.wake()

    def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        """Raises Conflict unless the journal ends with that entry, or with the one that replaces it."""
        if self.end == (last.seq, id):
            return
        if self.end != last or last.seq not in self.records:
            raise Conflict(f"the journal is at {self.end}, not at {last}")
        self.records[last.seq] = Record(last.seq, id, raw)
        self.landed_s[last.seq] = self._loop.time()
        self.ids[last.seq] = id
        self.wake()

    def _compare(self, election: Election) -> None:
        seen = self.present.get(election.leader)
        if election.leader and election.version != (0 if seen is None else seen.version):
            raise PresenceMoved(f"{election.leader} was heard since")

    def put_presence(self, replica: str, presence: Presence) -> None:
        """Raises Conflict, or it is stored."""
        if self.is_full:
            raise JournalUnavailable("no room")
        if any(term != self.term for term in presence.terms.values()):
            raise Conflict(f"the term is {self.term}")
        self._version += 1
        self.present[replica] = SeenPresence(replica, self._version, presence)
        heard, self.heard = self.heard, asyncio.Event()
        heard.set()

    def spread(self) -> None:
        """Disks that can be reached hold all there is."""
        for name, up in self.up.items():
            if up and name not in self.lagging:
                self.held[name] = self.last

    def wake(self) -> None:
        woken, self.grown = self.grown, asyncio.Event()
        woken.set()

    def trim(self, upto: int) -> None:
        for seq in range(self.trimmed + 1, min(upto, self.last) + 1):
            self.records.pop(seq, None)
            self.landed_s.pop(seq, None)
        self.trimmed = max(self.trimmed, min(upto, self.last))

    def begin(self, origin: Origin) -> None:
        if self.birth is not None:
            return
        self._births += 1
        self.birth = Birth(f"journal-{self._births}", origin.after, origin.incarnation)
        self.trimmed = self.last = origin.after
        self.ids = dict([self.birth.start])
        self.spread()
        if self._former is not None:
            self._note_loss(self._former.incarnation, origin.after)

    def go_on_from(self, birth: Birth, trimmed: int, records: Sequence[Record], end: Position) -> None:
        """A journal that there was before this world."""
        self.birth = birth
        self.trimmed, self.last = trimmed, end.seq
        self.ids = dict([end, *((record.seq, record.id) for record in records)])
        for record in records:
            self.records[record.seq] = record
            self.landed_s[record.seq] = 0.0
        self._history.begun_after[birth.incarnation] = end.seq
        self.spread()

    def copied(self) -> JournalCopy:
        """As an operator copies an engine's data."""
        assert self.birth is not None
        records, landed_s, ids = dict(self.records), dict(self.landed_s), dict(self.ids)
        return JournalCopy(self.birth, self.trimmed, self.last, records, landed_s, ids, list(self._elections))

    def put_back(self, copy: JournalCopy) -> None:
        """It takes the place of what is there."""
        self.birth, self.trimmed, self.last = copy.birth, copy.trimmed, copy.last
        self.records, self.landed_s, self.ids = dict(copy.records), dict(copy.landed_s), dict(copy.ids)
        self._elections = list(copy.elections)
        self.spread()
        self.wake()

    def write_stray(self, upto: int) -> None:
        """Somebody who is none of the replicas writes, up to that number."""
        while self.last < upto:
            seq, id = self.last + 1, f"stray {self.last + 1}".encode()
            entry = Entry(id, self.ids[self.last], 0, int(self._now_ms()), [])
            self.records[seq] = Record(seq, id, codec.encode(entry))
            self.landed_s[seq] = self._loop.time()
            self.last, self.ids[seq] = seq, id
        self.spread()
        self.wake()

    def lose(self, machines: list[str]) -> int | None:
        """These disks are gone. Returns the last entry that is left if a majority was among them, else None: the others
        have everything."""
        for name in machines:
            self.held[name] = 0
        if self.birth is None:
            return None  # there is nothing more to lose
        left = [name for name in self.held if self.held[name]]
        if 2 * len(left) > len(self.held):
            return None
        self.is_halted = True
        birth, self._former = self.birth, None
        last = max((self.held[name] for name in left), default=0)
        for seq in [seq for seq in self.records if seq > last]:
            del self.records[seq], self.landed_s[seq]
        self._elections = [(seq, term) for seq, term in self._elections if left and seq <= last]
        if left:
            self.last = max(last, self.trimmed)
            self._note_loss(birth.incarnation, self.last)
        else:
            self.birth, self._former = None, birth
            self.present.clear()
            self.trimmed = self.last = 0
        return self.last

    def recover(self) -> None:
        """It goes on from what is left."""
        self.is_halted = False
        self.spread()
        self.wake()

    def _note_loss(self, former: str, after: int) -> None:
        assert self.birth is not None
        landed = self._history.landed
        kept = [each.at_ms for each in landed if each.incarnation == former and each.seq <= after]
        since_ms = kept[-1] if kept else self._history.began_ms
        self._history.lost.append(Lost(self._now_ms(), since_ms, former, self.birth.incarnation, after))


class Handle:
    """One process's way to the journal: the port ``Journal``."""

    def __init__(
        self,
        quorum: Quorum,
        network: Network,
        process: Process,
        now_ms: Callable[[], float],
        history: History,
    ) -> None:
        self._quorum = quorum
        self._network = network
        self._process = process
        self._now_ms = now_ms
        self._history = history
        self._sent: dict[bytes, int] = {}
        """Entries whose answer is still to come, by their id."""
        self._birth: Birth | None = None

    @property
    def birth(self) -> Birth:
        assert self._birth is not None
        return self._birth

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        async def look() -> Birth | None:
            return self._quorum.birth

        self._birth = await self._ask(look)
        if self._birth is None:
            found = await origin()

            async def begin() -> Birth:
                self._quorum.begin(found)
                assert self._quorum.birth is not None
                return self._quorum.birth

            self._birth = await self._ask(begin)

    async def append(self, id: bytes, raw: bytes, after: Position, election: Election | None = None) -> None:
        seq = after.seq + 1

        async def put() -> None:
            self._check(self._quorum.birth)
            self._quorum.put(Record(seq, id, raw), after, self._process, election)

        self._sent[id] = seq
        try:
            await self._network.ask(self._process.name, JOURNAL, self._quorum.host, put, PATIENCE_S)
        except Silence as silence:
            raise Unknown(str(silence)) from None
        except Refusal as refusal:
            raise JournalUnavailable(str(refusal)) from None
        self._acknowledged(id, seq)

    async def read(self, after: int, id: bytes | None = None) -> AsyncIterator[Record]:
        quorum, network, name = self._quorum, self._network, self._process.name
        arrived_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            grown = quorum.grown
            self._check(quorum.birth)
            if after < quorum.trimmed:
                raise Gap(f"entries up to {quorum.trimmed} are no longer kept, {after + 1} was asked for")
            record = quorum.records.get(after + 1)
            if record is None:
                check_end(quorum.end, after, id)
                await grown.wait()
                continue
            if quorum.host() is None or (delay_s := network.delay_s(JOURNAL, name)) is None:
                await network.wait_for_change()
                continue
            # In order, however long each takes by itself.
            arrived_s = max(arrived_s, quorum.landed_s[record.seq] + delay_s)
            if arrived_s > loop.time():
                await asyncio.sleep(arrived_s - loop.time())
            if quorum.records.get(record.seq) is not record:
                continue
            after, id = record.seq, record.id
            yield record

    async def get(self, seq: int) -> Record | None:
        async def look() -> Record | None:
            self._check(self._quorum.birth)
            return self._quorum.records.get(seq)

        found = await self._ask(look)
        if found is not None and found.id in self._sent:
            self._acknowledged(found.id, seq)
        return found

    async def trim(self, upto: int) -> None:
        async def trim() -> None:
            self._quorum.trim(upto)

        await self._ask(trim)

    async def bounds(self) -> Bounds:
        async def look() -> Bounds:
            self._check(self._quorum.birth)
            return Bounds(self._quorum.trimmed + 1, *self._quorum.end)

        return await self._ask(look)

    async def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        async def replace() -> None:
            self._check(self._quorum.birth)
            self._quorum.replace_last(last, id, raw)

        await self._ask(replace)

    async def close(self) -> None:
        return

    async def _ask(self, work: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await self._network.ask(self._process.name, JOURNAL, self._quorum.host, work, PATIENCE_S)
        except (Silence, Refusal) as wrong:
            raise JournalUnavailable(str(wrong)) from None

    def _check(self, birth: Birth | None) -> None:
        if self._birth is not None and birth != self._birth:
            raise JournalUnavailable("this is not the journal that was opened")

    def _acknowledged(self, id: bytes, seq: int) -> None:
        if self._sent.pop(id, None) is not None:
            assert self._birth is not None
            process = self._process
            self._history.acknowledged.append(
                Acknowledged(self._now_ms(), self._birth.incarnation, seq, id, process.name, process.number)
            )


class Presences:
    """One process's way to the presence of all: the port ``PresenceStore``."""

    def __init__(self, quorum: Quorum, network: Network, process: Process) -> None:
        self._quorum = quorum
        self._network = network
        self._name = process.name

    async def put(self, replica: str, presence: Presence) -> None:
        async def put() -> None:
            self._quorum.put_presence(replica, presence)

        if (late := self._quorum.presence_late_s.get(self._name)) is not None:
            await self._put_late(late(), replica, presence)
        try:
            await self._network.ask(self._name, JOURNAL, self._quorum.host, put, PRESENCE_PATIENCE_S)
        except (Silence, Refusal) as wrong:
            raise JournalUnavailable(str(wrong)) from None

    async def _put_late(self, late_s: float | None, replica: str, presence: Presence) -> None:
        """It arrives when nobody waits any more for the answer, or never."""

        def arrive() -> None:
            with contextlib.suppress(Conflict, JournalUnavailable):
                if self._quorum.host() is not None:
                    self._quorum.put_presence(replica, presence)

        if late_s is not None:
            asyncio.get_running_loop().outside(late_s, arrive)  # type: ignore[attr-defined]  # why: the virtual loop's own
        await asyncio.sleep(PRESENCE_PATIENCE_S)
        raise JournalUnavailable("presence gets no answer")

    async def watch(self) -> AsyncIterator[list[SeenPresence]]:
        """What is told is on its way for a while: it is as things were when it left."""
        quorum, network = self._quorum, self._network
        known: dict[str, SeenPresence] = {}
        is_first = True
        while True:
            heard = quorum.heard
            changed = [seen for seen in quorum.present.values() if known.get(seen.replica) != seen]
            if not changed and not is_first:
                await heard.wait()
                continue
            if quorum.host() is None or (delay_s := network.delay_s(JOURNAL, self._name)) is None:
                await network.wait_for_change()
                continue
            is_first = False
            known = dict(quorum.present)
            await asyncio.sleep(delay_s)
            yield changed

    async def close(self) -> None:
        return
