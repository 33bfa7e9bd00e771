"""A steady rate: so many launches a second, spread evenly, and how late each of them starts.

Schedules of every second, each moved by its jitter to anywhere within its second. Lateness is from the planned moment
to the durable start, as the service's own histogram has it, which counts every launch. What peers tell is from the
planned moment to the first line of the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import load
from bench.context import Context
from bench.service import Running, lateness_ms, metrics_of
from bench.table import CLUSTER, OURS

SETTLE_S = 2.0
CONNECTIONS = 64
IMPORTING = "an import runs"
SINGLY = "others create one by one"


def run(context: Context) -> None:
    asked = context.asked
    for rate in asked.rates:
        with context.alone() as service:
            _measured(context, service, OURS, rate, asked.seconds)
            if rate == asked.rates[0]:
                _while_created(context, service, rate)
    with context.replicas() as leader:
        if leader is not None:
            _measured(context, leader, CLUSTER, asked.rates[0], (asked.seconds + 1) // 2)
    _peers(context)
    _goals(context)


def _measured(context: Context, where: Running, who: str, rate: int, seconds: int) -> None:
    context.report.say(f"{who}: {rate:,} launches a second for {seconds} s")
    load.import_over_http(where.url, _every_second, rate)
    time.sleep(SETTLE_S)
    before, began = metrics_of(where.url), time.monotonic()
    time.sleep(seconds)
    after, lasted_s = metrics_of(where.url), time.monotonic() - began
    name = "tocsin_lateness_seconds_count"
    reached = (after[name] - before[name]) / lasted_s
    shares = {f"p{part}_ms": lateness_ms(before, after, part / 100) for part in (50, 99)}
    for part in (50, 99):
        context.report.add(
            _measure(rate, part),
            who,
            shares[f"p{part}_ms"],
            "ms",
            size=rate * seconds,
            less_is_better=True,
            note=f"{reached:,.0f}/s",
            more={"launches_per_s": reached, **shares},
        )


def _while_created(context: Context, where: Running, rate: int) -> None:
    """The same launches, while an import runs, and then while others create one by one."""
    asked = context.asked
    ways: dict[str, Callable[[], float]] = {
        IMPORTING: lambda: load.import_over_http(where.url, load.moments("meanwhile"), asked.create),
        SINGLY: lambda: load.create_one_by_one(
            where.url, load.moments("singly"), 2 * asked.single, CONNECTIONS
        ),
    }
    for way, create in ways.items():
        context.report.say(f"{OURS}: {rate:,} launches a second while {way}")
        before, began = metrics_of(where.url), time.monotonic()
        seconds = create()
        after, lasted_s = metrics_of(where.url), time.monotonic() - began
        name = "tocsin_lateness_seconds_count"
        made = (asked.create if way is IMPORTING else 2 * asked.single) / seconds
        context.report.add(
            f"lateness at {rate:,}/s while {way}, p99",
            OURS,
            lateness_ms(before, after, 0.99),
            "ms",
            size=round(after[name] - before[name]),
            less_is_better=True,
            note=f"{(after[name] - before[name]) / lasted_s:,.0f}/s, beside {made:,.0f} creates/s",
        )
        time.sleep(SETTLE_S)


def _every_second(number: int) -> str:
    return f'{{"id":"steady/{number:06d}","cron":"* * * * * *","jitter":"1s","target":{{"kind":"null"}}}}'


def _measure(rate: int, part: int) -> str:
    return f"lateness at {rate:,}/s, p{part}"


def _peers(context: Context) -> None:
    rate = context.asked.rates[0]
    runs: list[tuple[str, str, tuple[object, ...]]] = [
        ("APScheduler 3, memory", "apscheduler", ("--store", "memory")),
        ("APScheduler 3, sqlite", "apscheduler", ("--store", "sqlite")),
        ("pgqueuer, batch 10", "pgqueuer", ("--batch", 10)),
        ("pgqueuer, batch 100", "pgqueuer", ("--batch", 100)),
    ]
    for name, peer, words in runs:
        # What cannot keep up falls behind for ever: for that a second of it is enough.
        seconds = 1 if name.endswith("sqlite") else context.asked.peer_seconds
        found = context.peer(peer, "steady", "--rate", rate, "--seconds", seconds, *words)
        for part in (50, 99):
            if isinstance(found, str):
                context.report.add(_measure(rate, part), name, None, "ms", note=found)
                continue
            note = (
                ""
                if found["share_done"] >= 1
                else f"only {found['share_done']:.0%} of it, in three times the time"
            )
            value = found[f"p{part}_ms"]
            context.report.add(
                _measure(rate, part), name, value, "ms", size=rate * seconds, less_is_better=True, note=note
            )


def _goals(context: Context) -> None:
    first, *others = context.asked.rates
    value = context.report.value
    goal = context.report.goal
    goal(f"lateness at {first:,}/s, p50", value(_measure(first, 50), OURS), 10, "ms", less=True)
    goal(f"lateness at {first:,}/s, p99", value(_measure(first, 99), OURS), 50, "ms", less=True)
    for way in (IMPORTING, SINGLY):
        measure = f"lateness at {first:,}/s while {way}, p99"
        goal(measure, value(measure, OURS), 50, "ms", less=True)
    for rate in others:
        goal(f"lateness at {rate:,}/s, p99", value(_measure(rate, 99), OURS), 250, "ms", less=True)
