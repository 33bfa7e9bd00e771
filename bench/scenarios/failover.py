"""Fail-over time: from ``kill -9`` of the leader to the next launch, as a receiver sees it, on three real replicas.

``python -m bench.scenarios.failover --trials 20 --write docs/failover.md``

Twenty schedules of every second, each launch moved by its jitter to anywhere within its second, make about twenty
calls a second to a receiver in a process of its own. A trial waits until all is well, kills, and takes the time until
the first call of a newer term arrives; then the one that was killed is started again.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import on_loopback
from tests.cluster.probe import PER_SECOND, Probe
from tests.cluster.waiting import boot_s

from bench.context import Context

FAULTS: dict[str, Callable[[Replica], None]] = {
    "`kill -9` of the leader's Tocsin": Replica.kill,
    "`kill -9` of the leader's Tocsin and its etcd": Replica.crash,
}
COMMAND = "python -m bench.scenarios.failover --trials {trials} --write docs/failover.md"


def measure(trials: int) -> dict[str, list[float]]:
    """Seconds for each trial of each fault."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), on_loopback("abc"))
        probe = Probe(cluster, Path(folder) / "probe")
        try:
            cluster.start()
            probe.start()
            return {
                name: [_trial(cluster, probe, fault) for _ in range(trials)] for name, fault in FAULTS.items()
            }
        finally:
            cluster.close()
            probe.close()


def _trial(cluster: Cluster, probe: Probe, fault: Callable[[Replica], None]) -> float:
    leader = cluster.until_healthy()
    probe.go_on()
    term = int(leader.call("GET", "/v1/status")["term"])
    moment_s = boot_s()
    fault(leader)
    took_s = probe.first_after(term).at_s - moment_s
    print(f"  {leader.name}, term {term}: {took_s:.2f} s", flush=True)
    return took_s


def table(results: dict[str, list[float]]) -> str:
    rows = ["| fault | trials | quickest | median | 90th percentile | slowest |", "|---|---|---|---|---|---|"]
    for name, times_s in results.items():
        ninth = (
            statistics.quantiles(times_s, n=10, method="inclusive")[-1] if len(times_s) > 1 else times_s[0]
        )
        figures = (min(times_s), statistics.median(times_s), ninth, max(times_s))
        rows.append(
            f"| {name} | {len(times_s)} | " + " | ".join(f"{figure:.2f} s" for figure in figures) + " |"
        )
    return "\n".join(rows)


def document(results: dict[str, list[float]], trials: int) -> str:
    machine = f"{os.cpu_count()} processors, Python {platform.python_version()}, {_etcd_version()}"
    return f"""# Fail-over time

From the fault to the next launch, as a receiver sees it: three replicas, each with its own etcd, on one machine
({machine}). About {PER_SECOND} launches a second are under way, spread
evenly, so a figure is right to about {1 / PER_SECOND:.2f} s.

{table(results)}

Most of it is the time for which the lease of a leader lasts after its last presence: until then no other replica
may act. A planned hand-over (`tocsin cluster step-down`, SIGTERM) does not wait for that and takes less than half a
second.

A leader that is wedged (its loop, its state or its disk stands still) is followed about 7 s later: 5 s until
that is certain, then the same.

Measured with `{COMMAND.format(trials=trials)}`, which writes this page.
"""


def _etcd_version() -> str:
    told = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout
    return "etcd " + told.splitlines()[0].rpartition(" ")[2]


def run(context: Context) -> None:
    trials = context.asked.trials
    context.report.say(f"fail-over: three replicas, {trials} trials of each fault")
    for name, times_s in measure(trials).items():
        median = statistics.median(times_s)
        context.report.add(
            "fail-over", name, median, "s", size=trials, less_is_better=True, more={"s": times_s}
        )
        context.report.goal(f"fail-over after {name}, median", median, 3, "s", less=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--write", type=Path, help="write the page with the table to this file")
    asked = parser.parse_args()
    found = measure(asked.trials)
    print(table(found))
    if asked.write:
        asked.write.write_text(document(found, asked.trials))
