"""A stand-by tells a leader that doubts its clock that its own is right, where neither can ask the other."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from tests.replica.ledger import Handle, Ledger, Presences

from tocsin.clock import SystemClock
from tocsin.decide.clock import AGREE_MS
from tocsin.journal.contract import SeenPresence
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.clock_witness import ClockWitness
from tocsin.replica.liveness import Liveness
from tocsin.replica.office import ElectedOffice

TERM = 1
FAR_MS = 3_600_000


class _Clock(SystemClock):
    step_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.step_ms


class _Replica(NamedTuple):
    witness: ClockWitness
    office: ElectedOffice
    guard: ClockGuard
    clock: _Clock


def _replica(name: str, ledger: Ledger) -> _Replica:
    clock = _Clock()
    guard = ClockGuard(clock)
    guard.begin(0)
    office = ElectedOffice(guard, name)
    witness = ClockWitness(name, Presences(Handle(ledger)), office, Liveness(guard), guard, lambda: 1)
    return _Replica(witness, office, guard, clock)


def _leading(ledger: Ledger, name: str = "b") -> _Replica:
    """By a clock that is an hour ahead of the time that it believes."""
    leader = _replica(name, ledger)
    leader.clock.step_ms = FAR_MS
    leader.office.observed(leader.guard.elapsed_s(), term=0, is_vacant=True)
    leader.office.election(TERM, "")
    leader.office.renewed(leader.guard.elapsed_s())
    assert not leader.guard.is_believed
    return leader


def _hear(standby: _Replica, leader: _Replica, term: int = TERM) -> None:
    """Two records of the leader, one after the other."""
    for counter in (1, 2):
        presence = Presence(
            counter, leader.guard.wall_ms(), {GROUP: term}, is_clock_believed=leader.guard.is_believed
        )
        seen = [SeenPresence("b", counter, presence)]
        standby.office.observed_presence(seen, standby.guard.elapsed_s(), standby.guard.wall_ms())


async def _both(leader: _Replica, standby: _Replica, times: int = 3) -> bool:
    for _ in range(times):
        await standby.witness.once()
        await leader.witness.once()
    return leader.witness.is_another_right


@pytest.mark.parametrize(
    ("off_ms", "is_right"), [(0, True), (AGREE_MS - 1_000, True), (AGREE_MS + 1_000, False)]
)
def a_leader_in_doubt_is_told_of_a_stand_by_that_shows_the_time_it_counts_on(
    off_ms: int, is_right: bool
) -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        standby.clock.step_ms = off_ms
        _hear(standby, leader)
        assert await _both(leader, standby) is is_right

    asyncio.run(work())


def a_stand_by_that_is_not_there_any_more_is_not_counted_on() -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        _hear(standby, leader)
        await standby.witness.once()
        for _ in range(3):
            await leader.witness.once()
        assert not leader.witness.is_another_right

    asyncio.run(work())


def what_a_stand_by_said_of_another_term_does_not_count() -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        _hear(standby, leader, TERM + 1)
        assert not await _both(leader, standby)

    asyncio.run(work())


def a_stand_by_whose_own_clock_is_not_believed_says_nothing() -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        standby.clock.step_ms = FAR_MS
        _hear(standby, leader)
        await standby.witness.once()
        assert not ledger.present

    asyncio.run(work())


def a_stand_by_of_a_leader_that_believes_its_clock_writes_no_presence() -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        leader.clock.step_ms = 0
        _hear(standby, leader)
        await standby.witness.once()
        assert not ledger.present

    asyncio.run(work())


def a_leader_that_believes_its_clock_again_needs_nobody() -> None:
    async def work() -> None:
        ledger = Ledger()
        leader, standby = _leading(ledger), _replica("a", ledger)
        _hear(standby, leader)
        assert await _both(leader, standby)
        leader.clock.step_ms = 0
        await leader.witness.once()
        assert not leader.witness.is_another_right

    asyncio.run(work())
