"""What this machine could do at most, had it nothing else to do."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

_BATCH = 5_000


def fsynced_rows(count: int, path: Path) -> float:
    """Launches a second if each were nothing but two rows in an fsynced SQLite file, written in batches."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE entry (a INTEGER PRIMARY KEY, b INTEGER, c INTEGER, d INTEGER)")
    began = time.perf_counter()
    for first in range(0, 2 * count, _BATCH):
        db.execute("BEGIN")
        rows = ((number,) * 4 for number in range(first, min(2 * count, first + _BATCH)))
        db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
        db.execute("COMMIT")
    rate = count / (time.perf_counter() - began)
    db.close()
    return rate


def spawned(count: int, at_once: int = 64) -> float:
    """Processes a second of ``true``, of which nobody keeps anything."""
    began = time.perf_counter()
    running: list[int] = []
    for number in range(count):
        running.append(os.posix_spawnp("true", ["true"], {}))
        if len(running) == at_once or number == count - 1:
            for pid in running:
                os.waitpid(pid, 0)
            running.clear()
    return count / (time.perf_counter() - began)
