"""A leader of which a part stands still, while the thread that renews its lease goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cluster import wedging
from tests.cluster.places import on_loopback
from tests.cluster.trial import Trial, close, trial_of
from tests.cluster.waiting import let_pass

_NOTICED_S = 12.0
"""5 s until a wedge is noticed, the rest of the lease, an election, and the next launch."""
_AFTER_S = 3.0


class Wedged(NamedTuple):
    trial: Trial
    folders: dict[str, Path]
    """By replica: where a file says what is to stand still there."""


@pytest.fixture(scope="module")
def wedged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wedged]:
    folder = tmp_path_factory.mktemp("wedged")
    trial = trial_of(folder, on_loopback("abc"))
    folders = {}
    for replica in trial.cluster:
        found = folders[replica.name] = folder / f"wedges-{replica.name}"
        found.mkdir()
        replica.module = wedging.__name__
        replica.environment = {wedging.VARIABLE: str(found)}
    try:
        trial.cluster.start()
        trial.load.start()
        yield Wedged(trial, folders)
    finally:
        close(trial)


@pytest.mark.parametrize("what", wedging.WEDGES)
def a_leader_that_is_wedged_is_followed_and_calls_nothing_when_it_wakes(what: str, wedged: Wedged) -> None:
    trial = wedged.trial
    leader, term = trial.begin(), trial.term()
    wedge = wedged.folders[leader.name] / what
    wedge.touch()
    try:
        trial.until_launches_of_a_newer_term(term, _NOTICED_S)
        let_pass(_AFTER_S)  # the lease of the former one is over in any case
        called = {call for call in trial.load.calls if call.term <= term}
    finally:
        wedge.unlink()
    trial.load.go_on(40)
    trial.cluster.until_healthy()
    late = [call for call in trial.load.calls if call.term <= term and call not in called]
    assert late == [], "calls of a term that was over"
    trial.spotless()


def a_loop_that_is_busy_for_seconds_keeps_its_lease_and_was_not_absent(
    wedged: Wedged,
) -> None:
    trial = wedged.trial
    leader, term = trial.begin(), trial.term()
    for _ in range(2):
        wedge = wedged.folders[leader.name] / "loop"
        wedge.touch()
        let_pass(3.0)
        wedge.unlink()
        trial.load.go_on(20)
    assert trial.cluster.until_healthy() is leader
    assert trial.term() == term, "the lease was lost"
    assert "nobody was able to act" not in leader.log()
    trial.spotless()
