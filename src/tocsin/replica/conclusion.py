"""What the last leader left open is concluded before anything new is scheduled.

==================================  ============================================================
the target                          what is done
==================================  ============================================================
idempotent by name                  launched again under the same name
looks up by name, refuses a second  adopted if it is there, launched only if it is certainly not
neither                             unknown: the owner's ``on_doubt`` decides
==================================  ============================================================

It costs in proportion to open launches, not to schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tocsin.observe.metrics import Metrics
from tocsin.replica.flight import Flight
from tocsin.replica.launcher import Launcher
from tocsin.targets.contract import Outcome, Verdict

log = structlog.get_logger()
_LOST = Outcome(
    Verdict.UNKNOWN, reason="the leader ended during the call: it cannot be known whether it went out"
)


async def conclude(flights: Sequence[Flight], launcher: Launcher, metrics: Metrics) -> dict[str, int]:
    """Take care of every open launch. Returns how many were treated how."""
    counts: dict[str, int] = {}
    for flight in flights:
        how = await _conclude_one(flight, launcher)
        counts[how] = counts.get(how, 0) + 1
        metrics.concluded.labels(how).inc()
    if counts:
        log.info("concluded what was left open", **counts)
    return counts


async def _conclude_one(flight: Flight, launcher: Launcher) -> str:
    target = launcher.target(flight.kind)
    if target.looks_up:
        return _adopt(flight, await target.lookup(flight.order), launcher)
    if flight.cancel is None and target.idempotent(flight.order.target):
        launcher.hand_over([flight], doubtful=True)
        return "repeated"
    launcher.report(flight, _LOST)
    return "unknown"


def _adopt(flight: Flight, found: Outcome | None, launcher: Launcher) -> str:
    if found is None:
        launcher.hand_over([flight])
        return "launched"
    if found.verdict is Verdict.ACCEPTED:
        launcher.adopt(flight)
        return "adopted"
    launcher.report(flight, found)
    return "unknown" if found.verdict is Verdict.UNKNOWN else "found"
