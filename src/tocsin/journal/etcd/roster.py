"""The replicas of a journal, next to it in etcd: ``<prefix>/replica/<name>``, JSON, without a lease."""

from __future__ import annotations

import msgspec

from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.client import EtcdClient
from tocsin.model.cluster import Member


def replica_key(base: bytes, name: str) -> bytes:
    return base + b"/replica/" + name.encode()


class EtcdRoster:
    """Who belongs to the journal under this prefix."""

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self._client = client
        base = self._base = prefix.rstrip("/").encode()
        self._replicas = replica_key(base, "")
        self._end = base + b"/replica0"  # "0" follows "/"

    async def members(self) -> list[Member]:
        found = await self._client.range(self._replicas, self._end)
        return [msgspec.json.decode(kv.value, type=Member) for kv in found.kvs]

    async def enlist(self, member: Member) -> None:
        await self._client.put(self._key(member.name), msgspec.json.encode(member))

    async def expect(self, member: Member) -> None:
        key = self._key(member.name)
        put = m.do_put(key, msgspec.json.encode(member))
        await self._client.transact([m.is_absent(key)], [put], [], repeatable=True)

    async def strike(self, name: str) -> None:
        await self._client.delete(self._key(name))

    def _key(self, name: str) -> bytes:
        return replica_key(self._base, name)
