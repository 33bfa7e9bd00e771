"""Commands: ``true``, many due at the same second, with the exit status and the output of each recorded."""

from __future__ import annotations

from bench import limits
from bench.context import Context
from bench.drain import drain
from bench.table import OURS

MEASURE = "commands"
UNIT = "launches/s"


def run(context: Context) -> None:
    report, size = context.report, context.asked.commands
    with context.alone() as service:
        target = '{"kind":"exec","argv":["true"]}'
        found = drain(service, size, prefix="exec", target=target, asking_per_s=10)
    note = f"API p99 {found.api_p99_ms:,.0f} ms meanwhile"
    report.add(MEASURE, OURS, found.per_s, UNIT, size=size, note=note, more=found.told())
    bare = limits.spawned(size)
    report.add(MEASURE, "limit: posix_spawn, nothing recorded", bare, UNIT, size=size, is_limit=True)
    report.goal("commands (true), exit status and output recorded", found.per_s, 1_000, UNIT)
