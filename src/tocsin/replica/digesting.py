"""The digest of a whole state file, computed in a process of its own and of low priority: for a large state it takes a
while, and launches go on.

    python -m tocsin.replica.digesting FILE
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from pathlib import Path
from typing import Protocol

from tocsin.state import schema
from tocsin.state.digest import full_digest

NICE = 10


class Digests(Protocol):
    """Who computes it."""

    async def of(self, path: Path) -> str:
        """Empty: it was broken off, or the file cannot be read."""
        ...

    def stop(self) -> None:
        """Nobody waits for it any more."""
        ...


class Digesting:
    """One at a time, until it is stopped."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopped = False

    async def of(self, path: Path) -> str:
        if self._is_stopped:
            return ""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", __name__, str(path), stdout=asyncio.subprocess.PIPE
        )
        if self._is_stopped:  # while it was started
            self.stop()
        try:
            out, _ = await process.communicate()
        finally:
            self._process = None
        return out.decode().strip() if process.returncode == 0 else ""

    def stop(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()


if __name__ == "__main__":
    parent = os.getppid()
    os.nice(NICE)
    with contextlib.closing(sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)) as db:
        schema.distrust(db)
        db.set_progress_handler(lambda: os.getppid() != parent, 1_000_000)
        try:
            print(full_digest(db))
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # whoever wanted it was killed: there is nobody to write to at exit either
        except sqlite3.OperationalError:
            if os.getppid() == parent:
                raise
            os._exit(1)
