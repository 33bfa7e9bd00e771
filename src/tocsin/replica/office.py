"""Who leads. On one machine the office is a file lock: the kernel lets go of it when the process dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from tocsin.errors import OfficeTaken


class Office(Protocol):
    """The right to write entries and to call targets."""

    async def take(self) -> None:
        """Wait for it or raise OfficeTaken."""
        ...

    def holds(self) -> bool:
        """Is this process provably in office at this moment?"""
        ...

    def leave(self) -> None:
        """Somebody else may take it."""
        ...


class LockedOffice:
    """Held from ``take`` until the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    async def take(self) -> None:
        # Payloads and output are nobody else's business.
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise OfficeTaken(
                f"another Tocsin (process {holder or 'unknown'}) is using {self._path.parent}",
                hint="stop it, or choose another --data directory",
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def holds(self) -> bool:
        return self._descriptor is not None

    def leave(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
