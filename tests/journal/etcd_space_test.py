"""etcd's file stays bounded, and a full etcd is told apart from a lost answer and recovers by trimming."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.etcd import etcd

from tocsin.errors import JournalFull
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.journal.etcd.space import Space

_QUOTA = 16 << 20


def a_full_etcd_takes_nothing_and_goes_on_after_a_trim(tmp_path: Path) -> None:
    """etcd applies the very transaction that crosses its limit and says that it has no room."""

    async def fill(journal: EtcdJournal) -> int:
        for after in range(1_000):
            try:
                await journal.append(os.urandom(16), os.urandom(200_000), (await journal.bounds()).end)
            except JournalFull:
                return after
        raise AssertionError("it never got full")

    async def claim() -> None:
        client = cluster.client()
        journal = EtcdJournal(client, "/full")
        await journal.open()
        landed = await fill(journal)
        assert (await journal.bounds())[:2] == (1, landed)
        with pytest.raises(JournalFull):
            await journal.append(b"i" * 16, b"small", (await journal.bounds()).end)
        await journal.trim(landed - 5)
        assert await client.alarms() == []
        assert (await journal.bounds())[:2] == (landed - 4, landed)
        for _ in range(20):
            await journal.append(os.urandom(16), os.urandom(200_000), (await journal.bounds()).end)
        await journal.close()

    with etcd(tmp_path / "etcd", count=3, options=["--quota-backend-bytes", str(_QUOTA)]) as cluster:
        asyncio.run(claim())


def an_append_that_crosses_the_limit_is_acknowledged_or_refused_for_certain(tmp_path: Path) -> None:
    """Whatever etcd says at the limit: what was acknowledged is there, what was refused is not."""

    async def fill(journal: EtcdJournal, after: int, size: int) -> int:
        try:
            while True:
                await journal.append(
                    after.to_bytes(16, "big"), os.urandom(size), (await journal.bounds()).end
                )
                after += 1
        except JournalFull:
            return after

    async def claim() -> None:
        journal = EtcdJournal(cluster.client(), "/limit")
        await journal.open()
        for size in (300_000, 100_000, 250_000):
            after = await fill(journal, (await journal.bounds()).last, size)
            assert (await journal.bounds()).last == after
            found = await journal.get(after)
            assert found is not None
            assert found.id == (after - 1).to_bytes(16, "big")
            await journal.trim(after)
        await journal.close()

    with etcd(tmp_path / "etcd", options=["--quota-backend-bytes", str(_QUOTA)]) as cluster:
        asyncio.run(claim())


def the_file_is_bounded_by_trimming_and_made_smaller_when_it_pays(tmp_path: Path) -> None:
    async def claim() -> None:
        client = cluster.client()
        journal = EtcdJournal(client, "/bounded")
        journal._space = Space(client, worthwhile_bytes=8 << 20)
        await journal.open()
        for _ in range(120):
            await journal.append(os.urandom(16), os.urandom(200_000), (await journal.bounds()).end)
        full = cluster.servers[0].file_bytes
        await journal.trim(120)
        await journal.append(os.urandom(16), b"after it", (await journal.bounds()).end)
        await _compacted(journal)
        assert cluster.servers[0].file_bytes < full / 4
        await journal.close()

    async def _compacted(journal: EtcdJournal) -> None:
        """Compaction goes on in the background: the next trims find out that there is something to gain."""
        for _ in range(200):
            if cluster.servers[0].file_bytes < 8 << 20:
                return
            await journal.trim(120)
            await asyncio.sleep(0.05)

    with etcd(tmp_path / "etcd") as cluster:
        asyncio.run(claim())
