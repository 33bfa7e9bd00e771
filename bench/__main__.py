"""Measure Tocsin on this machine: side by side with others, and against what the machine could do at most.

  python -m bench                          every scenario, small: a few minutes on two cores
  python -m bench herd --size 1000000      one scenario, of the size that you want
  python -m bench creating steady          some of them
  python -m bench failover --trials 20     how long nobody launches after a kill -9 of the leader
  python -m bench retention --retention-schedules 20000 --retention-seconds 600
  python -m bench full --size 30000000     very many schedules held, and everything asked of them: hours

scenarios:
{scenarios}

Figures are printed as they come, then as tables; the ratio tells how many times better Tocsin on one machine is than
that row (below 1: worse). Goals are told with how far they were reached; a missed one is no error. All of it is written
as JSON. What is missing here (etcd, Postgres, a broker) is left out, and its row says what to install.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import traceback
from pathlib import Path

from bench import full
from bench.context import Context
from bench.table import Report, machine

SCENARIOS = {
    "cron": "instants of cron texts, beside cronsim, croniter and APScheduler",
    "creating": "schedules in, many at once and one by one; what each takes up",
    "herd": "very many due at the same second",
    "steady": "so many launches every second, and how late each is",
    "exec": "commands a second, beside the bare posix_spawn",
    "payloads": "launches with 50 KB payloads, and the memory that they take",
    "events": "events to Kafka and NATS, beside their bare producers",
    "retention": "schedules at their limit of history, while they launch",
    "simulation": "simulated hours a minute",
    "failover": "kill -9 of the leader of three (only when asked for)",
    "idle": "processor time and memory of three that have nothing to do (only when asked for)",
}
DEFAULT = [name for name in SCENARIOS if name not in ("failover", "idle")]


def main() -> None:
    words = parser()
    asked = words.parse_args()
    if not asked.scenarios:
        asked.scenarios = DEFAULT
    elif "full" in asked.scenarios and len(asked.scenarios) > 1:
        words.error("full goes alone: it takes hours")
    report = Report()
    print(" ".join(f"{key} {value}" for key, value in machine().items()), flush=True)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-", dir=asked.folder) as folder:
        context = Context(report, asked, Path(folder))
        try:
            if asked.scenarios == ["full"]:
                full.run(context)
            else:
                _measure(context)
        finally:
            context.close()
            report.write(asked.json)
    print("\n" + report.text())
    print(f"\nAll figures are in {asked.json}.")


def _measure(context: Context) -> None:
    """One that breaks must not cost the others' figures."""
    for name in context.asked.scenarios:
        print(f"\n{name}: {SCENARIOS[name]}", flush=True)
        context.scenario = name
        try:
            importlib.import_module(f"bench.scenarios.{name}").run(context)
        except ModuleNotFoundError as missing:
            context.report.note(f"{name} was not measured: {missing} (pip install -e '.[bench]')")
        except Exception as wrong:  # noqa: BLE001  # why: told, and the rest is measured all the same
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            told = f"{type(wrong).__name__}: {wrong}"[:300]
            context.report.note(
                f"{name} was not measured to its end: {told} ({Path(where.filename).name}, line {where.lineno})"
            )
    context.tell_longest()


def parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:11} {what}" for name, what in SCENARIOS.items())
    found = argparse.ArgumentParser(
        prog="python -m bench",
        description=(__doc__ or "").format(scenarios=listed),
        formatter_class=_Help,
    )
    found.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        type=_scenario,
        help="which; none: all but failover and idle",
    )
    add = found.add_argument
    add("--json", type=Path, default=Path("bench-results.json"), help="the figures go to this file")
    add("--folder", type=Path, help="data goes below this folder: it should be on the disk that you mean")
    add("--without-cluster", action="store_true", help="leave out the three replicas")
    sizes = found.add_argument_group("sizes")
    size = sizes.add_argument
    size("--size", type=int, default=100_000, help="schedules in the herd; with full: schedules held")
    size("--herd-repeats", type=int, default=2, help="herds, of which the median counts")
    size("--recurring", action="store_true", help="the herd is due again every day, not once")
    size("--create", type=int, default=240_000, help="schedules that are created in bulk")
    size("--repeats", type=int, default=3, help="portions in which they are, of which the median counts")
    size("--single", type=int, default=4_000, help="schedules that are created one by one")
    size("--peer-size", type=int, default=20_000, help="schedules of each peer")
    size("--slow-peer-size", type=int, default=1_000, help="schedules of APScheduler on SQLite")
    size("--rates", type=_rates, default=[1_000, 5_000], metavar="A,B", help="steady launches a second")
    size("--seconds", type=int, default=20, help="how long a steady rate is kept up")
    size("--peer-seconds", type=int, default=4, help="the same for peers")
    size("--commands", type=int, default=3_000, help="commands that are due at once")
    size("--payloads", type=int, default=5_000, help="launches with 50 KB payloads that are due at once")
    size("--events", type=int, default=100_000, help="events that are due at once")
    size("--retention-schedules", type=int, default=2_000, help="schedules at their limit of history")
    size("--retention-each", type=int, default=1_000, help="launches that are kept of each of them")
    size("--retention-seconds", type=int, default=60, help="how long they launch (full: 20000 for 600 s)")
    size("--trials", type=int, default=5, help="of each fault (failover)")
    full.options(found.add_argument_group("full"))
    return found


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Lines as they stand, and every default."""


def _scenario(name: str) -> str:
    if name not in (*SCENARIOS, "full"):
        allowed = ", ".join((*SCENARIOS, "full"))
        raise argparse.ArgumentTypeError(f"there is no scenario {name!r}; allowed: {allowed}")
    return name


def _rates(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
