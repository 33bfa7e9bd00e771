"""The quorum's engine: one key per entry, and a head that each append compares and moves, in one transaction.

``<prefix>/birth``                  JSON, written with the head in one transaction when the journal is created
``<prefix>/head``                   the last sequence number, in decimal, and behind a space the id of that entry
``<prefix>/skip/<20 digits>``       an entry as it was before an operator had it skipped: nobody reads it any more
``<prefix>/entry/<20 digits>``      one byte for the id's length, the id, the entry
``<prefix>/term``                   the newest term, in decimal: presence that lists another one is not stored

Where the journal begins is not written down: it is the first entry there is, or the head's successor. So trimming
needs no room, and works where etcd has none left.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec
import structlog

from tocsin.errors import (
    Conflict,
    Gap,
    JournalError,
    JournalFull,
    JournalUnavailable,
    NotEnlisted,
    PresenceMoved,
    StateDamaged,
    Unknown,
)
from tocsin.journal.contract import Birth, Bounds, Election, Origin, Record, check_end, from_nothing
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.failures import Lost, Said
from tocsin.journal.etcd.presence import presence_key, term_key
from tocsin.journal.etcd.roster import replica_key
from tocsin.journal.etcd.space import Space
from tocsin.model.entry import REMEDY, Position

_PAGE_MIN, _PAGE_MAX = 16, 1024
_PAGE_BYTES = 2 << 20
QUIET_S = 5.0
"""After so long without an entry the journal is asked. That a leader is there is told by its presence, not here."""
_ROOM_HINT = "trimming makes room; or give etcd a larger --quota-backend-bytes"

log = structlog.get_logger()


class _Page(NamedTuple):
    records: list[Record]
    revision: int
    """At which it was read: a watch goes on behind it."""


async def has_journal(client: EtcdClient, prefix: str) -> bool:
    """Was one ever made here?"""
    return bool((await client.range(prefix.rstrip("/").encode() + b"/birth")).kvs)


class EtcdJournal:
    """One journal under one prefix of an etcd cluster. ``replica``: no term begins by this journal unless the roster
    beside it has that name. Empty: nobody can be removed from the roster."""

    def __init__(self, client: EtcdClient, prefix: str, replica: str = "") -> None:
        self._client = client
        base = self._base = prefix.rstrip("/").encode()
        self._replica = replica
        self._birth_key = base + b"/birth"
        self._head_key = base + b"/head"
        self._entries = base + b"/entry/"
        self._behind_head = self._head_key + b"\0"
        self._end = base + b"/entry0"  # "0" follows "/"
        self._skips = base + b"/skip/"
        self._space = Space(client)
        self._birth = Birth("")

    @property
    def birth(self) -> Birth:
        return self._birth

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        found = await self._client.range(self._birth_key)
        if not found.kvs:
            found = await self._create(await origin())
        try:
            self._birth = msgspec.json.decode(found.kvs[0].value, type=Birth)
        except (msgspec.MsgspecError, UnicodeError) as wrong:
            raise StateDamaged(
                f"the journal's birth in etcd is damaged: {wrong}", hint="was it edited by hand?"
            ) from None

    async def append(self, id: bytes, raw: bytes, after: Position, election: Election | None = None) -> None:
        seq = after.seq + 1
        value = bytes([len(id)]) + id + raw
        conditions = [m.has_value(self._head_key, _head_value(after))]
        puts = [m.do_put(self._key(seq), value), m.do_put(self._head_key, _head_value(Position(seq, id)))]
        asked = [m.do_range(m.range_of(self._head_key))]
        if election is not None:
            puts.append(m.do_put(term_key(self._base), b"%d" % election.term))
            if self._replica:
                enlisted = replica_key(self._base, self._replica)
                conditions.append(m.is_present(enlisted))
                asked.append(m.do_range(m.range_of(enlisted)))
            if election.leader:
                conditions.append(m.is_at(presence_key(self._base, election.leader), election.version))
        try:
            done = await self._client.transact(conditions, puts, asked)
        except Lost as lost:
            raise Unknown(f"the entry's fate is unknown: {lost.message}") from lost
        except Said as said:
            await self._refused(said, id, len(raw), seq)
            return
        if not done.succeeded:
            if election is not None and self._replica and not done.ranges[1].kvs:
                raise NotEnlisted.of(self._replica)
            if election is not None and _head(done.ranges[0]) == after:
                raise PresenceMoved(f"{election.leader} was heard since")
            raise Conflict(f"the journal is at {_head(done.ranges[0])}, not at {after}")

    async def read(self, after: int, id: bytes | None = None) -> AsyncIterator[Record]:
        """Pages as long as there are any, then a watch. A watch that ends is opened again, behind a page."""
        limit = _PAGE_MIN
        while True:
            page = await self._page(after, id, limit)
            for record in page.records:
                after, id = record.seq, record.id
                yield record
            limit = _next_limit(limit, page.records)
            if page.records:
                continue
            async with aclosing(self._tail(after, id, page.revision)) as tail:
                async for record in tail:
                    after, id = record.seq, record.id
                    yield record

    async def get(self, seq: int) -> Record | None:
        found = await self._client.range(self._key(seq))
        return _record(seq, found.kvs[0].value) if found.kvs else None

    async def trim(self, upto: int) -> None:
        """Without a mark: see above. What was trimmed leaves etcd's file with the compaction."""
        upto = min(upto, _head(await self._client.range(self._head_key)).seq)
        revision = await self._client.delete(self._key(0), self._key(max(0, upto) + 1))
        await self._space.reclaim(revision)

    async def bounds(self) -> Bounds:
        found = await self._client.range(self._key(0), self._behind_head, limit=1)
        if found.kvs and found.kvs[0].key != self._head_key:
            return Bounds(self._seq(found.kvs[0].key), *_head(await self._client.range(self._head_key)))
        end = _head(found)
        return Bounds(end.seq + 1, *end)

    async def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        former = await self._client.range(self._key(last.seq))
        if not former.kvs:
            raise Conflict(f"the journal does not hold {last}")
        value, replaced = bytes([len(id)]) + id + raw, _head_value(Position(last.seq, id))
        done = await self._client.transact(
            [m.has_value(self._head_key, _head_value(last))],
            [
                m.do_put(self._skips + b"%020d" % last.seq, former.kvs[0].value),
                m.do_put(self._key(last.seq), value),
                m.do_put(self._head_key, replaced),
            ],
            [m.do_range(m.range_of(self._head_key))],
            repeatable=True,
        )
        if not done.succeeded and (end := _head(done.ranges[0])) != (last.seq, id):
            raise Conflict(f"the journal is at {end}, not at {last}")

    async def close(self) -> None:
        await self._client.close()

    # Birth

    async def _create(self, origin: Origin) -> m.Ranged:
        """Of several at the same time one wins; what is read afterwards is the winner's."""
        birth = Birth(uuid.uuid4().hex, origin.after, origin.incarnation)
        put = [
            m.do_put(self._birth_key, msgspec.json.encode(birth)),
            m.do_put(self._head_key, _head_value(birth.start)),
        ]
        try:
            await self._client.transact([m.is_absent(self._birth_key)], put, [], repeatable=True)
        except Said as said:
            if said.is_full:
                raise JournalFull("etcd has no room for a journal", hint=_ROOM_HINT) from said
            raise
        return await self._client.range(self._birth_key)

    # Appending

    async def _refused(self, said: Said, id: bytes, size: int, seq: int) -> None:
        """etcd answered with an error. Returns if the entry landed nevertheless."""
        if said.is_full:
            await self._full_or_landed(said, id, seq)
        elif "too large" in said.reason or "larger than max" in said.reason:
            raise JournalError(
                f"etcd does not take an entry of {size} bytes", hint="its --max-request-bytes is too small"
            ) from said
        elif said.is_certain:
            raise said
        else:
            raise Unknown(f"the entry's fate is unknown: {said.message}") from said

    async def _full_or_landed(self, said: Said, id: bytes, seq: int) -> None:
        """The transaction that crosses the limit is applied, and refused in the same breath."""
        try:
            found = await self.get(seq)
        except JournalUnavailable as wrong:
            raise Unknown(f"etcd has no room, and then: {wrong.message}") from wrong
        if found is None:
            raise JournalFull("etcd has no room for the entry", hint=_ROOM_HINT) from said
        if found.id != id:
            raise Conflict(f"another entry holds sequence number {seq}")

    # Reading

    async def _page(self, after: int, id: bytes | None, limit: int) -> _Page:
        """The records behind ``after`` that are there now, and the head if it is reached.

        In one range, for the head's key follows those of the entries. A transaction would do as well, but a full etcd
        may refuse even one that only reads. Raises Gap if the first record is not the next one, and ChainBroken where
        there is none and the head is not the entry that the reader knows.
        """
        found = await self._client.range(self._key(after + 1), self._behind_head, limit=limit + 1)
        records = [_record(self._seq(kv.key), kv.value) for kv in found.kvs if kv.key != self._head_key]
        for expected, record in enumerate(records, after + 1):
            if record.seq != expected:
                raise Gap(f"journal entry {expected} is missing, the next one is {record.seq}")
        if not records:
            end = _head(found)
            if end.seq > after:
                raise Gap(f"journal entries up to {end.seq} are no longer kept, {after + 1} was asked for")
            check_end(end, after, id)
        return _Page(records, found.revision)

    async def _tail(self, after: int, id: bytes | None, revision: int) -> AsyncGenerator[Record, None]:
        """Records as they land. Ends where the watch and the journal disagree: read a page then.

        A server that is cut off from the others keeps its watches and tells them nothing. So when nothing came for a
        while, the journal is asked: that takes the others, and fails where they cannot be reached.
        """
        watch = self._client.watch(self._entries, self._end, revision + 1, QUIET_S)
        try:
            async with aclosing(watch):
                async for batch in watch:
                    for kv in batch.puts:
                        seq = self._seq(kv.key)
                        if seq <= after:
                            continue
                        if seq != after + 1:
                            return
                        record = _record(seq, kv.value)
                        after, id = seq, record.id
                        yield record
                    if not batch.puts and (await self._page(after, id, 1)).records:
                        return
        except (
            JournalUnavailable
        ) as wrong:  # a watch may end at any time; the next page tells what that means
            log.debug("a watch of the journal ended", reason=wrong.message)

    # Keys

    def _key(self, seq: int) -> bytes:
        return self._entries + b"%020d" % seq

    def _seq(self, key: bytes) -> int:
        digits = key[len(self._entries) :]
        if not digits.isdigit():
            raise Gap(f"a key that is no entry is among the journal's entries: {key!r}")
        return int(digits)


def _record(seq: int, value: bytes) -> Record:
    start = 1 + value[0] if value else 0
    if not 0 < start <= len(value):
        raise Gap(f"journal entry {seq} is damaged: it has no id")
    return Record(seq, value[1:start], value[start:])


def _head(found: m.Ranged) -> Position:
    digits, _, id = found.kvs[0].value.partition(b" ") if found.kvs else (b"", b"", b"")
    if not digits.isdigit() or not id:
        raise Gap("the journal's head is missing in etcd", hint=REMEDY)
    return Position(int(digits), id)


def _head_value(end: Position) -> bytes:
    return b"%d %b" % end


def _next_limit(limit: int, records: list[Record]) -> int:
    """Large pages of small records, small pages of large ones."""
    size = sum(len(record.raw) for record in records)
    if size > _PAGE_BYTES:
        return max(_PAGE_MIN // 4, limit // 2)
    return min(_PAGE_MAX, limit * 2) if size < _PAGE_BYTES // 2 else limit
