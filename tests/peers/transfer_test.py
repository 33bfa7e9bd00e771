"""A snapshot comes from another replica: whole, in pieces, through the death of whoever lends it."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import Unreachable
from tocsin.peers import server, transfer
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

SIZE = 3_000_000


def _held(
    folder: Path, seq: int, *, seed: bytes = b"a", incarnation: str = "i", size: int = SIZE
) -> Manifest:
    """A snapshot in that folder. What is in it does not matter here."""
    content = (seed * 64 + b"%d" % seq) * (size // 64 + 1)
    part = folder / "made"
    part.write_bytes(content[:size])
    manifest = Manifest(seq, incarnation, 5, size, hashlib.sha256(content[:size]).hexdigest())
    snapshot.admit(folder, part, manifest)
    return manifest


def _same(source: Path, target: Path) -> None:
    for path in source.glob("state-*"):
        shutil.copy(path, target)


class _Dies:
    """A lender that is gone after so many pieces, in the middle of a snapshot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: Any, name: str, pieces: int) -> None:
        self._left = pieces
        self.cluster, self.name = cluster, name
        self.asked_from: list[tuple[str, int]] = []
        monkeypatch.setattr(server, "PIECE", 64 * 1024)
        true_sent = server._sent

        async def sent(request: Any, manifest: Manifest, path: Path) -> Any:
            first = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
            self.asked_from.append((path.parent.name, first))
            if path.parent.name == name:
                return await self._cut(request, manifest, path)
            return await true_sent(request, manifest, path)

        monkeypatch.setattr(server, "_sent", sent)

    async def _cut(self, request: Any, manifest: Manifest, path: Path) -> Any:
        from aiohttp import web

        first = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
        response = web.StreamResponse(status=206)
        response.content_length = manifest.size - first
        await response.prepare(request)
        with path.open("rb") as file:
            file.seek(first)
            for _ in range(self._left):
                await response.write(file.read(server.PIECE))
        asyncio.get_running_loop().create_task(self.cluster.servers[self.name].stop())
        request.transport.abort()
        return response


def the_newest_comes_and_is_what_its_manifest_says(running, tmp_path):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            _held(cluster.replicas["a"].folder, 10)
            newest = _held(cluster.replicas["b"].folder, 20)
            folder = tmp_path / "here"
            assert await client.fetch_snapshot("i", 5, folder) == newest
            assert snapshot.manifests(folder) == [newest]
            assert snapshot.verify(folder, newest).read_bytes()[:64] == b"a" * 64
            assert cluster.replicas["b"].lent == [20]
            assert not list(folder.glob("*.partial"))

    asyncio.run(whole())


def what_is_too_old_or_of_another_journal_is_left_where_it_is(running, tmp_path):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            _held(cluster.replicas["a"].folder, 10)
            _held(cluster.replicas["b"].folder, 30, incarnation="other")
            assert await client.fetch_snapshot("i", 11, tmp_path / "here") is None

    asyncio.run(whole())


def nobody_else_is_no_snapshot_and_no_error(running, tmp_path):
    async def whole() -> None:
        async with running() as (_, client):
            assert await client.fetch_snapshot("i", 1, tmp_path / "here") is None

    asyncio.run(whole())


def silence_is_not_taken_for_having_none(running, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSE_S", 0.0)

    async def whole() -> None:
        async with running("a") as (cluster, client):
            await cluster.servers["a"].stop()
            with pytest.raises(Unreachable, match="none of a answers"):
                await client.fetch_snapshot("i", 1, tmp_path / "here")

    asyncio.run(whole())


def when_the_lender_dies_another_one_with_the_same_file_goes_on(running, tmp_path, monkeypatch):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            manifest = _held(cluster.replicas["a"].folder, 10)
            _same(cluster.replicas["a"].folder, cluster.replicas["b"].folder)
            dies = _Dies(monkeypatch, cluster, "a", pieces=10)
            assert await client.fetch_snapshot("i", 5, tmp_path / "here") == manifest
            assert snapshot.verify(tmp_path / "here", manifest)
            assert dies.asked_from[0] == ("a", 0)
            name, first = dies.asked_from[-1]
            assert name == "b"
            assert 0 < first <= 10 * server.PIECE

    asyncio.run(whole())


def what_came_before_a_crash_is_not_asked_for_again(running, tmp_path, monkeypatch):
    """The partial file is all that is left of the last try."""

    async def whole() -> None:
        async with running("a") as (cluster, client):
            manifest = _held(cluster.replicas["a"].folder, 10)
            folder = tmp_path / "here"
            folder.mkdir()
            whole_file = snapshot.verify(cluster.replicas["a"].folder, manifest).read_bytes()
            (folder / f"fetch-{10:016d}-{manifest.sha256[:32]}.partial").write_bytes(whole_file[:2_000_000])
            (folder / f"fetch-{9:016d}-{'0' * 32}.partial").write_bytes(b"of an older try")
            watched = _Dies(monkeypatch, cluster, "nobody", pieces=0)
            assert await client.fetch_snapshot("i", 5, folder) == manifest
            assert watched.asked_from == [("a", 2_000_000)]
            assert snapshot.verify(folder, manifest)
            assert not list(folder.glob("*.partial"))

    asyncio.run(whole())


def where_only_another_file_of_it_is_left_it_begins_anew(running, tmp_path, monkeypatch):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            _held(cluster.replicas["a"].folder, 10)
            other = _held(cluster.replicas["b"].folder, 9, seed=b"b")
            dies = _Dies(monkeypatch, cluster, "a", pieces=3)
            assert await client.fetch_snapshot("i", 5, tmp_path / "here") == other
            assert dies.asked_from == [("a", 0), ("b", 0)]

    asyncio.run(whole())


def a_snapshot_that_came_damaged_is_passed_over(running, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSE_S", 0.0)

    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            bad = _held(cluster.replicas["a"].folder, 10)
            good = _held(cluster.replicas["b"].folder, 8)
            path = snapshot.verify(cluster.replicas["a"].folder, bad)
            monkeypatch.setattr(type(cluster.replicas["a"]), "lend", _lends_unseen)
            content = path.read_bytes()
            path.write_bytes(content[:-1] + b"\0")
            assert await client.fetch_snapshot("i", 5, tmp_path / "here") == good
            assert snapshot.manifests(tmp_path / "here") == [good]

    asyncio.run(whole())


def _lends_unseen(self: Any, seq: int) -> Any:
    """Without a look at the checksum, as a disk does that has gone bad in this very moment."""
    from contextlib import nullcontext

    (manifest,) = self.snapshots()
    return nullcontext((manifest, self.folder / f"state-{seq:016d}.db"))


def a_herd_of_questions_is_answered_while_a_snapshot_is_lent(running, tmp_path):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            manifest = _held(cluster.replicas["a"].folder, 10, size=40_000_000)
            fetching = asyncio.create_task(client.fetch_snapshot("i", 5, tmp_path / "here"))
            answered = 0
            while not fetching.done():
                assert (await client.statuses())["a"] is not None
                answered += 1
            assert await fetching == manifest
            assert answered > 5

    asyncio.run(whole())
