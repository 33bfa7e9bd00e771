"""A herd through a running service: put in place, waited for, and read back from what the service recorded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import uvloop

from bench import load
from bench.measure import peak_bytes, resident_bytes
from bench.service import Running, recorded, succeeded

PROBE = 5_000
"""So many are imported first, to learn how long all of them will take."""
PATIENCE_S = 900.0


@dataclass
class Drained:
    """What became of a herd."""

    count: int
    import_s: float
    drain_s: float
    """From the second that all were due at to the last end in the record. An end bears the time of the turn that wrote
    it, so it was durable one append later."""
    seen_s: float
    """The same, to the moment when somebody who asks every 0.1 s saw that all had ended: never too short."""
    started_s: float
    """The same, to the last start."""
    api: dict[str, Any] = field(default_factory=dict)
    api_p99_ms: float = 0.0
    grown_bytes: int = 0
    peak_bytes: int = 0
    terms: tuple[int, int] = (0, 0)
    absences: float = 0.0

    @property
    def per_s(self) -> float:
        return self.count / self.drain_s

    def told(self) -> dict[str, Any]:
        return {**vars(self), "per_s": self.per_s}


class TooSoon(Exception):
    """It was due before all of it was in place."""


def drain(
    where: Running,
    count: int,
    *,
    prefix: str = "herd",
    target: str = '{"kind":"null"}',
    recurring: bool = False,
    asking_per_s: float = 50,
    payload: str = "",
) -> Drained:
    """All due at the same second, to the last journalled end, with questions asked meanwhile."""
    line = load.daily if recurring else load.once
    later_s = int(time.time()) + 30 * 86_400
    first = [line(f"{prefix}-first/{at}", later_s, target, payload) for at in (0, 1)]
    probe_s = min(load.import_over_http(where.url, each, PROBE) for each in first)
    patience = 1.3
    for attempt in range(3):
        due_s = int(time.time() + 3 + patience * probe_s * count / PROBE) + 1
        made = line(f"{prefix}/{attempt}", due_s, target, payload)
        import_s = load.import_over_http(where.url, made, count)
        if time.time() < due_s - 0.5:
            return uvloop.run(_watch(where, count, due_s, import_s, target, asking_per_s))
        probe_s, patience = import_s * PROBE / count, 1.6
    raise TooSoon(f"{count} schedules could not be put in place in time, three times over")


async def _watch(
    where: Running, count: int, due_s: int, import_s: float, target: str, asking_per_s: float
) -> Drained:
    kind = target.partition('"kind":"')[2].partition('"')[0]
    begun = succeeded(where.url, kind)
    term, absences, memory = where.term(), where.absences(), resident_bytes(where.pid)
    asking, over = load.Asking(where.url, asking_per_s), asyncio.Event()
    if asking_per_s:
        await asking.prepare()
    await asyncio.sleep(max(0.0, due_s - time.time() - 0.3))
    questions = asyncio.create_task(asking.until(over)) if asking_per_s else None
    most = memory
    while await asyncio.to_thread(succeeded, where.url, kind) - begun < count:
        most = max(most, resident_bytes(where.pid))
        if time.time() > due_s + PATIENCE_S:
            raise TimeoutError(f"the herd of {count} was not over within {PATIENCE_S:.0f} s")
        await asyncio.sleep(0.1)
    seen_s = time.time() - due_s
    over.set()
    if questions is not None:
        await questions
    seen = recorded(where.state, due_s)
    if seen.number != count:
        raise RuntimeError(f"{seen.number} of {count} launches are on record as succeeded")
    return Drained(
        count=count,
        import_s=import_s,
        drain_s=seen.last_end_s - due_s,
        seen_s=seen_s,
        started_s=seen.last_start_s - due_s,
        api=asking.told(),
        api_p99_ms=asking.p99_ms(),
        grown_bytes=most - memory,
        peak_bytes=peak_bytes(where.pid),
        terms=(term, where.term()),
        absences=where.absences() - absences,
    )
