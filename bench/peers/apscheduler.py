"""APScheduler 3 with its default thread pool, and its memory store or its SQLAlchemy store on SQLite.

``herd``: jobs are added while the scheduler is paused, so that it is not woken for each; all are due at the same
second. ``single``: the same while it runs. ``steady``: so many jobs a second, spread evenly. Late jobs are not dropped
(``misfire_grace_time=None``).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.measure import files_bytes, percentile, resident_bytes

_ended: list[float] = []
_late_s: list[float] = []


def nothing() -> None:
    """The job."""


def note(planned_s: float) -> None:
    """The job that tells how late it began."""
    _late_s.append(time.time() - planned_s)


def scheduler_of(store: str, path: Path) -> BackgroundScheduler:
    kept = MemoryJobStore() if store == "memory" else SQLAlchemyJobStore(url=f"sqlite:///{path}")
    scheduler = BackgroundScheduler(jobstores={"default": kept}, timezone=UTC)
    scheduler.add_listener(lambda _: _ended.append(time.time()), EVENT_JOB_EXECUTED)
    return scheduler


def add(scheduler: BackgroundScheduler, number: int, at_s: float, job: Any = nothing, *args: Any) -> None:
    when = datetime.fromtimestamp(at_s, UTC)
    scheduler.add_job(job, "date", args, id=f"{number:08d}", run_date=when, misfire_grace_time=None)


def herd(store: str, size: int, path: Path) -> dict[str, float]:
    scheduler = scheduler_of(store, path)
    scheduler.start(paused=True)
    before = resident_bytes(os.getpid())
    # To be moved to one near second when all are there would be work that nobody else is asked for.
    pace_s = _pace(scheduler, min(500, size))
    due_s = int(time.time() + 3 + 1.5 * pace_s * size)
    began = time.perf_counter()
    for number in range(size):
        add(scheduler, number, due_s)
    created_s = time.perf_counter() - began
    memory = resident_bytes(os.getpid()) - before
    resumed_s = time.time()
    scheduler.resume()
    while len(_ended) < size:
        time.sleep(0.05)
    drain_s = max(_ended) - max(due_s, resumed_s)
    scheduler.shutdown()
    return {
        "create_per_s": size / created_s,
        "memory_each": memory / size,
        "disk_each": files_bytes(path) / size,
        "drain_s": drain_s,
        "per_s": size / drain_s,
    }


def _pace(scheduler: BackgroundScheduler, count: int) -> float:
    """Seconds that it takes to add one. What was added for that is removed again."""
    began = time.perf_counter()
    for number in range(count):
        add(scheduler, 90_000_000 + number, time.time() + 86_400)
    pace_s = (time.perf_counter() - began) / count
    scheduler.remove_all_jobs()
    return pace_s


def single(store: str, size: int, path: Path) -> dict[str, float]:
    scheduler = scheduler_of(store, path)
    scheduler.start()
    began = time.perf_counter()
    for number in range(size):
        add(scheduler, number, time.time() + 86_400)
    rate = size / (time.perf_counter() - began)
    scheduler.shutdown()
    return {"create_per_s": rate}


def steady(store: str, rate: int, seconds: int, path: Path) -> dict[str, float]:
    scheduler = scheduler_of(store, path)
    scheduler.start(paused=True)
    count = rate * seconds
    begin_s = time.time() + 3 + 1.5 * _pace(scheduler, 200) * count
    for number in range(count):
        at_s = begin_s + number / rate
        add(scheduler, number, at_s, note, at_s)
    scheduler.resume()
    patience = threading.Event()
    while len(_ended) < count and time.time() < begin_s + 3 * seconds:
        patience.wait(0.05)
    late_ms = [each * 1000 for each in _late_s]
    scheduler.shutdown(wait=False)
    return {
        "p50_ms": percentile(late_ms, 0.5),
        "p99_ms": percentile(late_ms, 0.99),
        "share_done": len(late_ms) / count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measure", choices=("herd", "single", "steady"))
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        if asked.measure == "steady":
            found = steady(asked.store, asked.rate, asked.seconds, path)
        else:
            found = {"herd": herd, "single": single}[asked.measure](asked.store, asked.size, path)
    print(json.dumps(found), flush=True)
    os._exit(0)  # jobs that are left over from a rate that was too high would still be waited for


if __name__ == "__main__":
    main()
