"""Is a directory the one that was written, or a copy of it?

A mark is a file in the directory, and its identity is kept in another file. A program that copies files makes a new
file, which has another identity, even where it gets the same inode number. A snapshot of a file system or of a virtual
machine keeps the identity, and so does a program that writes over the mark: those copies are not recognised here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
from pathlib import Path

from tocsin.files import write_whole

_READ, _LONG_BYTES = 2, struct.calcsize("l")
_GET_GENERATION = _READ << 30 | _LONG_BYTES << 16 | ord("v") << 8 | 1
"""FS_IOC_GETVERSION of linux/fs.h."""
_MARK = ".original-"
_GENERATION = "generation"


def new_mark(folder: Path) -> str:
    """The name of a mark that was made there, and its identity. Each time the mark gets another name: rsync does not
    replace a file that looks like the one in the copy, and would leave the mark alone."""
    mark = folder / f"{_MARK}{secrets.token_hex(8)}"
    write_whole(mark, b"")
    return f"{mark.name} {identity(mark)}"


def drop_other_marks(folder: Path, known: str) -> None:
    """Once it stands elsewhere which mark is the valid one."""
    name = known.partition(" ")[0]
    for former in folder.glob(f"{_MARK}*"):
        if former.name != name:
            former.unlink(missing_ok=True)


def is_marked(folder: Path, known: str) -> bool:
    """Is that mark there, and the same file as then?"""
    name, _, was = known.partition(" ")
    return identity(folder / name) == was


def is_surely_copied(folder: Path, known: str) -> bool:
    """Is that mark gone, or surely another file? On a file system without generations the number of the inode alone
    tells: there, to change the owner of a file would make another one of it."""
    name, _, was = known.partition(" ")
    now = identity(folder / name)
    if _GENERATION in was and _GENERATION in now:
        return now != was
    return now.partition(" ")[0] != was.partition(" ")[0]


def identity(mark: Path) -> str:
    """Of this very file; empty: it is gone."""
    try:
        descriptor = os.open(mark, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        status = os.fstat(descriptor)
        generation = _generation(descriptor)
    finally:
        os.close(descriptor)
    # A file system without generations: the time of the last change of status, which also changes with chown and chmod.
    told = f"{_GENERATION} {generation}" if generation else f"changed {status.st_ctime_ns}"
    return f"{status.st_ino} {told}"


def _generation(descriptor: int) -> int:
    """It tells a file from a later one with the same inode number; 0: this file system does not tell."""
    told = bytearray(_LONG_BYTES)
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, told)
    except OSError:
        return 0
    return int.from_bytes(told[:4], "little")
