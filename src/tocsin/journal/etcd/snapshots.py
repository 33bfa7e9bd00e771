"""The newest snapshot, next to the journal in etcd, for stand-bys that no other replica can lend one to.

``<prefix>/snapshot/newest``                    JSON: its manifest, and where its pieces are
``<prefix>/snapshot/piece/<name>/<8 digits>``   the file, compressed, in pieces

The pieces come first, ``newest`` last and only if nobody else replaced it meanwhile; then the pieces of others are
deleted. Of a state that is too large for etcd only the manifest is stored.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import msgspec
import zstandard

from tocsin.errors import JournalFull, JournalUnavailable, Unreachable
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.failures import Lost, Said
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

PIECE_BYTES = 256 << 10
STORED_BYTES_MAX = 64 << 20
"""Compressed. etcd's own limit is 2 GiB unless it is told otherwise, and two snapshots are there for a moment."""
SNAPSHOT_DEADLINE_S = 5.0
"""For one piece."""
_BREATH_S = 0.01
"""Between two pieces, so that appends are not held up."""
_READ_AT_ONCE = 1 << 20
_TRIES = 3


class _Stored(msgspec.Struct, frozen=True):
    manifest: Manifest
    name: str
    pieces: int
    """0: it is too large."""


class EtcdSnapshots:
    """Under the prefix of the journal, through a client of its own."""

    def __init__(self, client: EtcdClient, prefix: str, bytes_max: int = STORED_BYTES_MAX) -> None:
        self._client = client
        self._bytes_max = bytes_max
        base = prefix.rstrip("/").encode() + b"/snapshot/"
        self._newest = base + b"newest"
        self._pieces = base + b"piece/"
        self._end = base + b"piece0"  # "0" follows "/"

    async def newest(self) -> Manifest | None:
        stored, _ = await self._stored()
        return None if stored is None else stored.manifest

    async def put(self, manifest: Manifest, path: Path) -> bool:
        """Store it in place of the present one. False: it is too large, and only its manifest is there."""
        _, revision = await self._stored()
        pieces = await asyncio.to_thread(_compressed, path, self._bytes_max)
        stored = _Stored(manifest, uuid.uuid4().hex, len(pieces))
        try:
            for number, piece in enumerate(pieces):
                await self._client.put(self._key(stored.name, number), piece)
                await asyncio.sleep(_BREATH_S)
            done = await self._client.transact(
                [m.is_at(self._newest, revision)],
                [m.do_put(self._newest, msgspec.json.encode(stored))],
                [],
            )
        except Lost as lost:
            raise JournalUnavailable(
                f"it is not known whether the snapshot was stored: {lost.message}"
            ) from lost
        except Said as said:
            await self._delete_pieces_of(stored.name)
            if said.is_full:
                raise JournalFull("etcd has no room for a snapshot") from said
            raise
        if not done.succeeded:
            await self._delete_pieces_of(stored.name)
            raise JournalUnavailable("another replica has stored a snapshot meanwhile")
        await self._client.delete(self._pieces, self._key(stored.name, 0))
        await self._client.delete(self._behind(stored.name), self._end)
        return bool(pieces)

    async def fetch(self, folder: Path) -> Manifest | None:
        """Put it into the folder, verified. None: there is none. It may be replaced meanwhile: then once more."""
        for _ in range(_TRIES):
            stored, _revision = await self._stored()
            if stored is None:
                return None
            if not stored.pieces:
                raise Unreachable(
                    f"the snapshot of entry {stored.manifest.seq} is too large to be stored in etcd",
                    hint="give all replicas --cluster, so that they lend each other theirs",
                )
            partial = folder / f"fetch-{stored.manifest.seq:016d}-{stored.manifest.sha256[:32]}.partial"
            if await self._is_fetched(stored, partial):
                await asyncio.to_thread(snapshot.admit, folder, partial, stored.manifest)
                return stored.manifest
            await asyncio.to_thread(partial.unlink, missing_ok=True)
        raise Unreachable("the snapshot in etcd is not whole, or was replaced while it was fetched")

    async def close(self) -> None:
        await self._client.close()

    async def _stored(self) -> tuple[_Stored | None, int]:
        """And its revision."""
        found = await self._client.range(self._newest)
        if not found.kvs:
            return None, 0
        kv = found.kvs[0]
        try:
            return msgspec.json.decode(kv.value, type=_Stored), kv.revision
        except (msgspec.MsgspecError, UnicodeError):
            return None, kv.revision  # as if there were none: the next one replaces it

    async def _is_fetched(self, stored: _Stored, partial: Path) -> bool:
        unpack = zstandard.ZstdDecompressor().decompressobj()
        await asyncio.to_thread(_begin, partial)
        left = stored.manifest.size
        for number in range(stored.pieces):
            found = await self._client.range(self._key(stored.name, number))
            if not found.kvs:
                return False
            try:
                content = await asyncio.to_thread(unpack.decompress, found.kvs[0].value)
            except zstandard.ZstdError:
                return False
            left -= len(content)
            if left < 0:
                return False
            await asyncio.to_thread(_append, partial, content)
        return await asyncio.to_thread(snapshot.is_whole, partial, stored.manifest)

    async def _delete_pieces_of(self, name: str) -> None:
        await self._client.delete(self._key(name, 0), self._behind(name))

    def _key(self, name: str, number: int) -> bytes:
        return self._pieces + f"{name}/{number:08d}".encode()

    def _behind(self, name: str) -> bytes:
        return self._pieces + f"{name}0".encode()


def _compressed(path: Path, bytes_max: int) -> list[bytes]:
    """In pieces; none: it would be larger than that."""
    pack = zstandard.ZstdCompressor(level=3).compressobj()
    packed = bytearray()
    with path.open("rb") as file:
        while chunk := file.read(_READ_AT_ONCE):
            packed += pack.compress(chunk)
            if len(packed) > bytes_max:
                return []
    packed += pack.flush()
    if len(packed) > bytes_max:
        return []
    return [bytes(packed[at : at + PIECE_BYTES]) for at in range(0, len(packed), PIECE_BYTES)]


def _begin(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
