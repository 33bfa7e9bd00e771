"""A herd: very many schedules due at the same second, to a target that does nothing.

Every launch passes both synchronisation points: its start is durable before the target is called, its end after it. The
time is counted from the second that all are due at to the last end on record. Questions are asked meanwhile at a steady
pace.
"""

from __future__ import annotations

import statistics
from typing import Any

from bench import limits
from bench.context import Context
from bench.drain import Drained, drain
from bench.measure import MEBIBYTE
from bench.service import Running
from bench.table import CLUSTER, OURS

DRAIN = "herd drain"
UNIT = "launches/s"


def run(context: Context) -> None:
    report, asked = context.report, context.asked
    found = [_alone(context)]
    bare = limits.fsynced_rows(asked.size, context.place("limit.db"))
    three = _three(context)
    _peers(context)
    # Once more behind the others: on a noisy machine one moment is no measure.
    found += [_alone(context) for _ in range(asked.herd_repeats - 1)]
    middle = sorted(found, key=lambda each: each.per_s)[(len(found) - 1) // 2]
    rate = statistics.median(each.per_s for each in found)
    report.add(DRAIN, OURS, rate, UNIT, size=asked.size, note=_note(middle), more=middle.told())
    report.add(DRAIN, "limit: two bare rows in fsynced SQLite", bare, UNIT, size=asked.size, is_limit=True)
    _goals(context, middle, three)


def _alone(context: Context) -> Drained:
    with context.alone() as service:
        return _drained(context, service, context.asked.size, OURS)


def _three(context: Context) -> Drained | None:
    with context.replicas() as leader:
        if leader is None:
            return None
        size = max(1_000, context.asked.size // 4)
        found = _drained(context, leader, size, CLUSTER)
        context.report.add(DRAIN, CLUSTER, found.per_s, UNIT, size=size, note=_note(found), more=found.told())
        return found


def _drained(context: Context, where: Running, size: int, who: str) -> Drained:
    context.report.say(f"{who}: {size:,} schedules for one second")
    found = drain(where, size, recurring=context.asked.recurring)
    context.report.say(
        f"{who}: imported at {size / found.import_s:,.0f}/s, drained at {found.per_s:,.0f}/s in {found.drain_s:.2f} s"
    )
    if found.terms[0] != found.terms[1] or found.absences:
        context.report.note(f"{who}: the office changed hands during the herd: terms {found.terms}")
    return found


def _note(found: Drained) -> str:
    return f"API p99 {found.api_p99_ms:,.0f} ms, memory +{found.grown_bytes / MEBIBYTE:,.0f} MiB meanwhile"


def _peers(context: Context) -> None:
    asked = context.asked
    runs: list[tuple[str, str, int, tuple[object, ...]]] = [
        ("APScheduler 3, memory", "apscheduler", asked.peer_size, ("--store", "memory")),
        ("APScheduler 3, sqlite", "apscheduler", asked.slow_peer_size, ("--store", "sqlite")),
        ("pgqueuer, batch 10", "pgqueuer", asked.peer_size, ("--batch", 10)),
        ("pgqueuer, batch 100", "pgqueuer", asked.peer_size, ("--batch", 100)),
    ]
    for name, peer, size, words in runs:
        found = _known(context, name) or context.peer(peer, "herd", "--size", size, *words)
        if isinstance(found, str):
            context.report.add(DRAIN, name, None, UNIT, note=found)
        else:
            note = "nothing is durable" if name.endswith("memory") else ""
            context.report.add(DRAIN, name, found["per_s"], UNIT, size=size, note=note)


def _known(context: Context, name: str) -> dict[str, Any] | None:
    """Measured a moment ago, when its schedules were made."""
    return context.kept.get("pgqueuer" if name == "pgqueuer, batch 100" else name)


def _goals(context: Context, alone: Drained, three: Drained | None) -> None:
    report = context.report
    ours = report.value(DRAIN, OURS)
    report.goal("herd drain, embedded", ours, 50_000, UNIT)
    report.goal("herd drain, three etcd replicas", None if three is None else three.per_s, 15_000, UNIT)
    report.goal("API p99 meanwhile, embedded", alone.api_p99_ms, 250, "ms", less=True)
    report.goal(
        "API p99 meanwhile, three replicas", None if three is None else three.api_p99_ms, 250, "ms", less=True
    )
    grown = alone.grown_bytes / MEBIBYTE
    report.goal("memory that the herd takes, embedded", grown, 256, "MiB", less=True)
    changes = None if three is None else float(three.terms[1] - three.terms[0]) + three.absences
    report.goal("changes of office during the herd, three replicas", changes, 0, "", less=True)
    durable = report.best(DRAIN, ("APScheduler 3, sqlite", "pgqueuer"))
    report.goal("herd drain beside the best durable peer", _times(ours, durable), 5, "times")
    sqlite = report.value(DRAIN, "APScheduler 3, sqlite")
    report.goal("herd drain beside APScheduler on SQLite", _times(ours, sqlite), 20, "times")


def _times(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours and other else None
