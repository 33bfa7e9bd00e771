"""How many commands a second? Run as ``python tests/targets/exec_bench.py [directory]``; not a test."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Verdict
from tocsin.targets.exec.target import ExecTarget
from tocsin.testing.targets import order_for, see_through

LAUNCHES, IN_FLIGHT = 3000, 64


async def _measure(place: Path) -> float:
    target = ExecTarget(place)
    await target.start()
    orders = iter([order_for(ExecSpec(argv=("true",)), f"bench/true-{n}") for n in range(LAUNCHES)])

    async def worker() -> None:
        for order in orders:
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED

    began = time.monotonic()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    rate = LAUNCHES / (time.monotonic() - began)
    await target.stop()
    return rate


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as place:
        print(f"{asyncio.run(_measure(Path(place))):.0f} launches/s of 'true', {IN_FLIGHT} in flight")
