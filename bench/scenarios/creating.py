"""How fast schedules come in, many at once and one by one, and what each of them takes up once it is there."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from bench import load
from bench.context import Context
from bench.measure import files_bytes, resident_bytes
from bench.service import Running
from bench.table import CLUSTER, OURS

BULK, SINGLE = "bulk create", "single create"
MEMORY, DISK = "resident memory a schedule", "disk a schedule"
CONNECTIONS = 64
CRON, COMMAND = OURS + ", cron texts", OURS + ", tocsin import FILE"
AT = "a moment (@at) each"


def run(context: Context) -> None:
    _alone(context)
    with context.replicas() as leader:
        if leader is not None:
            _three(context, leader)
    _peers(context)
    _goals(context)


def _alone(context: Context) -> None:
    report, asked = context.report, context.asked
    with context.alone() as service:
        load.import_over_http(service.url, load.held("first"), 2_000)  # what is loaded only when it is needed
        disk, memory = files_bytes(service.state), resident_bytes(service.pid)
        portion = max(1, asked.create // asked.repeats)
        # What peers are given too: a moment each. Behind it, texts that have to be understood.
        bulk = _imported(context, service, load.moments, portion)
        size = portion * asked.repeats
        memory_each = (resident_bytes(service.pid) - memory) / size
        disk_each = (files_bytes(service.state) - disk) / size
        report.add(BULK, OURS, bulk, "schedules/s", size=size, note=AT)
        texts = _imported(context, service, load.held, portion)
        report.add(BULK, CRON, texts, "schedules/s", size=size, note="they all differ")
        report.add(BULK, COMMAND, _by_command(context, service), "schedules/s", size=asked.create, note=AT)
        report.add(MEMORY, OURS, memory_each, "bytes", size=size, less_is_better=True)
        report.add(DISK, OURS, disk_each, "bytes", size=size, less_is_better=True, note="its state file")
        single = asked.single / load.create_one_by_one(
            service.url, load.held("single"), asked.single, CONNECTIONS
        )
        note = f"HTTP, {CONNECTIONS} connections"
        report.add(SINGLE, OURS, single, "schedules/s", size=asked.single, note=note)


def _imported(context: Context, service: Running, line: Callable[[str], load.Line], portion: int) -> float:
    """The median rate of some imports of this size."""
    rates = []
    for number in range(context.asked.repeats):
        seconds = load.import_over_http(service.url, line(f"{line.__name__}/{number}"), portion)
        rates.append(portion / seconds)
        context.report.say(f"imported {portion:,} over HTTP ({line.__name__}): {rates[-1]:,.0f}/s")
    return statistics.median(rates)


def _by_command(context: Context, service: Running) -> float:
    """All at once: a person waits for the command to start, once."""
    portion: int = context.asked.create
    path = context.place("schedules.ndjson")
    with path.open("wb") as file:
        file.writelines(load.parts(load.moments("command"), 0, portion))
    return portion / load.import_by_command(service.url, path, portion)


def _three(context: Context, leader: Running) -> None:
    report, size, single = context.report, context.asked.create // 3, context.asked.single // 2
    load.import_over_http(leader.url, load.held("first"), 2_000)
    bulk = size / load.import_over_http(leader.url, load.moments("http"), size)
    report.add(BULK, CLUSTER, bulk, "schedules/s", size=size, note=AT)
    took_s = load.create_one_by_one(leader.url, load.held("single"), single, CONNECTIONS)
    report.add(SINGLE, CLUSTER, single / took_s, "schedules/s", size=single)


def _peers(context: Context) -> None:
    asked = context.asked
    for store, size, words in (
        ("memory", asked.peer_size, "memory store: nothing is durable"),
        ("sqlite", asked.slow_peer_size, "SQLite store"),
    ):
        name = f"APScheduler 3, {store}"
        herd = context.peer("apscheduler", "herd", "--store", store, "--size", size)
        _told(context, name, herd, size, words, disk=store == "sqlite")
        single = context.peer("apscheduler", "single", "--store", store, "--size", size)
        _add(context, SINGLE, name, single, size, words)
    name, size = "pgqueuer", asked.peer_size
    herd = context.peer("pgqueuer", "herd", "--size", size, "--batch", 100)
    _told(context, name, herd, size, "lists of 10,000", memory=False)
    single_size = min(size, asked.single)
    single = context.peer("pgqueuer", "single", "--size", single_size)
    _add(context, SINGLE, name, single, single_size, f"{CONNECTIONS} connections")


def _told(
    context: Context,
    name: str,
    found: dict[str, float] | str,
    size: int,
    note: str,
    *,
    memory: bool = True,
    disk: bool = True,
) -> None:
    _add(context, BULK, name, found, size, note)
    if isinstance(found, str):
        return
    context.kept[name] = found
    for measure, key, is_told in ((MEMORY, "memory_each", memory), (DISK, "disk_each", disk)):
        if is_told:
            context.report.add(measure, name, found[key], "bytes", size=size, less_is_better=True)


def _add(
    context: Context, measure: str, name: str, found: dict[str, float] | str, size: int, note: str
) -> None:
    if isinstance(found, str):
        context.report.add(measure, name, None, "schedules/s", note=found)
    else:
        context.report.add(measure, name, found["create_per_s"], "schedules/s", size=size, note=note)


def _goals(context: Context) -> None:
    report = context.report
    ours = report.value(BULK, OURS)
    report.goal("import over HTTP, embedded", ours, 50_000, "schedules/s")
    report.goal("the same, cron texts that all differ", report.value(BULK, CRON), 50_000, "schedules/s")
    report.goal("tocsin import FILE, embedded", report.value(BULK, COMMAND), 50_000, "schedules/s")
    report.goal(f"single creates, {CONNECTIONS} connections", report.value(SINGLE, OURS), 1_500, "/s")
    best = report.best(BULK, ("APScheduler", "pgqueuer"))
    report.goal("bulk create beside the best peer", ours / best if ours and best else None, 1.5, "times")
