"""The state's WAL is copied into its file by a thread of its own.

SQLite does this at the commit that makes the WAL too long: 16 MB and two fsyncs, a tenth of a second and more in the
middle of an iteration of the leader loop, and for a follower while it applies. A passive checkpoint on another
connection keeps nobody from writing. What it cannot keep up with, the writer still copies by itself
(``wal_autocheckpoint``): little is left for it then.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import structlog

from tocsin.replica.applying import Applier

log = structlog.get_logger()

BYTES_BETWEEN = 4 << 20
ROWS_BETWEEN = 5_000
"""Entries of so many bytes, or so many rows changed, are copied together: each time costs two fsyncs."""


class WalCheckpointer:
    """Runs beside leader and follower. It waits for entries, not for time: an idle replica copies nothing."""

    def __init__(self, path: Path, applier: Applier) -> None:
        self._path = path
        self._applier = applier
        self._connection: sqlite3.Connection | None = None
        self._stopped = False
        self.count = 0
        """How often it was copied."""

    async def run(self) -> None:
        applier = self._applier
        seq, rows, size = applier.applied.seq, applier.rows_changed, applier.bytes_applied
        try:
            while not self._stopped and not applier.applied.is_over:
                seq = await applier.applied.wait_beyond(seq)
                if (
                    applier.rows_changed - rows >= ROWS_BETWEEN
                    or applier.bytes_applied - size >= BYTES_BETWEEN
                ):
                    rows, size = applier.rows_changed, applier.bytes_applied
                    await asyncio.to_thread(self._copy)
        finally:
            if self._connection is not None:
                self._connection.close()

    def stop(self) -> None:
        self._stopped = True

    def _copy(self) -> None:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    self._path, isolation_level=None, check_same_thread=False, timeout=0
                )
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self.count += 1
        except sqlite3.Error as wrong:  # no room, or damaged: the writer finds out, and says so
            log.warning("the state's WAL was not copied", reason=str(wrong))
