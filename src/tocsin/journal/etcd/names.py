"""Which process runs under a name, next to the journal in etcd: ``<prefix>/name/<name>``, JSON, without a lease."""

from __future__ import annotations

import msgspec

from tocsin.journal.contract import NameHolder
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.client import EtcdClient


class EtcdNames:
    """Under the same prefix as the journal, through a client of its own."""

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self._client = client
        self._base = prefix.rstrip("/").encode() + b"/name/"

    async def holder(self, name: str) -> NameHolder | None:
        found = (await self._client.range(self._key(name))).kvs
        if not found:
            return None
        try:
            return msgspec.json.decode(found[0].value, type=NameHolder)
        except (msgspec.MsgspecError, UnicodeError):  # a record that cannot be read is nobody's
            await self._client.delete(self._key(name))
            return None

    async def put(self, name: str, holder: NameHolder, instead: NameHolder | None) -> bool:
        put = m.do_put(self._key(name), msgspec.json.encode(holder))
        return (await self._client.transact([self._is(name, instead)], [put], [])).succeeded

    async def release(self, name: str, holder: NameHolder) -> None:
        await self._client.transact([self._is(name, holder)], [m.do_delete(self._key(name))], [])

    async def close(self) -> None:
        await self._client.close()

    def _is(self, name: str, holder: NameHolder | None) -> bytes:
        key = self._key(name)
        return m.is_absent(key) if holder is None else m.has_value(key, msgspec.json.encode(holder))

    def _key(self, name: str) -> bytes:
        return self._base + name.encode()
