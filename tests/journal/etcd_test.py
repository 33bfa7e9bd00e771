"""The quorum's engine passes the suite, on a real etcd."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.etcd import EtcdCluster, etcd

from tocsin.errors import Gap, JournalError
from tocsin.journal.contract import Journal
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.testing.journals import JournalConformance


class _Etcd(JournalConformance):
    def __init__(self, cluster: EtcdCluster) -> None:
        self._cluster = cluster

    async def make(self, folder: Path) -> Journal:
        return EtcdJournal(self._cluster.client(), f"/tocsin{folder}")

    def file_bytes(self, folder: Path) -> int:
        return self._cluster.servers[0].file_bytes


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.mark.parametrize("claim", _Etcd.claims())
def the_etcd_journal_keeps_the_contract(claim: str, one: EtcdCluster, tmp_path: Path) -> None:
    _Etcd(one).check(claim, tmp_path)


def a_follower_is_told_within_milliseconds(one: EtcdCluster, tmp_path: Path) -> None:
    """It watches: nobody polls. The median of many, for the machine may be busy."""

    async def claim() -> list[float]:
        took_s = []
        leader = EtcdJournal(one.client(), str(tmp_path))
        follower = EtcdJournal(one.client(), str(tmp_path))
        for journal in (leader, follower):
            await journal.open()
        records = follower.read(0)
        for after in range(100):
            arriving = asyncio.ensure_future(anext(records))
            await leader.append(after.to_bytes(16, "big"), b"x" * 200, (await leader.bounds()).end)
            acknowledged = time.monotonic()
            await arriving
            took_s.append(time.monotonic() - acknowledged)
        for journal in (leader, follower):
            await journal.close()
        return took_s

    assert statistics.median(asyncio.run(claim())) < 0.02


def a_key_that_is_missing_in_the_middle_is_a_gap(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        client = one.client()
        journal = EtcdJournal(client, str(tmp_path))
        await journal.open()
        for after in range(5):
            await journal.append(after.to_bytes(16, "big"), b"x", (await journal.bounds()).end)
        await client.delete(f"{tmp_path}/entry/{3:020}".encode())
        records = journal.read(1)
        with pytest.raises(Gap, match="entry 3 is missing"):
            [record async for record in records]
        await journal.close()

    asyncio.run(claim())


def an_entry_that_etcd_does_not_take_is_refused_with_the_reason(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        journal = EtcdJournal(one.client(), str(tmp_path))
        await journal.open()
        for size in (1_700_000, 5_000_000):
            with pytest.raises(JournalError, match="--max-request-bytes") as refused:
                await journal.append(b"i" * 16, bytes(size), journal.birth.start)
            assert not refused.value.retryable
        assert (await journal.bounds())[:2] == (1, 0)
        await journal.close()

    asyncio.run(claim())
