"""``python -m bench full``: very many schedules in one service, put there through its API, and what it is then like.

In this order: a few schedules and how long questions take; the first million and a herd; all of them, with the rate of
every portion; memory, disk, questions and the same herd again; a stop and a start; an outage of an hour, which the
service is made to believe in by moving its clock; and if asked for, the loss of the leader of three replicas that hold
as many.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop
from tests.cluster.clockshift import ClockShift
from tests.cluster.cluster import Cluster

from bench import cluster, load
from bench.context import Context
from bench.drain import Drained, drain
from bench.measure import MEBIBYTE, files_bytes, peak_bytes, resident_bytes, until
from bench.questions import latencies
from bench.service import Running, Service, recorded, succeeded
from bench.table import CLUSTER, OURS

FEW = 10_000
SOME = 1_000_000
PREFIX = "held"


def options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--herd",
        type=int,
        default=SOME,
        help="schedules due at the same second, and those missed in the outage",
    )
    add("--payload-bytes", type=int, default=100, help="payload of each schedule that is held")
    add("--part", type=int, default=SOME, help="schedules in one import, after which progress is told")
    add("--outage", type=int, default=3_600, help="seconds for which nobody was there")
    add(
        "--scattered",
        action="store_true",
        help="not due in the order in which they were made: minutes of a year",
    )
    add("--cluster", action="store_true", help="then as many in three replicas, and the loss of their leader")
    add(
        "--data",
        type=Path,
        help="keep the service's data in this folder (it must not exist); else it is removed",
    )


def run(context: Context) -> None:
    asked = context.asked
    data = (asked.data or context.place("data")).absolute()
    if data.exists():
        raise SystemExit(
            f"{data} exists: choose a folder that does not, what is measured is how it is filled"
        )
    data.parent.mkdir(parents=True, exist_ok=True)
    shift = ClockShift(context.folder)
    service = Service(data, environment=shift.environment if shift.is_there else {})
    try:
        service.start()
        _filled(context, service)
        _restarted(context, service)
        _outage(context, service, shift)
    finally:
        service.stop()
    if asked.cluster:
        _take_over(context)


def _filled(context: Context, service: Service) -> None:
    report, asked = context.report, context.asked
    where, total = service.running(), asked.size
    few, some = min(FEW, total), min(SOME, total)
    list(_imported(context, where, 0, few))
    _asked(context, where, few)
    rates = list(_imported(context, where, few, some))
    before = _herd(context, where, some) if some < total else None
    disk = files_bytes(service.state)
    new = list(_imported(context, where, some, total))
    if new:
        each = (files_bytes(service.state) - disk) / (total - some) - asked.payload_bytes
    else:
        each = disk / _held(service) - asked.payload_bytes
    rates += new
    if rates:
        seconds = sum(count / rate for count, rate in rates)
        mean = sum(count for count, _ in rates) / seconds
        slowest = min(rate for _, rate in rates)
        note = f"slowest portion {slowest:,.0f}/s"
        report.add("import", OURS, mean, "schedules/s", size=total, note=note, more={"portions": rates})
    _taken_up(context, service, total, each)
    if total > few:
        _asked(context, where, total)
    after = _herd(context, where, total)
    if before is not None:
        report.goal(
            f"herd with {total:,} held beside {some:,} held", after.per_s / before.per_s, 0.7, "times"
        )


def _imported(context: Context, where: Running, first: int, upto: int) -> Iterator[tuple[int, float]]:
    """In portions, each with its rate."""
    make = load.held if context.asked.scattered else load.reminders
    line = make(PREFIX, '"' + "x" * max(0, context.asked.payload_bytes - 2) + '"')
    for at in range(first, upto, context.asked.part):
        count = min(context.asked.part, upto - at)
        rate = count / load.import_over_http(where.url, line, count, at)
        context.report.say(
            f"{at + count:,} held, the last {count:,} at {rate:,.0f}/s; resident "
            f"{resident_bytes(where.pid) / MEBIBYTE:,.0f} MiB, state {files_bytes(where.state) / MEBIBYTE:,.0f} MiB"
        )
        yield count, rate


def _asked(context: Context, where: Running, held: int) -> None:
    for kind, (p50_ms, p99_ms) in uvloop.run(latencies(where.url, PREFIX, held)).items():
        note = f"p50 {p50_ms:.1f} ms"
        context.report.add(f"{kind}, p99", f"{held:,} held", p99_ms, "ms", less_is_better=True, note=note)


def _herd(context: Context, where: Running, held: int) -> Drained:
    size = context.asked.herd
    context.report.say(f"a herd of {size:,} while {held:,} are held")
    found = drain(where, size, prefix=f"herd-{held}", recurring=context.asked.recurring)
    note = f"API p99 {found.api_p99_ms:,.0f} ms, memory +{found.grown_bytes / MEBIBYTE:,.0f} MiB meanwhile"
    context.report.add(
        "herd drain", f"{held:,} held", found.per_s, "launches/s", size=size, note=note, more=found.told()
    )
    context.report.goal(f"API p99 in a herd, {held:,} held", found.api_p99_ms, 250, "ms", less=True)
    return found


def _taken_up(context: Context, service: Service, total: int, each: float) -> None:
    report = context.report
    note = "state file, payload taken off"
    report.add("disk a schedule", OURS, each, "bytes", size=total, less_is_better=True, note=note)
    report.add("journal", OURS, files_bytes(service.journal) / MEBIBYTE, "MiB", less_is_better=True)
    resident, peak = resident_bytes(service.pid) / MEBIBYTE, peak_bytes(service.pid) / MEBIBYTE
    note = f"peak {peak:,.0f} MiB with mapped files"
    report.add("resident memory", OURS, resident, "MiB", size=total, less_is_better=True, note=note)


def _held(service: Service) -> int:
    return int(service.status()["schedules"])


def _restarted(context: Context, service: Service) -> None:
    stop_s = service.stop()
    start_s = service.start()
    note = f"the stop before it took {stop_s:.1f} s"
    held = _held(service)
    context.report.add("start-up, clean state", OURS, start_s, "s", size=held, less_is_better=True, note=note)


def _outage(context: Context, service: Service, shift: ClockShift) -> None:
    """Due at seconds all over the outage, and nobody there."""
    report, size, outage_s = context.report, context.asked.herd, context.asked.outage
    pace_s = load.import_over_http(service.url, load.held("outage-first"), 10_000) / 10_000
    first_s = int(time.time() + 10 + 1.3 * pace_s * size)
    report.say(f"{size:,} schedules, due all over the outage of {outage_s:,} s")
    load.import_over_http(service.url, _spread(first_s, outage_s), size)
    service.stop()
    left_s = first_s - time.time()
    if shift.is_there:
        shift.step(int(outage_s + max(0.0, left_s)) + 2)
    else:
        report.say("there is no C compiler to move the clock with: the outage is waited for")
        time.sleep(outage_s + max(0.0, left_s) + 2)
    ready_s = service.start()
    until(lambda: succeeded(service.url, "null") >= size, "all to be caught up", 1_800, every_s=0.5)
    seen = recorded(service.state, first_s, first_s + outage_s)
    took_s = seen.last_end_s - seen.first_start_s
    note = f"{took_s:.1f} s; ready {ready_s:.1f} s after its start"
    report.add(
        "catch-up after an outage", OURS, seen.number / took_s, "launches/s", size=seen.number, note=note
    )


def _spread(first_s: int, seconds: int) -> load.Line:
    def line(number: int) -> str:
        at_s = first_s + number % seconds
        return f'{{"id":"outage/{number:08d}","cron":"@at {at_s}","target":{{"kind":"null"}}}}'

    return line


def _take_over(context: Context) -> None:
    if not cluster.is_possible():
        context.report.note(f"the take-over was not measured: {cluster.MISSING}")
        return
    report, total = context.report, context.asked.size
    with cluster.three(context.place("cluster")) as three:
        leader = three.until_leader()
        rates = list(_imported(context, cluster.running(leader), 0, total))
        mean = total / sum(count / rate for count, rate in rates)
        report.add("import", CLUSTER, mean, "schedules/s", size=total)
        leader.call("PUT", "/v1/schedules/second", {"cron": "* * * * * *", "target": {"kind": "null"}})
        until(lambda: _is_level(three), "the followers to be as far as their leader", 1_800, every_s=1)
        began = time.monotonic()
        leader.kill()
        heir = three.until_leader(600, other_than=leader.name)
        led_s = time.monotonic() - began
        until(lambda: succeeded(heir.url, "null"), "a launch by the new leader", 600, every_s=0.05)
        took_s = time.monotonic() - began
    note = f"in office after {led_s:.1f} s"
    report.add("take-over after kill -9", CLUSTER, took_s, "s", size=total, less_is_better=True, note=note)


def _is_level(three: Cluster) -> bool:
    found: list[Any] = [replica.ask("/v1/status") for replica in three]
    if any(status is None for status in found):
        return False
    sequences = [int(status["sequence"]) for status in found]
    return max(sequences) - min(sequences) < 5
