"""Is the state file still what it was when it was closed? SQLite's pages carry no checksums, so whoever closes the
file cleanly leaves one of the whole of it beside it: the seal. It is checked at the next start, and broken before the
file is first written to, so that it never stands for a file that has changed since.

CRC-32: it is to find what disks and people do by accident, and it is the fastest there is here. 1 GB takes 0.55 s when
it is in memory (SHA-256 1.0 s, BLAKE2b 2.2 s), else as long as the disk needs to read it.

Without a seal (the process was killed, the power failed) nothing says what the bytes should be. What is left is to
look at the shape of the file: every page where it belongs, every row readable. ``quick_check`` does that, at 0.2 GB/s,
so only for files up to a size. A number that has become another number in a row is not found in this way.
"""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from pathlib import Path

from tocsin.errors import StateDamaged
from tocsin.state.store import Store

SEALED_BYTES_MAX = 8 << 30
"""4.4 s at the speed above. Larger files are not sealed: nobody would wait for it."""
CHECKED_BYTES_MAX = 256 << 20
"""1.3 s."""
_CHUNK = 1 << 20
_SHAPE = re.compile(rb"crc32 ([0-9a-f]{8}) of ([0-9]{1,15}) bytes, seal ([0-9a-f]{8})\n")


def seal_of(state: Path) -> Path:
    return state.with_name(state.name + ".seal")


def close(store: Store) -> bool:
    """Close it, and seal it. False: it could not be sealed, which costs a closer look at the next start, no more."""
    path = store.path
    try:
        store.db.execute("PRAGMA busy_timeout = 0")  # whoever still reads is not waited for
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:  # no room, or damaged: then there is nothing to be sure of
        store.close()
        return False
    store.close()
    try:
        if _has_more_beside(path) or path.stat().st_size > SEALED_BYTES_MAX:
            return False
        _write(seal_of(path), b"crc32 %08x of %d bytes" % _sum(path))
    except OSError:
        return False
    return True


def check(state: Path) -> bool:
    """Break the seal. True: it was there, and the file is what it says. False: there was none. Raises ``StateDamaged``,
    which names the file and both checksums, if the file is another one."""
    seal = seal_of(state)
    try:
        found = _SHAPE.fullmatch(seal.read_bytes())
    except FileNotFoundError:
        return False
    try:
        if found is None or b"%08x" % zlib.crc32(found[0][:-16]) != found[3] or _has_more_beside(state):
            return False  # it is the seal that is damaged, or that somebody has worked on the file without breaking it
        wanted = (int(found[1], 16), int(found[2]))
        size = state.stat().st_size
        if size != wanted[1]:
            raise _damaged(state, f"it was closed with {wanted[1]} bytes and has {size}")
        (crc, _) = _sum(state)
        if crc != wanted[0]:
            raise _damaged(state, f"it was closed with the checksum {wanted[0]:08x} and has {crc:08x}")
    finally:
        _break(seal)
    return True


def look_over(store: Store) -> bool:
    """Without a seal: is the file well-formed? Raises ``StateDamaged`` if not. False: it is too large for that."""
    if store.path.stat().st_size > CHECKED_BYTES_MAX:
        return False
    try:
        (found,) = store.db.execute("PRAGMA quick_check(1)").fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as wrong:
        found = str(wrong)
    if found != "ok":
        raise _damaged(store.path, " ".join(found.split()))
    return True


def _damaged(state: Path, what: str) -> StateDamaged:
    return StateDamaged(f"the state file {state} is damaged: {what}", hint="it is set aside and rebuilt")


def _has_more_beside(state: Path) -> bool:
    """SQLite keeps what is not yet in the file beside it."""
    more = state.with_name(state.name + "-wal")
    return more.exists() and more.stat().st_size > 0


def _sum(path: Path) -> tuple[int, int]:
    crc = size = 0
    chunk = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(chunk):
            crc = zlib.crc32(chunk[:read], crc)
            size += read
    return crc, size


def _write(seal: Path, text: bytes) -> None:
    partial = seal.with_name(seal.name + ".partial")
    partial.write_bytes(text + b", seal %08x\n" % zlib.crc32(text))
    _sync(partial)
    partial.replace(seal)
    _sync(seal.parent)


def _break(seal: Path) -> None:
    """Durably: were it to come back after a power cut, it would find the file damaged that is only newer."""
    seal.unlink(missing_ok=True)
    _sync(seal.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
