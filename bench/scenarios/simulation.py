"""How many hours of three replicas are simulated in a minute of one core, with and without faults and leaps."""

from __future__ import annotations

import time
from unittest.mock import patch

from bench.context import Context
from tocsin.simulation import leap
from tocsin.simulation.plan import make_plan
from tocsin.simulation.run import simulate

HOURS = 60.0
LIVED_THROUGH_HOURS = 0.2
SEED = 7
MEASURE = "simulation of three replicas"
UNIT = "hours a minute of one core"


def run(context: Context) -> None:
    add = context.report.add
    faulty = _pace(HOURS, None)
    add(MEASURE, "under all faults", faulty, UNIT)
    healthy = _pace(HOURS, ())
    add(MEASURE, "without faults", healthy, UNIT)
    with patch.object(leap, "leap", lambda world: None):
        lived = _pace(LIVED_THROUGH_HOURS, ())
    add(MEASURE, "without faults, without leaps", lived, UNIT, note=f"{faulty / lived:,.0f} times fewer")


def _pace(hours: float, faults: tuple[str, ...] | None) -> float:
    plan = make_plan(SEED, hours) if faults is None else make_plan(SEED, hours, faults=faults)
    began_s = time.process_time()
    outcome = simulate(plan)
    if not outcome.is_well:
        raise RuntimeError(f"the simulation found something: {outcome.verdicts[0]}")
    return outcome.hours / (time.process_time() - began_s) * 60
