"""Launches per second of a herd: many schedules due in the same second, to a target that does nothing.

Every launch passes both synchronisation points: its start is durable before the target is called, its end is
recorded after it. The limit of the machine is measured in the same run: how fast rows of the same size go into an
fsynced SQLite file in batches.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

import structlog

from tocsin.config import Settings
from tocsin.model.command import PutSchedule
from tocsin.model.schedule import Schedule
from tocsin.model.target import NullTarget
from tocsin.node import compose
from tocsin.replica.replica import Replica


async def _herd(count: int, data: Path) -> dict[str, float]:
    replica = compose(Settings(data=data)).replica
    await replica.start()
    # Far enough ahead that all are in place before the first is due.
    due_s = int(time.time()) + 5 + count // 5_000
    began = time.perf_counter()
    await _create(replica, count, due_s)
    created_s = time.perf_counter() - began
    await asyncio.sleep(max(0.0, due_s - time.time() - 0.2))
    last = await _drain(replica, count, due_s)
    await replica.stop()
    return {
        "create_per_s": count / created_s,
        "launches_per_s": count / (last - due_s),
        "drain_s": last - due_s,
    }


async def _create(replica: Replica, count: int, due_s: int) -> None:
    for first in range(0, count, 2_000):
        batch = [
            PutSchedule(Schedule(id=f"herd/{number:07d}", cron=f"@at {due_s}", target=NullTarget()), expect=0)
            for number in range(first, min(count, first + 2_000))
        ]
        await asyncio.gather(*(replica.propose(command) for command in batch))


async def _drain(replica: Replica, count: int, due_s: int) -> float:
    """When the last one had ended, as the state records it."""

    def ended(db: sqlite3.Connection) -> tuple[int, int]:
        found: tuple[int, int] = db.execute(
            "SELECT count(*), coalesce(max(ended_ms), 0) FROM launch WHERE state = 10"
        ).fetchone()
        return found

    while True:
        number, last_ms = await replica.read(ended)
        if number >= count:
            return last_ms / 1000
        if time.time() > due_s + 300:
            raise SystemExit(f"only {number} of {count} ended within 300 s")
        await asyncio.sleep(0.5)


def _fsynced_rows(count: int, path: Path) -> float:
    """Rows per second into an fsynced SQLite file, two rows a launch, in batches of 5,000."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE entry (a INTEGER PRIMARY KEY, b INTEGER, c INTEGER, d INTEGER)")
    began = time.perf_counter()
    for first in range(0, 2 * count, 5_000):
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO entry VALUES (?, ?, ?, ?)", ((n, n, n, n) for n in range(first, first + 5_000))
        )
        db.execute("COMMIT")
    return count / (time.perf_counter() - began)


def run(count: int) -> dict[str, float]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(_herd(count, Path(folder) / "data"))
        result["machine_limit_per_s"] = _fsynced_rows(count, Path(folder) / "limit.db")
    result["of_limit"] = result["launches_per_s"] / result["machine_limit_per_s"]
    return result


def report(count: int) -> dict[str, float]:
    result = run(count)
    print(f"\nherd: {count:,} schedules due in the same second, null target, two durable records a launch")
    print(f"  create        {result['create_per_s']:>10,.0f} schedules/s, one by one")
    print(f"  drain         {result['launches_per_s']:>10,.0f} launches/s, in {result['drain_s']:.1f} s")
    print(
        f"  fsynced rows  {result['machine_limit_per_s']:>10,.0f} launches/s: two bare rows each, nothing else"
    )
    print(f"  of that       {result['of_limit']:>10.0%}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    report(parser.parse_args().count)
