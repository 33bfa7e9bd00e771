"""The network between replicas fails: both ways, or one. The receivers can be reached all the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.cluster import Replica
from tests.cluster.network import Direction, Network, network
from tests.cluster.places import Place
from tests.cluster.trial import Trial, close, trial_of
from tests.cluster.waiting import let_pass, until

_LONGER_THAN_OFFICE_S = 5.0
CUTS: list[Direction] = ["both", "in", "out"]


@pytest.fixture(scope="module")
def wires() -> Iterator[Network]:
    with network("abc") as built:
        yield built


@pytest.fixture(scope="module")
def apart(wires: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A cluster whose replicas have a network between them."""
    switch = Place(wires.switch_host, 0, 0, wires.switch)
    one = trial_of(tmp_path_factory.mktemp("network"), wires.places, switch)
    try:
        one.cluster.start()
        one.load.start()
        yield one
    finally:
        close(one)


@pytest.fixture(autouse=True)
def _healed(wires: Network) -> Iterator[None]:
    yield
    for name in wires.places:
        wires.heal(name)


def _follows(replica: Replica, term: int) -> bool:
    status = replica.ask("/v1/status")
    return status is not None and status["term"] > term and status["leader"] != replica.name


@pytest.mark.parametrize("direction", CUTS)
def a_leader_that_is_cut_off_is_replaced_and_does_not_call(
    apart: Trial, wires: Network, direction: Direction
) -> None:
    leader = apart.begin()
    term = apart.term()
    wires.cut(leader.name, direction)
    apart.until_launches_of_a_newer_term(term)
    called = len([call for call in apart.load.calls if call.term <= term])
    let_pass(_LONGER_THAN_OFFICE_S)
    assert len([call for call in apart.load.calls if call.term <= term]) == called
    wires.heal(leader.name)
    until(lambda: _follows(leader, term), f"{leader.name} to follow", 30)
    apart.spotless()


def a_follower_that_is_cut_off_is_not_missed_and_catches_up(apart: Trial, wires: Network) -> None:
    """One whose etcd does not lead the others: without that one nothing can be written until they have elected another,
    which may cost the leader its office."""
    leader = apart.begin()
    etcd_leader = apart.cluster.etcd_leader()
    follower = next(replica for replica in apart.cluster.followers() if replica is not etcd_leader)
    wires.cut(follower.name)
    let_pass(_LONGER_THAN_OFFICE_S)
    apart.load.go_on(40)
    assert apart.cluster.leader() is leader
    wires.heal(follower.name)
    apart.spotless()
