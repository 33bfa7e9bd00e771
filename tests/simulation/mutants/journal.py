"""Broken ways to write entries, and to act on them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec
from tests.simulation.mutants.contract import (
    Mutant,
    Search,
    calling,
    exchanged,
    once_a_second,
    replaced,
    together,
)

from tocsin.errors import Conflict, JournalUnavailable, Unknown
from tocsin.journal import codec
from tocsin.journal.contract import Election, Record
from tocsin.model import change as c
from tocsin.model.change import Change
from tocsin.model.entry import Entry, Position
from tocsin.replica import applying, chain, follower, leader, recovery, wishes
from tocsin.replica.follower import catch_up
from tocsin.replica.proposer import Proposer
from tocsin.replica.wishes import Wish
from tocsin.replica.wishes import settle as settle_wish
from tocsin.simulation import quorum
from tocsin.simulation.quorum import Quorum
from tocsin.simulation.virtual import Process
from tocsin.state import apply as state_apply
from tocsin.state.apply import tentative
from tocsin.state.apply.context import Context
from tocsin.state.apply.dispatch import _HANDLERS, handle
from tocsin.state.store import Store


def launched_before_the_acknowledgement() -> AbstractContextManager[None]:
    """The next append waits for the last one's answer; what the entry brings about does not."""
    sound = Proposer._append
    pending: dict[Proposer, asyncio.Task[None]] = {}

    async def append(
        self: Proposer, id: bytes, raw: bytes, after: Position, election: Election | None
    ) -> None:
        if self in pending:
            await pending.pop(self)
        if any(isinstance(change, c.TookOffice) for change in codec.decode(raw, after.seq + 1).changes):
            await sound(self, id, raw, after, election)
        else:
            pending[self] = asyncio.create_task(sound(self, id, raw, after, election))

    return replaced(Proposer, _append=append)


def due_row_in_an_entry_of_its_own() -> AbstractContextManager[None]:
    sound = Proposer.commit

    def started(context: Context, change: c.LaunchesStarted) -> object:
        stay = msgspec.structs.replace(change, next_instants_s=change.instants_s, next_delays_ms=None)
        return began(context, stay)

    async def commit(
        self: Proposer, changes: Sequence[Change], term: int, now_ms: int, *rest: Any
    ) -> list[object]:
        results = await sound(self, changes, term, now_ms, *rest)
        starts = [change for change in changes if isinstance(change, c.LaunchesStarted)]
        moves: list[Change] = [
            c.DueMoved(s.sids, s.next_instants_s, s.next_delays_ms or [0] * len(s.sids)) for s in starts
        ]
        if moves:
            await sound(self, moves, term, now_ms)
        return results

    began = _HANDLERS[c.LaunchesStarted]
    return together(exchanged(_HANDLERS, c.LaunchesStarted, started), replaced(Proposer, commit=commit))


def unknown_is_written_once_more() -> AbstractContextManager[None]:
    """Nothing landed, it is believed; so the same goes behind whatever stands there by now."""
    sound = Proposer.commit

    async def append(
        self: Proposer, id: bytes, raw: bytes, after: Position, election: Election | None
    ) -> None:
        await self._journal.append(id, raw, after, election)

    async def commit(
        self: Proposer, changes: Sequence[Change], term: int, now_ms: int, *rest: Any
    ) -> list[object]:
        while True:
            try:
                return await sound(self, changes, term, now_ms, *rest)
            except Unknown:
                with suppress(JournalUnavailable):
                    await catch_up(self._journal, self._applier, self._applier._store, self._on_state)
                await asyncio.sleep(0.2)

    return replaced(Proposer, commit=commit, _append=append)


def unknown_is_done() -> AbstractContextManager[None]:
    async def append(
        self: Proposer, id: bytes, raw: bytes, after: Position, election: Election | None
    ) -> None:
        with suppress(Unknown):
            await self._journal.append(id, raw, after, election)

    return replaced(Proposer, _append=append)


def old_terms_count() -> AbstractContextManager[None]:
    def execute(db: Any, meta: Any, entry: Any) -> list[object]:
        context = Context(db, meta, entry)
        return [handle(context, change) for change in entry.changes]

    return together(replaced(state_apply, execute=execute), replaced(tentative, execute=execute))


def refused_entries_land() -> AbstractContextManager[None]:
    """A journal that refuses what does not fit, and keeps it nevertheless, at its end."""
    sound = Quorum.put

    def put(self: Quorum, record: Record, after: Position, author: Process, *rest: Any) -> None:
        try:
            sound(self, record, after, author, *rest)
        except Conflict:
            is_known = any(record.id == kept.id for kept in self.records.values())
            if not is_known and _term(record) < _term(self.records[self.last]):
                sound(self, _rewritten(record, self.end), self.end, author, *rest)
            raise

    return replaced(Quorum, put=put)


def places_are_given_out_twice() -> AbstractContextManager[None]:
    """The last one to write wins."""
    sound = Quorum.put

    def put(self: Quorum, record: Record, after: Position, author: Process, *rest: Any) -> None:
        if record.seq <= self.last and record.seq > self.trimmed and self.records[record.seq].id != record.id:
            last, self.last = self.last, record.seq - 1
            sound(self, record, self.end, author, *rest)
            self.last = last
        else:
            sound(self, record, after, author, *rest)

    return replaced(Quorum, put=put)


def ends_are_not_compared() -> AbstractContextManager[None]:
    def check_end(end: Position, after: int, id: bytes | None) -> None:
        return

    places = (quorum, follower, recovery, chain)
    return together(*(replaced(place, check_end=check_end) for place in places))


def entries_follow_any_other() -> AbstractContextManager[None]:
    sound = applying.apply

    def apply(store: Store, seq: int, entry: Entry, raw: bytes) -> list[object]:
        return sound(store, seq, msgspec.structs.replace(entry, prev=store.meta.last_id), raw)

    return replaced(applying, apply=apply)


def callers_are_told_that_it_was_done() -> AbstractContextManager[None]:
    """Before it is, whatever becomes of it."""
    sound = leader.prepared

    def prepared(db: sqlite3.Connection, wishes: Sequence[Wish], now_ms: int) -> Any:
        asked = sound(db, wishes, now_ms)
        for wish in asked.wishes:
            settle_wish(wish.answer, 1)
        return asked

    return replaced(leader, prepared=prepared)


def _rewritten(record: Record, after: Position) -> Record:
    """Behind another entry: such a journal would not be found out by the chain of ids."""
    entry = msgspec.structs.replace(codec.decode(record.raw, record.seq), prev=after.id)
    return Record(after.seq + 1, record.id, codec.encode(entry))


def _term(record: Record) -> int:
    return codec.decode(record.raw, record.seq).term


def entries_grow_with_what_is_asked_for() -> AbstractContextManager[None]:
    return together(
        replaced(wishes, COMMAND_BYTES_AT_ONCE=1 << 40), replaced(leader, CHANGES_BYTES_MAX=1 << 40)
    )


PLAIN = once_a_second(target=calling("plain"), jitter="1s")
LATE = {"way": "to journal", "lost": 0.0, "late": 0.8, "late_s": 6.0, "slow_s": 0.0, "for_s": 4.0}
"""While schedules fall due, so that the next append finds what came late."""

MUTANTS = (
    Mutant(
        "launch before the acknowledgement",
        "targets are called while the answer to the append is still to come",
        ("started first",),
        Search(("lost answers",), 4, PLAIN, lasts_s=30, count=3, least_s=2.0),
        launched_before_the_acknowledgement,
    ),
    Mutant(
        "next instant in another entry",
        "an occurrence starts in one entry, and its due row moves in the next",
        ("nothing dropped",),
        Search(("lost answers",), 4, PLAIN, lasts_s=40, count=5, least_s=2.0),
        due_row_in_an_entry_of_its_own,
    ),
    Mutant(
        "unknown append taken for failed",
        "an entry whose answer was lost is written once more, behind what stands there by now",
        ("nobody ends",),
        Search(("lost answers",), 4, PLAIN, lasts_s=30, count=3, least_s=2.0),
        unknown_is_written_once_more,
    ),
    Mutant(
        "unknown append taken for done",
        "an entry whose answer was lost is taken to stand in the journal",
        ("started first", "replicas agree"),
        Search(("late entries", "cut off"), 4, PLAIN, lasts_s=30, count=3, least_s=2.0),
        unknown_is_done,
    ),
    Mutant(
        "entries of an old term count",
        "what a former leader wrote is applied, by a journal that keeps what it refuses",
        ("nobody ends", "nothing lost"),
        Search(("bad weather",), 4, PLAIN, lasts_s=40, count=4, given=LATE),
        old_terms_count,
        refused_entries_land,
    ),
    Mutant(
        "callers are answered before it is written",
        "who asks for something is told that it was done when it is about to be written",
        ("answers",),
        Search(("no room",), 4, PLAIN, lasts_s=50, count=5, least_s=6.0, more=("edits",)),
        callers_are_told_that_it_was_done,
    ),
    Mutant(
        "entries of any size",
        "all that callers want goes into one entry, however large their payloads are",
        ("entry size",),
        Search(("lost answers",), 1, PLAIN, lasts_s=30, count=1, least_s=2.0, more=("herd",), first=18),
        entries_grow_with_what_is_asked_for,
    ),
    Mutant(
        "the end of the journal is not compared",
        "a replica does not notice that the journal ends before what it has seen",
        ("chain",),
        Search(
            ("restored journal",), 3, PLAIN, lasts_s=60, count=1, given={"for_s": 3.0, "written": "behind"}
        ),
        ends_are_not_compared,
    ),
    Mutant(
        "an entry follows any other",
        "entries are applied whatever they name as the one before them",
        ("chain",),
        Search(
            ("restored journal",), 3, PLAIN, lasts_s=60, count=1, given={"for_s": 3.0, "written": "ahead"}
        ),
        entries_follow_any_other,
    ),
    Mutant(
        "a place is given out twice",
        "the journal lets a late entry take the place of another one",
        ("acknowledged stay",),
        Search(("lost answers",), 4, PLAIN, lasts_s=30, count=3, least_s=2.0),
        places_are_given_out_twice,
    ),
)
