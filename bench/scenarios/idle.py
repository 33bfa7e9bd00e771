"""What three replicas cost that hold schedules and have nothing to do: processor time and memory, etcds included.

``python -m bench.scenarios.idle --seconds 60``
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import load
from bench.cluster import three
from bench.context import Context

HELD = 2_000
SETTLE_S = 20.0
PROCESSOR_GOAL, MEMORY_GOAL = 5.0, 250.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Of one kind of process, all of them together."""

    percent: float
    """Of one core."""
    megabytes: float
    """Shared memory is divided among those who share it."""


def measure(seconds: float, held: int = HELD) -> dict[str, Cost]:
    """By kind of process."""
    with tempfile.TemporaryDirectory() as folder, three(Path(folder)) as cluster:
        leader = cluster.until_healthy()
        load.import_over_http(leader.url, load.held("idle"), held)
        time.sleep(SETTLE_S)
        pids = [pid for replica in cluster for pid in _tree(replica.pid)]
        before = {pid: _cpu_s(pid) for pid in pids}
        began_s = time.monotonic()
        time.sleep(seconds)
        lasted_s = time.monotonic() - began_s
        found: dict[str, Cost] = {}
        for pid in pids:
            kind, former = _kind(pid), found.get(_kind(pid), Cost(0.0, 0.0))
            percent = 100 * (_cpu_s(pid) - before[pid]) / lasted_s
            found[kind] = Cost(former.percent + percent, former.megabytes + _pss_mb(pid))
        return found


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def _kind(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    if "etcd" in Path(words[0]).name:
        return "etcd"
    return "replica" if "serve" in words else "helper"


def _cpu_s(pid: int) -> float:
    """Of the process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) / _TICKS


def _pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(context: Context) -> None:
    seconds = context.asked.seconds
    context.report.say(f"idle: three replicas that hold {HELD:,} schedules, {seconds} s")
    found = measure(seconds)
    percent, megabytes = total(found)
    more = {kind: cost._asdict() for kind, cost in found.items()}
    for what, value, unit, goal in (
        ("processor", percent, "%", PROCESSOR_GOAL),
        ("memory", megabytes, "MB", MEMORY_GOAL),
    ):
        context.report.add(
            f"idle, {what}", "three replicas", value, unit, size=HELD, less_is_better=True, more=more
        )
        context.report.goal(f"idle, {what} of replicas and etcds", value, goal, unit, less=True)


def total(found: dict[str, Cost]) -> Cost:
    return Cost(sum(cost.percent for cost in found.values()), sum(cost.megabytes for cost in found.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--held", type=int, default=HELD)
    asked = parser.parse_args()
    costs = measure(asked.seconds, asked.held)
    for name, cost in [*sorted(costs.items()), ("total", total(costs))]:
        print(f"{name:8} {cost.percent:5.1f} % of a core {cost.megabytes:6.0f} MB")
