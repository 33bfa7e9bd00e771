"""How many hours of three replicas are simulated in a minute of one core, with and without faults and leaps."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

from tocsin.simulation import leap
from tocsin.simulation.plan import make_plan
from tocsin.simulation.run import simulate

HOURS = 200.0
LIVED_THROUGH_HOURS = 0.2
SEED = 7


def report() -> dict[str, Any]:
    """Printed, and returned for ``--json``."""
    faulty = _pace(HOURS, None)
    healthy = _pace(HOURS, ())
    with patch.object(leap, "leap", lambda world: None):
        lived = _pace(LIVED_THROUGH_HOURS, ())
    print(f"simulation, seed {SEED}, three replicas       hours a minute of one core")
    print(f"  under all faults                          {faulty:10,.0f}")
    print(f"  without faults                            {healthy:10,.0f}")
    print(f"  without faults, without leaps             {lived:10,.1f}   {faulty / lived:,.0f} times fewer\n")
    return {"faulty": faulty, "healthy": healthy, "lived": lived}


def _pace(hours: float, faults: tuple[str, ...] | None) -> float:
    plan = make_plan(SEED, hours) if faults is None else make_plan(SEED, hours, faults=faults)
    began_s = time.process_time()
    outcome = simulate(plan)
    assert outcome.is_well, outcome.verdicts
    return outcome.hours / (time.process_time() - began_s) * 60
