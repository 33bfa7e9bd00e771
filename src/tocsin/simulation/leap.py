"""Over a quiet time in one leap.

Most of the time nothing happens but that the leader is heard again and again. Nobody needs to live through that:
when all is well and nothing is under way, time goes on at once to shortly before the next thing that will happen.
Whatever renews itself every few seconds is put where its renewals would have put it, and its timers go along; what
waits for longer waits as long as it would have.
"""

from __future__ import annotations

from asyncio import TimerHandle

from tocsin.simulation.machine import Machine, WatchedOffice
from tocsin.simulation.virtual import PROCESS
from tocsin.simulation.world import World
from tocsin.state import queries

BEFORE_S = 1.0
"""So long before the next thing happens all is lived through again: time to be heard."""
WORTH_S = 3.0
SOON_S = 0.05
SHORT_S = 70.0
"""What comes back within this time comes back again and again."""


def leap(world: World) -> None:
    """If there is a quiet time ahead."""
    leader = _quiet_leader(world)
    if leader is None:
        return
    loop = world.loop
    now_s = loop.time()
    next_s = min(
        _next_due_s(world, leader), _next_hold_end_s(world, leader), _next_checkpoint_s(world, leader)
    )
    for timer in loop.timers():
        if timer.when() - now_s < SOON_S:
            return  # somebody is in the middle of something
        if not _is_short(timer, now_s):
            next_s = min(next_s, timer.when())
    by_s = next_s - BEFORE_S - now_s
    if by_s < WORTH_S:
        return
    loop.leap(by_s, lambda timer: _is_short(timer, now_s))
    world.leapt_s += by_s
    for machine in world.machines.values():
        _pass(machine, by_s)


def _is_short(timer: TimerHandle, now_s: float) -> bool:
    context = timer._context  # type: ignore[attr-defined]  # why: a timer does not tell otherwise whose it is
    return timer.when() - now_s <= SHORT_S and context.get(PROCESS) is not None


def _quiet_leader(world: World) -> Machine | None:
    """Who leads, if all is well and nothing is under way."""
    if world.troubles or world.network.under_way or world.busy:
        return None
    found = None
    for machine in world.machines.values():
        replica = machine.replica
        if machine.process is None:
            continue
        if replica is None or replica._parts is None or machine.process.is_paused:
            return None
        if not replica.clock.is_believed:
            return None
        if any(target.is_calling for target in machine.targets or ()):
            return None
        if replica.meta.seq != world.quorum.last:
            return None
        if replica.is_leader:
            found = machine
    return found


def _next_due_s(world: World, leader: Machine) -> float:
    assert leader.replica is not None
    return _moment_s(world, leader, queries.next_wake_ms(leader.replica._store.db, 0))


def _next_hold_end_s(world: World, leader: Machine) -> float:
    """When a launch in doubt gives its place up to those that wait for it."""
    assert leader.replica is not None
    held = queries.held(leader.replica._store.db, leader.replica.clock.wall_ms())
    return _moment_s(world, leader, min((until_ms for _, until_ms in held), default=None))


def _moment_s(world: World, leader: Machine, wall_ms: int | None) -> float:
    if wall_ms is None:
        return float("inf")
    return world.loop.time() + (leader.clock.true_of_wall_ms(wall_ms) - world.now_ms()) / 1000


def _next_checkpoint_s(world: World, machine: Machine) -> float:
    assert machine.replica is not None
    leader = machine.replica.parts.career.any_leader
    if leader is None:
        return float("inf")
    at_ms = machine.clock.true_of_elapsed_ms(leader._vigil.checkpoint_due_s)
    return world.loop.time() + (at_ms - world.now_ms()) / 1000


def _pass(machine: Machine, by_s: float) -> None:
    """As if it had lived through it."""
    replica = machine.replica
    if replica is None:
        return
    local_s = by_s * machine.clock.rate
    replica.clock.passed()
    office = replica._setup.office
    assert isinstance(office, WatchedOffice)
    office.passed(local_s)
    replica.parts.liveness.iterated_s += local_s
    replica.parts.liveness.wrote_s += local_s
    replica.parts.liveness.judged_s += local_s
    leader = replica.parts.career.any_leader
    if leader is not None:
        leader._vigil._offset_ms = leader._vigil._offset()
