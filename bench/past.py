"""A past for schedules that have none: launches that ended well, written into the state of a service that is stopped.

To launch twenty million times would take hours. The rows are the same on every replica and as ``apply`` would have
left them: in the order of time, counted, and with numbers that no other launch has.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from tocsin.state.seal import seal_of

_INDEX = "launch_by_name"


def write(state: Path, each: int, before_s: int) -> int:
    """So many launches of every schedule, one a minute, the last a minute before that moment; how many in all."""
    seal_of(state).unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(state, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -262144")
        if db.execute("SELECT 1 FROM launch LIMIT 1").fetchone():
            raise RuntimeError("something was launched already: its number would be given to another launch")
        (index,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (_INDEX,)).fetchone()
        (term,) = db.execute("SELECT value FROM meta WHERE key = 'term'").fetchone()
        db.execute("BEGIN")
        db.execute(f"DROP INDEX {_INDEX}")  # to sort all of it at the end takes a tenth of the time
        first_s = before_s - each * 60
        db.execute(
            "WITH RECURSIVE past(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM past WHERE n + 1 < ?) "
            "INSERT INTO launch (sid, version, instant_s, kind, state, attempt, term, started_ms, ended_ms) "
            "SELECT s.sid, s.version, ? + n * 60, 0, 10, 1, ?, (? + n * 60) * 1000 + 3, (? + n * 60) * 1000 + 5 "
            "FROM past CROSS JOIN schedule s",
            (each, first_s, term, first_s, first_s),
        )
        db.execute(index)
        (launches,) = db.execute("SELECT max(lid) FROM launch").fetchone()
        db.execute("INSERT INTO kept SELECT sid, version, ? FROM schedule", (each,))
        for key, value in (
            ("next_lid", launches + 1),
            ("counted_lid", launches),
            ("launches_kept", launches),
            ("kept_each", each),
        ):
            db.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with state.open("rb") as file:
        os.fsync(file.fileno())  # or the service would be measured while the disk still writes
    return int(launches)


def launches_in(state: Path) -> tuple[int, int]:
    """How many launches are recorded, and how many there ever were."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as db:
        (kept,) = db.execute("SELECT count(*) FROM launch").fetchone()
        (next_lid,) = db.execute("SELECT value FROM meta WHERE key = 'next_lid'").fetchone()
        return int(kept), int(next_lid) - 1


def missed_in(state: Path, since_ms: int) -> int:
    """Occurrences, or stretches of them, that were given up since then."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as db:
        (stretches,) = db.execute("SELECT count(*) FROM missed WHERE at_ms >= ?", (since_ms,)).fetchone()
        (skipped,) = db.execute(
            "SELECT count(*) FROM launch WHERE lid > (SELECT max(lid) - 1000000 FROM launch) "
            "AND state = 12 AND ended_ms >= ?",
            (since_ms,),
        ).fetchone()
        return int(stretches) + int(skipped)
