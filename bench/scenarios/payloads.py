"""Large payloads: many launches of 50 KB each, all due at the same second, to an HTTP receiver.

Goals: the leader stays the leader, the memory that the launches take is bounded, each launch reaches the receiver once.
"""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import load
from bench.context import Context
from bench.measure import MEBIBYTE, resident_bytes, until
from bench.receiver import Receiver, receiving
from bench.service import Running, recorded, succeeded
from bench.table import CLUSTER, OURS

DRAIN = "launches with 50 KB payloads"
UNIT = "launches/s"
PAYLOAD_BYTES = 50_000
PROBE = 250
"""So many are imported first, to learn how long all of them will take."""
PATIENCE_S = 600.0


class Drained(NamedTuple):
    per_s: float
    grown_bytes: int
    """Of the replica that took most."""
    changes: float
    """Leader changes and absences meanwhile."""
    repeated: int


def run(context: Context) -> None:
    report, size = context.report, context.asked.payloads
    with receiving() as receiver:
        with context.alone() as service:
            alone = _measured(context, OURS, service, [service], receiver)
        three: Drained | None = None
        with context.all_replicas() as replicas:
            if replicas:
                three = _measured(context, CLUSTER, replicas[0], replicas, receiver)
    for who, found in ((OURS, alone), (CLUSTER, three)):
        words = "embedded" if who == OURS else "three replicas"
        if found is not None:
            note = f"memory +{found.grown_bytes / MEBIBYTE:,.0f} MiB, leader changes {found.changes:g}"
            report.add(DRAIN, who, found.per_s, UNIT, size=size, note=note, more=found._asdict())
        grown = None if found is None else found.grown_bytes / MEBIBYTE
        report.goal(f"memory that 50 KB payloads take, {words}", grown, 300, "MiB", less=True)
        changes = None if found is None else found.changes
        report.goal(f"leader changes with 50 KB payloads, {words}", changes, 0, "", less=True)
        repeated = None if found is None else float(found.repeated)
        report.goal(f"launches with 50 KB payloads called twice, {words}", repeated, 0, "", less=True)


def _measured(
    context: Context, who: str, where: Running, replicas: Sequence[Running], receiver: Receiver
) -> Drained:
    size = context.asked.payloads
    context.report.say(f"{who}: {size:,} schedules of {PAYLOAD_BYTES:,} bytes for one second")
    target = f'{{"kind":"http","url":"{receiver.url}"}}'
    probe_s = load.import_over_http(where.url, _line("probe", int(time.time()) + 30 * 86_400, target), PROBE)
    due_s = int(time.time() + 5 + 2 * probe_s * size / PROBE)
    before = receiver.seen()
    load.import_over_http(where.url, _line("payload", due_s, target), size)
    if time.time() > due_s - 1:
        raise TimeoutError("the schedules could not be put in place before they were due")
    begun, term, absences = succeeded(where.url, "http"), where.term(), where.absences()
    memory = [resident_bytes(replica.pid) for replica in replicas]
    most = list(memory)

    def is_over() -> bool:
        most[:] = [max(had, resident_bytes(replica.pid)) for had, replica in zip(most, replicas, strict=True)]
        return time.time() > due_s and _ended(where, due_s) == size

    until(is_over, "all of them to end", due_s - time.time() + PATIENCE_S, every_s=0.2)
    seen, received = recorded(where.state, due_s), receiver.seen()
    if succeeded(where.url, "http") - begun != size:
        context.report.note(f"{who}: another replica than the first made some of the calls")
    return Drained(
        per_s=size / (seen.last_end_s - due_s),
        grown_bytes=max(peak - base for peak, base in zip(most, memory, strict=True)),
        changes=where.term() - term + where.absences() - absences,
        repeated=received.calls - before.calls - size,
    )


def _ended(where: Running, due_s: int) -> int:
    return recorded(where.state, due_s).number


def _line(prefix: str, due_s: int, target: str) -> load.Line:
    """Payloads that cannot be compressed."""

    def line(number: int) -> str:
        chance = random.Random(number)
        payload = base64.b64encode(chance.randbytes(PAYLOAD_BYTES * 3 // 4)).decode()
        return (
            f'{{"id":"{prefix}/{number:06d}","cron":"@at {due_s}","target":{target},"payload":"{payload}"}}'
        )

    return line
