"""A whole world: the same for the same seed, and the same with leaps as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.simulation import leap, run
from tocsin.simulation.plan import make_plan, read_plan
from tocsin.simulation.run import Outcome, simulate

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


def the_same_seed_gives_the_same_trace() -> None:
    one, other = simulate(make_plan(5, 0.5)), simulate(make_plan(5, 0.5))
    assert [str(line) for line in one.trace.lines] == [str(line) for line in other.trace.lines]
    assert one.trace.digest() == other.trace.digest()
    assert len(one.history.faults) > 3
    assert simulate(make_plan(6, 0.5)).trace.digest() != one.trace.digest()


def a_world_that_leaps_launches_what_one_that_lives_through_it_all_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan(11, 0.6, faults=("edits",))
    leaping = simulate(plan)
    monkeypatch.setattr(leap, "leap", lambda world: None)
    monkeypatch.setattr(run.leap, "leap", lambda world: None)
    living = simulate(plan)
    assert _launched(leaping) == _launched(living)
    told, lived = _called(leaping), _called(living)
    assert told.keys() == lived.keys()
    assert max(abs(told[key] - lived[key]) for key in told) < 500, "each at the same moment, or nearly so"
    assert len(leaping.history.landed) <= len(living.history.landed)
    assert leaping.verdicts == living.verdicts == []


def _called(outcome: Outcome) -> dict[tuple[str, int], float]:
    return {(call.name, call.attempt): call.at_ms for call in outcome.history.calls}


def _launched(outcome: Outcome) -> list[tuple[str, int, str]]:
    final = outcome.history.final()
    assert final is not None
    return sorted((row.name, row.attempt, row.state) for row in final.launches)


@pytest.mark.parametrize("replicas", [1, 5])
def a_cluster_of_another_size_keeps_the_claims_too(replicas: int) -> None:
    outcome = simulate(make_plan(3, 0.5, replicas))
    assert [str(verdict.finding.text) for verdict in outcome.verdicts] == []


@pytest.mark.parametrize("plan", FOUND, ids=[path.stem for path in FOUND])
def what_the_simulation_once_found_does_not_come_back(plan: Path) -> None:
    """Each file is the shortest plan that showed a fault, named after what holds since it was mended."""
    outcome = simulate(read_plan(plan))
    assert [verdict.finding.text for verdict in outcome.verdicts] == []
