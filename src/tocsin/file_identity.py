"""Is a directory the one that was written, or a copy of it?

A mark is a file in the directory, and its identity is kept in another file. A program that copies files makes a new
file, which has another identity, even where it gets the same inode number. A snapshot of a file system or of a virtual
machine keeps the identity, and so does a program that writes over the mark: those copies are not recognised here.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_READ, _LONG_BYTES = 2, struct.calcsize("l")
_GET_GENERATION = _READ << 30 | _LONG_BYTES << 16 | ord("v") << 8 | 1
"""FS_IOC_GETVERSION of linux/fs.h."""


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
    told = f"generation {generation}" if generation else f"changed {status.st_ctime_ns}"
    return f"{status.st_ino} {told}"


def _generation(descriptor: int) -> int:
    """It tells a file from a later one with the same inode number; 0: this file system does not tell."""
    told = bytearray(_LONG_BYTES)
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, told)
    except OSError:
        return 0
    return int.from_bytes(told[:4], "little")
