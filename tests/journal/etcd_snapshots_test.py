"""The newest snapshot, stored beside the journal in a real etcd."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.etcd import EtcdCluster, etcd

from tocsin.errors import JournalUnavailable, Unreachable
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd import snapshots
from tocsin.journal.etcd.snapshots import EtcdSnapshots
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def _file(folder: Path, seq: int, size: int) -> tuple[Manifest, Path]:
    """What cannot be compressed."""
    folder.mkdir(exist_ok=True)
    path = snapshot.data_of(folder, seq)
    path.write_bytes(os.urandom(size))
    return Manifest(seq, "one", 1, size, hashlib.sha256(path.read_bytes()).hexdigest()), path


async def _pieces(store: EtcdSnapshots) -> int:
    return len((await store._client.range(store._pieces, store._end, keys_only=True)).kvs)


def a_snapshot_comes_back_as_it_was(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        store = EtcdSnapshots(one.client(), str(tmp_path))
        assert await store.newest() is None
        assert await store.fetch(tmp_path / "there") is None
        for seq, size in ((7, 3_000_000), (9, 10), (12, snapshots.PIECE_BYTES)):
            manifest, path = _file(tmp_path / "here", seq, size)
            assert await store.put(manifest, path)
            assert await store.newest() == manifest
            assert await store.fetch(tmp_path / "there") == manifest
            assert snapshot.verify(tmp_path / "there", manifest).read_bytes() == path.read_bytes()
            assert await _pieces(store) <= size // snapshots.PIECE_BYTES + 1, "of the newest one only"
        await store.close()

    _run(claim())


def of_one_that_is_too_large_only_the_manifest_is_stored(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        store = EtcdSnapshots(one.client(), str(tmp_path), bytes_max=500_000)
        assert await store.put(*_file(tmp_path / "here", 7, 400_000))
        manifest, path = _file(tmp_path / "here", 9, 600_000)
        assert not await store.put(manifest, path)
        assert await store.newest() == manifest
        assert await _pieces(store) == 0
        with pytest.raises(Unreachable, match="too large"):
            await store.fetch(tmp_path / "there")
        await store.close()

    _run(claim())


def of_two_that_store_one_at_the_same_time_one_wins_and_no_piece_is_left(
    one: EtcdCluster, tmp_path: Path
) -> None:
    async def claim() -> None:
        stores = [EtcdSnapshots(one.client(), str(tmp_path)) for _ in range(2)]
        files = [_file(tmp_path / "here", seq, 2_000_000) for seq in (7, 9)]
        done = await asyncio.gather(
            *(store.put(*file) for store, file in zip(stores, files, strict=True)), return_exceptions=True
        )
        assert [each for each in done if each is True] == [True]
        assert [type(each) for each in done if each is not True] == [JournalUnavailable]
        won, _ = files[done.index(True)]
        assert await stores[0].newest() == won
        assert await stores[1].fetch(tmp_path / "there") == won
        assert await _pieces(stores[0]) == 2_000_000 // snapshots.PIECE_BYTES + 1
        for store in stores:
            await store.close()

    _run(claim())


def one_that_is_damaged_or_incomplete_is_not_taken(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        client = one.client()
        store = EtcdSnapshots(client, str(tmp_path))
        manifest, path = _file(tmp_path / "here", 7, 1_000_000)
        await store.put(manifest, path)
        (first, *_) = (await client.range(store._pieces, store._end, limit=1)).kvs
        for broken in (first.value[:-1], first.value[:100] + b"x" + first.value[101:], b"", None):
            if broken is None:
                await client.transact([], [m.do_delete(first.key)], [])
            else:
                await client.put(first.key, broken)
            with pytest.raises(Unreachable, match="not whole"):
                await store.fetch(tmp_path / "there")
        assert not list((tmp_path / "there").iterdir())
        await store.put(manifest, path)
        assert await store.fetch(tmp_path / "there") == manifest
        await store.close()

    _run(claim())
