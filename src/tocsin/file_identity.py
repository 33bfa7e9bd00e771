"""Is a directory the one that was written, or a copy of it?

A mark is a file in the directory, and its identity is kept in another file. A program that copies files makes a new
file, which has another identity, even where it gets the same inode number. A snapshot of a file system or of a virtual
machine keeps the identity, and so does a program that writes over the mark: those copies are not recognised here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import struct
from pathlib import Path

from tocsin.files import write_whole

_READ, _LONG_BYTES = 2, struct.calcsize("l")
_GET_GENERATION = _READ << 30 | _LONG_BYTES << 16 | ord("v") << 8 | 1
"""FS_IOC_GETVERSION of linux/fs.h."""
_EMPTY_PATH, _BIRTH_TIME, _STATX_BYTES = 0x1000, 0x800, 256
"""AT_EMPTY_PATH, STATX_BTIME and the size of struct statx, of linux/fcntl.h and linux/stat.h."""
_MARK = ".original-"
_CHANGED = "changed"


def new_mark(folder: Path, of: str = "") -> str:
    """The name of a mark that was made there, and its identity. Each time the mark gets another name: rsync does not
    replace a file that looks like the one in the copy, and would leave the mark alone. ``of``: the file that is marked,
    where there may be several."""
    mark = folder / f"{_MARK}{of}{secrets.token_hex(8)}"
    write_whole(mark, b"")
    return f"{mark.name} {identity(mark)}"


def drop_other_marks(folder: Path, known: str, of: str = "") -> None:
    """Once it stands elsewhere which mark is the valid one."""
    name = known.partition(" ")[0]
    for former in folder.iterdir():
        is_mark = former.name.startswith(f"{_MARK}{of}") and len(former.name) == len(name)
        if is_mark and former.name != name:
            former.unlink(missing_ok=True)


def is_marked(folder: Path, known: str) -> bool:
    """Is that mark there, and the same file as then?"""
    name, _, was = known.partition(" ")
    return identity(folder / name) == was


def is_surely_copied(folder: Path, known: str) -> bool:
    """Is that mark gone, or surely another file? Where only the time of the last change tells, the number of the inode
    alone counts: otherwise a change of its owner would make another file of it."""
    name, _, was = known.partition(" ")
    now = identity(folder / name)
    if _CHANGED in was and _CHANGED in now:
        return now.partition(" ")[0] != was.partition(" ")[0]
    return now != was


def identity(mark: Path) -> str:
    """Of this very file; empty: it is gone."""
    try:
        descriptor = os.open(mark, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return ""  # or what names it was damaged, and is no name
    except OSError as wrong:
        if wrong.errno != errno.ENAMETOOLONG:
            raise
        return ""
    try:
        status = os.fstat(descriptor)
        if generation := _generation(descriptor):
            told = f"generation {generation}"
        elif born_ns := _born_ns(descriptor):
            told = f"born {born_ns}"
        else:  # the time of the last change of status, which also changes with chown and chmod
            told = f"{_CHANGED} {status.st_ctime_ns}"
    finally:
        os.close(descriptor)
    return f"{status.st_ino} {told}"


def _generation(descriptor: int) -> int:
    """It tells a file from a later one with the same inode number; 0: this file system does not tell."""
    told = bytearray(_LONG_BYTES)
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, told)
    except OSError:
        return 0
    return int.from_bytes(told[:4], "little")


def _born_ns(descriptor: int) -> int:
    """When the file was made; 0: this file system does not tell. Python has no call for it."""
    import ctypes  # why: only few file systems have no generations, and it is not small

    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, _BIRTH_TIME, found):
        return 0
    (mask,) = struct.unpack_from("=I", found, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", found, 80)
    return int(seconds * 1_000_000_000 + nanoseconds) if mask & _BIRTH_TIME else 0
