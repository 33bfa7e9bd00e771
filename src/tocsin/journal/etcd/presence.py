"""The presence of each replica, next to the journal in etcd: ``<prefix>/presence/<name>``, JSON, without a lease.

An etcd lease would expire by the clock of etcd's own leader, which knows nothing of the moment at which a replica sent
its last renewal. Here the times are those of the replicas, and etcd only compares and stores.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec

from tocsin.errors import Conflict, JournalUnavailable
from tocsin.journal.contract import SeenPresence
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.client import EtcdClient
from tocsin.model.presence import Presence

QUIET_S = 1.0
"""A leader is heard more often. After so much silence etcd is asked: a server that is cut off from the others keeps its
watches and tells them nothing."""


def presence_key(base: bytes, replica: str) -> bytes:
    return base + b"/presence/" + replica.encode()


def term_key(base: bytes) -> bytes:
    return base + b"/term"


class EtcdPresence:
    """Under the same prefix as the journal, through a client of its own."""

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self._client = client
        self._base = prefix.rstrip("/").encode()
        self._first = presence_key(self._base, "")
        self._end = self._base + b"/presence0"  # "0" follows "/"

    async def put(self, replica: str, presence: Presence) -> None:
        conditions = [m.has_value(term_key(self._base), b"%d" % term) for term in presence.terms.values()]
        put = m.do_put(presence_key(self._base, replica), msgspec.json.encode(presence))
        done = await self._client.transact(conditions, [put], [])
        if not done.succeeded:
            raise Conflict(f"a term of {dict(presence.terms)} is over: another replica leads")

    async def watch(self) -> AsyncIterator[list[SeenPresence]]:
        known: dict[bytes, int] = {}
        while True:
            found = await self._client.range(self._first, self._end)
            yield self._seen(_changed(found.kvs, known))
            async with aclosing(self._tail(known, found.revision)) as tail:
                async for seen in tail:
                    yield seen

    async def _tail(self, known: dict[bytes, int], revision: int) -> AsyncGenerator[list[SeenPresence], None]:
        """Records as they are written. Ends where the server that is watched does not tell what the others know."""
        watch = self._client.watch(self._first, self._end, revision + 1, QUIET_S)
        async with aclosing(watch):
            async for batch in watch:
                is_told = bool(batch.puts)
                kvs = batch.puts or (await self._client.range(self._first, self._end)).kvs
                changed = _changed(kvs, known)
                yield self._seen(changed)
                if changed and not is_told:
                    return

    async def close(self) -> None:
        await self._client.close()

    def _seen(self, kvs: Sequence[m.KeyValue]) -> list[SeenPresence]:
        found = []
        for kv in kvs:
            name = kv.key[len(self._first) :].decode(errors="replace")
            try:
                presence = msgspec.json.decode(kv.value, type=Presence)
            except (msgspec.MsgspecError, UnicodeError) as wrong:
                # It may hold a lease: as long as nobody knows, nobody else may lead.
                raise JournalUnavailable(f"the presence of {name} cannot be read: {wrong}") from None
            found.append(SeenPresence(name, kv.revision, presence))
        return found


def _changed(kvs: Sequence[m.KeyValue], known: dict[bytes, int]) -> list[m.KeyValue]:
    """Those that were not known in this version. Now they are."""
    changed = [kv for kv in kvs if known.get(kv.key) != kv.revision]
    known.update((kv.key, kv.revision) for kv in changed)
    return changed
