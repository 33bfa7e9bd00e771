"""Room in etcd's file: what was trimmed is compacted away, and now and then the file is made smaller.

Compaction frees pages that later writes use again, so the file stays about as large as it once had to be. Making it
smaller takes a defragmentation, during which a server does nothing else: it is rare, one server at a time, only while
all of them are there, and etcd's leader last. When etcd is full there is no choice: each server is defragmented, then
the alarm is lifted.
"""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import structlog

from tocsin.errors import ClusterError, JournalUnavailable
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.messages import Alarm, Status

_WORTHWHILE_BYTES = 64 << 20
_DEFRAGMENT_EVERY_S = 600.0

log = structlog.get_logger()


class Space:
    """Keeps the file of one etcd cluster bounded."""

    def __init__(self, client: EtcdClient, worthwhile_bytes: int = _WORTHWHILE_BYTES) -> None:
        self._client = client
        self._worthwhile_bytes = worthwhile_bytes
        self._defragmented_at = -_DEFRAGMENT_EVERY_S

    async def reclaim(self, revision: int) -> None:
        """No reader of ours needs what was before: one that comes too late reads pages."""
        try:
            alarms = [alarm for alarm in await self._client.alarms() if alarm.kind == "nospace"]
            await self._client.compact(revision, wait=bool(alarms))
            if alarms:
                await self._recover(alarms)
            else:
                await self._defragment_one()
        except ClusterError as denied:
            log.warning("etcd does not let its file be kept small", reason=str(denied))

    async def _recover(self, alarms: list[Alarm]) -> None:
        """A server that is away will raise the alarm again if it is still too large."""
        for endpoint in await self._servers(all_of_them=False):
            await self._defragment(endpoint)
        for alarm in alarms:
            await self._client.disarm(alarm)
        log.info("etcd had no room left: trimmed, defragmented, the alarm is lifted")

    async def _defragment_one(self) -> None:
        if time.monotonic() - self._defragmented_at < _DEFRAGMENT_EVERY_S:
            return
        try:
            for endpoint, status in (await self._servers(all_of_them=True)).items():
                if status.file_bytes > self._worthwhile_bytes and status.used_bytes < status.file_bytes // 2:
                    self._defragmented_at = time.monotonic()
                    await self._defragment(endpoint)
                    return
        except JournalUnavailable as wrong:
            log.debug("etcd was not defragmented", reason=wrong.message)

    async def _servers(self, all_of_them: bool) -> dict[Endpoint, Status]:
        """Every server of the cluster, also those that we were not told of, and etcd's leader last."""
        found: dict[Endpoint, Status] = {}
        covered: set[int] = set()
        members = await self._client.members(agreed=False)
        elsewhere = [(endpoint_of(member.client_urls), member.id) for member in members if member.client_urls]
        for endpoint, member in [*((one, 0) for one in self._client.endpoints), *elsewhere]:
            if member in covered:
                continue
            try:
                status = await self._client.status(endpoint)
            except JournalUnavailable:
                if all_of_them and member:
                    raise
                continue
            if status.member not in covered:
                found[endpoint] = status
                covered.add(status.member)
        return dict(sorted(found.items(), key=lambda pair: pair[1].leader == pair[1].member))

    async def _defragment(self, endpoint: Endpoint) -> None:
        started = time.monotonic()
        await self._client.defragment(endpoint)
        took_s = round(time.monotonic() - started, 2)
        log.info("etcd's file was defragmented", server=str(endpoint), took_s=took_s)


def endpoint_of(urls: list[str]) -> Endpoint:
    """The first address that a member gives to clients."""
    parts = urlsplit(urls[0])
    return Endpoint(parts.hostname or "", parts.port or 2379)
