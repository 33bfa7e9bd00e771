"""pgqueuer on a Postgres that somebody has started, with the driver, the batch sizes and the event loop of its guide.

``herd``: jobs are enqueued in large lists with ``execute_after``, all due at the same second, and the table is analysed
before that; one worker waits for them. A launch is over when pgqueuer's own log says so. ``single``: one job a call,
over a pool of connections. ``steady``: so many jobs a second, spread evenly.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.measure import percentile, resident_bytes

LIST = 10_000
"""Jobs in one call of a bulk insert."""
CONNECTIONS = 64
_ENDED = "SELECT count(*), extract(epoch FROM max(created)) FROM pgqueuer_log WHERE status = 'successful'"
_TABLES = ("pgqueuer", "pgqueuer_log")


async def fresh(db: asyncpg.Connection) -> Queries:
    """Empty tables, as it makes them itself."""
    queries = Queries(AsyncpgDriver(db))
    if await queries.has_table("pgqueuer"):
        await queries.uninstall()
    await queries.install()
    return queries


async def herd(dsn: str, size: int, batch: int) -> dict[str, float]:
    db, watching = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    queries = await fresh(db)
    memory = resident_bytes(os.getpid())
    pace_s = await _enqueue(queries, min(size, LIST), time.time() + 86_400) / min(size, LIST)
    await db.execute("TRUNCATE pgqueuer, pgqueuer_log")
    due_s = int(time.time() + 4 + 1.5 * pace_s * size)
    created_s = await _enqueue(queries, size, due_s)
    disk = sum([await db.fetchval(f"SELECT pg_total_relation_size('{table}')") for table in _TABLES])
    grown = resident_bytes(os.getpid()) - memory
    await db.execute("ANALYZE")
    manager = QueueManager(queries)

    @manager.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        """The job."""

    working = asyncio.create_task(manager.run(batch_size=batch))
    begun_s = max(due_s, time.time())
    while True:
        number, last_s = await watching.fetchrow(_ENDED)
        if number >= size:
            break
        await asyncio.sleep(0.25)
    manager.shutdown.set()
    await working
    drain_s = float(last_s) - begun_s
    return {
        "create_per_s": size / created_s,
        "memory_each": grown / size,
        "disk_each": disk / size,
        "drain_s": drain_s,
        "per_s": size / drain_s,
    }


async def _enqueue(queries: Queries, size: int, due_s: float) -> float:
    """Seconds for a bulk insert."""
    began = time.perf_counter()
    for first in range(0, size, LIST):
        count = min(LIST, size - first)
        payloads: list[bytes | None] = [str(number).encode() for number in range(first, first + count)]
        wait = timedelta(seconds=due_s - time.time())
        await queries.enqueue(["nothing"] * count, payloads, [0] * count, [wait] * count)
    return time.perf_counter() - began


async def single(dsn: str, size: int, batch: int) -> dict[str, float]:
    await fresh(await asyncpg.connect(dsn))
    async with asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        numbers = iter(range(size))

        async def worker() -> None:
            for number in numbers:
                await queries.enqueue("nothing", str(number).encode(), execute_after=timedelta(days=1))

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
        return {"create_per_s": size / (time.perf_counter() - began)}


async def steady(dsn: str, rate: int, seconds: int, batch: int) -> dict[str, float]:
    db = await asyncpg.connect(dsn)
    queries = await fresh(db)
    count = rate * seconds
    begin_s = time.time() + 4 + count / 5_000
    for first in range(0, count, LIST):
        some = range(first, min(count, first + LIST))
        planned = [begin_s + number / rate for number in some]
        waits: list[timedelta | None] = [timedelta(seconds=at_s - time.time()) for at_s in planned]
        payloads: list[bytes | None] = [repr(at_s).encode() for at_s in planned]
        await queries.enqueue(["note"] * len(some), payloads, [0] * len(some), waits)
    await db.execute("ANALYZE")
    late_ms: list[float] = []
    over = asyncio.Event()
    manager = QueueManager(queries)

    @manager.entrypoint("note")
    async def note(job: Job) -> None:
        late_ms.append((time.time() - float(job.payload or b"0")) * 1000)
        if len(late_ms) == count:
            over.set()

    working = asyncio.create_task(manager.run(batch_size=batch))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), begin_s + 3 * seconds - time.time())
    manager.shutdown.set()
    await working
    return {
        "p50_ms": percentile(late_ms, 0.5),
        "p99_ms": percentile(late_ms, 0.99),
        "share_done": len(late_ms) / count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measure", choices=("herd", "single", "steady"))
    parser.add_argument("--dsn", required=True, help="postgresql://user@host:port/database")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    if asked.measure == "steady":
        found = uvloop.run(steady(asked.dsn, asked.rate, asked.seconds, asked.batch))
    else:
        measure = {"herd": herd, "single": single}[asked.measure]
        found = uvloop.run(measure(asked.dsn, asked.size, asked.batch))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
