"""The bytes on their way: compressed, counted, and their checksums taken."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import zstandard

from tocsin.backup.manifest import BackupManifest
from tocsin.backup.patience import Pulse
from tocsin.errors import SnapshotDamaged
from tocsin.state.snapshot import Manifest

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_LEVEL = 3
_CHUNK = 1 << 20
_BLOCK = 16 << 20
"""What object stores get at a time. They take ten thousand of these: 160 GB."""


class Stored(NamedTuple):
    """What arrived."""

    size: int
    sha256: str


class _Weighed:
    """A file whose size and checksum are known once it was read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._found = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _CHUNK) -> bytes:
        chunk = self._source.read(size)
        self._found.update(chunk)
        self.size += len(chunk)
        return chunk

    def stored(self) -> Stored:
        return Stored(self.size, self._found.hexdigest())


def upload(
    source: IO[bytes],
    files: AbstractFileSystem,
    path: str,
    manifest: Manifest,
    pulse: Pulse,
    *,
    is_folder: bool,
) -> Stored:
    """Compress a snapshot into a file there. Raises ``SnapshotDamaged`` if it is not what its manifest says."""
    sink = files.open(path, "wb", block_size=_BLOCK)
    try:
        if is_folder:
            os.fchmod(sink.fileno(), 0o600)  # payloads are nobody else's business
        stored = _compress(source, sink, manifest, pulse)
        if is_folder:
            sink.flush()
            os.fsync(sink.fileno())
        sink.close()
    except BaseException:
        _drop(sink)
        raise
    return stored


def _compress(source: IO[bytes], sink: Any, manifest: Manifest, pulse: Pulse) -> Stored:
    raw, packed = hashlib.sha256(), hashlib.sha256()
    read = written = 0
    chunker = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).chunker(chunk_size=_CHUNK)
    while chunk := source.read(_CHUNK):
        raw.update(chunk)
        read += len(chunk)
        for part in chunker.compress(chunk):
            sink.write(part)
            packed.update(part)
            written += len(part)
        pulse.done(read, manifest.size)
    if (read, raw.hexdigest()) != (manifest.size, manifest.sha256):
        raise SnapshotDamaged(
            f"the snapshot at {manifest.seq} is not what its manifest says and is not copied"
        )
    for part in chunker.finish():  # type: ignore[no-untyped-call]  # why: the library leaves this one untyped
        sink.write(part)
        packed.update(part)
        written += len(part)
        pulse.beat()
    return Stored(written, packed.hexdigest())


def _drop(sink: Any) -> None:
    """Without this a library would complete the file when it forgets it, and what there is of it would look whole."""
    from fsspec.spec import AbstractBufferedFile

    with contextlib.suppress(Exception):
        if isinstance(sink, AbstractBufferedFile):
            sink.closed = True
            sink.discard()
        else:
            sink.close()


def stored_at(files: AbstractFileSystem, path: str, pulse: Pulse) -> Stored:
    """What a file there is, read to its end."""
    with files.open(path, "rb", block_size=_BLOCK) as opened:
        source = _Weighed(opened)
        while source.read():
            pulse.beat()
        return source.stored()


def download(
    files: AbstractFileSystem, path: str, manifest: BackupManifest, sink: IO[bytes] | None, pulse: Pulse
) -> None:
    """The snapshot out of its file, into ``sink``; None: only look whether it is whole."""
    wanted, found, size = manifest.snapshot, hashlib.sha256(), 0
    try:
        with files.open(path, "rb", block_size=_BLOCK) as opened:
            source = _Weighed(opened)
            reader = zstandard.ZstdDecompressor().stream_reader(source, read_size=_CHUNK)  # type: ignore[arg-type]  # why: read() is all that it needs
            # One byte more than there may be: a file that grows and grows when unpacked fills no disk.
            while size <= wanted.size and (chunk := reader.read(min(_CHUNK, wanted.size + 1 - size))):
                found.update(chunk)
                size += len(chunk)
                if sink is not None:
                    sink.write(chunk)
                pulse.done(min(size, wanted.size), wanted.size)
            while source.size <= manifest.stored_size and source.read(_CHUNK):
                pulse.beat()
    except zstandard.ZstdError as wrong:
        raise damaged(manifest, str(wrong)) from None
    except FileNotFoundError:
        raise damaged(manifest, "its data is missing") from None
    is_stored = source.stored() == Stored(manifest.stored_size, manifest.stored_sha256)
    if not is_stored or (size, found.hexdigest()) != (wanted.size, wanted.sha256):
        raise damaged(manifest, "its data is not what the manifest says")


def damaged(manifest: BackupManifest, why: str) -> SnapshotDamaged:
    return SnapshotDamaged(
        f"the backup at sequence {manifest.seq} of {manifest.incarnation} is damaged: {why}",
        hint="it is passed over; an older one is tried",
    )
