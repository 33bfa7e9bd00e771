"""Small files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tocsin.errors import ClusterError


def unwritable(path: Path, wrong: OSError) -> ClusterError:
    why = (wrong.strerror or str(wrong)).lower()
    return ClusterError(
        f"{path} cannot be written: {why}", hint="make room, or choose another --data directory"
    )


def make_folder(path: Path) -> None:
    """With all that lead to it and are not there yet. What is in them is nobody else's business."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file durably. Nobody but this user can read it, not even for a moment."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
