"""The state at one sequence number, as a file with a manifest that carries its checksum.

A snapshot counts only when its manifest is there and the checksum matches: the manifest is written last, after the
data is on the disk. What cannot be verified is passed over for the one before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from tocsin.errors import SnapshotDamaged, StateDamaged
from tocsin.state import schema
from tocsin.state.store import load_meta

_PAGES_AT_ONCE = 2_000
"""8 MB, which are on the disk before the next are copied: a gigabyte that waits to be written holds up every fsync of
the journal."""
_STEPS_AT_ONCE = 1_000_000
"""Of SQLite's machine."""
_CHUNK = 1 << 20


class _Written(msgspec.Struct, frozen=True):
    """A manifest as it lies on the disk, with a checksum of its own: one digit that changes in it could have the
    journal trimmed behind a snapshot that nobody has."""

    manifest: msgspec.Raw
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot claims to be."""

    seq: int
    incarnation: str
    time_ms: int
    size: int
    sha256: str
    digest: str = ""
    """Of every row of every table: equal on all replicas at the same entry."""
    origin: str = ""
    origin_seq: int = 0
    """The journal that was lost, and the entry of it that this one goes on from."""


class BrokenOff(Exception):
    """Nobody wants it any more."""


def write(
    reader: sqlite3.Connection, folder: Path, is_unwanted: Callable[[], bool] = lambda: False
) -> Manifest:
    """Copy the state as the reader sees it, who is in a transaction: so it is the state at one sequence number, however
    many steps that takes. Between them it is asked whether anybody still wants it."""

    def check() -> None:
        if is_unwanted():
            raise BrokenOff

    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "partial.db"
    _remove(partial)
    partial.touch(mode=0o600)
    try:
        with partial.open("rb") as file, contextlib.closing(sqlite3.connect(partial)) as copy:

            def copied(*_: object) -> None:
                os.fdatasync(file.fileno())
                check()

            schema.distrust(copy)
            reader.backup(copy, pages=_PAGES_AT_ONCE, progress=copied)
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.set_progress_handler(is_unwanted, _STEPS_AT_ONCE)
            try:
                _check_whole(copy)
            except sqlite3.OperationalError:
                check()
                raise
            meta = load_meta(copy)
        manifest = Manifest(
            seq=meta.seq,
            incarnation=meta.incarnation,
            time_ms=meta.time_ms,
            size=partial.stat().st_size,
            sha256=_checksum(partial, check),
            origin=meta.origin,
            origin_seq=meta.origin_seq,
        )
        _sync(partial)
        partial.replace(data_of(folder, meta.seq))
        write_manifest(folder, manifest)
    except BaseException:
        _remove(partial)
        raise
    return manifest


def _check_whole(copy: sqlite3.Connection) -> None:
    """A damaged state must not become a snapshot: the journal would be trimmed behind it."""
    (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise SnapshotDamaged(f"the state is damaged and no snapshot is made of it: {found}")
    try:
        schema.check(copy, "in use")
    except StateDamaged as wrong:
        raise SnapshotDamaged(f"no snapshot is made: {wrong.message}") from None


def manifests(folder: Path) -> list[Manifest]:
    """All that claim to be snapshots, the newest first."""
    found = []
    for path in folder.glob("state-*.json"):
        with contextlib.suppress(OSError):
            manifest = _read_manifest(path)
            if manifest is not None and path == _manifest(folder, manifest.seq):
                found.append(manifest)
    return sorted(found, key=lambda manifest: manifest.seq, reverse=True)


def unreadable(folder: Path) -> list[Path]:
    """Manifests that are damaged: what they belonged to counts for nothing."""
    whole = {_manifest(folder, manifest.seq) for manifest in manifests(folder)}
    return sorted(set(folder.glob("state-*.json")) - whole)


def _read_manifest(path: Path) -> Manifest | None:
    """None: it is half-written, or damaged."""
    try:
        written = msgspec.json.decode(path.read_bytes(), type=_Written)
        found = msgspec.json.decode(written.manifest, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found if hashlib.sha256(written.manifest).hexdigest() == written.sha256 else None


def verify(folder: Path, manifest: Manifest) -> Path:
    """The snapshot's file, if it is what its manifest says."""
    path = _of_its_size(folder, manifest)
    _check_sum(_checksum(path), path, manifest)
    return path


def is_whole(path: Path, manifest: Manifest) -> bool:
    """Are these the bytes that the manifest speaks of?"""
    return path.stat().st_size == manifest.size and _checksum(path) == manifest.sha256


def _of_its_size(folder: Path, manifest: Manifest) -> Path:
    path = data_of(folder, manifest.seq)
    if not path.is_file():
        raise _damaged(path, "it is not there")
    size = path.stat().st_size
    if size != manifest.size:
        raise _damaged(path, f"it has {size} bytes, not {manifest.size}")
    return path


def _check_sum(found: str, path: Path, manifest: Manifest) -> None:
    if found != manifest.sha256:
        raise _damaged(path, f"its checksum is {found}, not {manifest.sha256}")


def _damaged(path: Path, what: str) -> SnapshotDamaged:
    return SnapshotDamaged(
        f"the snapshot {path} is not what its manifest says: {what}",
        hint="it is passed over; an older one is tried",
    )


def restore(folder: Path, manifest: Manifest, state: Path) -> None:
    """Put a snapshot in the place of the state file, if it is a state and nothing else. It is the copy that is checked:
    what was read well once may be read badly the next time."""
    source = _of_its_size(folder, manifest)
    partial = state.with_suffix(".restoring")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    try:
        shutil.copyfile(source, partial)
        _sync(partial)
        _check_sum(_checksum(partial), source, manifest)
        _check_plain(partial)
    except BaseException:
        _remove(partial)
        raise
    _remove(state)
    partial.replace(state)


def _check_plain(path: Path) -> None:
    """Nothing in it can act. It is only looked at: not even what SQLite keeps beside a file comes to be."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        ) as found:
            schema.distrust(found)
            schema.check(found, path)
    except (sqlite3.DatabaseError, UnicodeDecodeError, StateDamaged) as wrong:
        raise SnapshotDamaged(str(wrong), hint="it is passed over; an older one is tried") from None


def prune(folder: Path, keep: int, also: Collection[int] = ()) -> None:
    """Remove all but the newest ones and ``also``, and whatever never became one."""
    kept = {manifest.seq for manifest in manifests(folder)[:keep]} | set(also)
    for path in [*folder.glob("state-*.json"), *folder.glob("state-*.db")]:
        if path not in {wanted for seq in kept for wanted in (_manifest(folder, seq), data_of(folder, seq))}:
            path.unlink(missing_ok=True)


def remove_after(folder: Path, seq: int) -> None:
    """Those of a later state: the journal lost entries, and others will stand in their place."""
    for manifest in manifests(folder):
        if manifest.seq > seq:
            _manifest(folder, manifest.seq).unlink(missing_ok=True)
            data_of(folder, manifest.seq).unlink(missing_ok=True)


def admit(folder: Path, partial: Path, manifest: Manifest) -> None:
    """Take in a snapshot that came from elsewhere, whose checksum has been found right."""
    _sync(partial)
    partial.replace(data_of(folder, manifest.seq))
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    partial = folder / "partial.json"
    raw = msgspec.json.encode(manifest)
    partial.write_bytes(msgspec.json.encode(_Written(msgspec.Raw(raw), hashlib.sha256(raw).hexdigest())))
    _sync(partial)
    partial.replace(_manifest(folder, manifest.seq))
    _sync(folder)


def data_of(folder: Path, seq: int) -> Path:
    return folder / f"state-{seq:016d}.db"


def _manifest(folder: Path, seq: int) -> Path:
    return folder / f"state-{seq:016d}.json"


def _checksum(path: Path, check: Callable[[], None] = lambda: None) -> str:
    found = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
            check()
    return found.hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """A database file and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
