"""Commands per second: ``true``, with its exit status and output recorded, against the bare ``posix_spawn``."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Order, Verdict
from tocsin.targets.exec.target import ExecTarget

IN_FLIGHT = 64


async def _launch(place: Path, count: int) -> float:
    target = ExecTarget(place)
    await target.start()
    now_ms = time.time_ns() // 1_000_000
    spec = ExecSpec(argv=("true",))
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            order = Order(f"bench-{number}", "bench", number, 1, 1, now_ms, spec)
            outcome = await target.launch(order)
            if outcome.verdict is Verdict.ACCEPTED:
                outcome = await target.watch(order)
            assert outcome.verdict is Verdict.SUCCEEDED, outcome

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    rate = count / (time.perf_counter() - began)
    await target.stop()
    return rate


def _spawn(count: int) -> float:
    began = time.perf_counter()
    running = []
    for _ in range(count):
        running.append(os.posix_spawnp("true", ["true"], {}))
        if len(running) == IN_FLIGHT:
            for pid in running:
                os.waitpid(pid, 0)
            running.clear()
    for pid in running:
        os.waitpid(pid, 0)
    return count / (time.perf_counter() - began)


def run(count: int = 2_000) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        launched = asyncio.run(_launch(Path(place), count))
    bare = _spawn(count)
    return {"launches_per_s": launched, "posix_spawn_per_s": bare, "of_limit": launched / bare}


def report() -> dict[str, float]:
    result = run()
    print("\nexec of 'true', exit status and output recorded")
    print(f"  tocsin        {result['launches_per_s']:>10,.0f} launches/s")
    print(f"  posix_spawn   {result['posix_spawn_per_s']:>10,.0f} processes/s, nothing recorded")
    print(f"  of that       {result['of_limit']:>10.0%}")
    return result


if __name__ == "__main__":
    report()
