"""One plan, played from beginning to end in a world of its own, and judged."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tocsin.simulation import clients, leap, replay
from tocsin.simulation.checkers import ALL
from tocsin.simulation.checkers.contract import Finding
from tocsin.simulation.faults import FAULTS, break_something
from tocsin.simulation.finals import final, with_deleted
from tocsin.simulation.history import History
from tocsin.simulation.plan import Action, Plan
from tocsin.simulation.trace import Trace, listening
from tocsin.simulation.virtual import Deadlock, Livelock, VirtualLoop, virtual
from tocsin.simulation.world import AHEAD_MS, World

CALM_S = 240.0
"""After the last trouble: time to catch up."""
MENDING_S = 330.0
"""So long after the last action nothing is broken any more, however long it was to last."""
SWEEP_EVERY = 1_000_000
_MEMORY = Path("/dev/shm")
"""Where there is a disk that is none: nothing of a world is to be kept."""


class Verdict(msgspec.Struct, frozen=True):
    """A claim that was not kept."""

    checker: str
    claim: str
    finding: Finding


class Outcome(msgspec.Struct):
    """How it went."""

    plan: Plan
    verdicts: list[Verdict]
    history: History
    trace: Trace
    hours: float
    seconds: float
    """Of real time."""

    @property
    def is_well(self) -> bool:
        return not self.verdicts


Progress = Callable[[float], None]
"""Told how many simulated hours have gone by."""


def simulate(plan: Plan, progress: Progress | None = None) -> Outcome:
    """The same plan gives the same outcome."""
    began_s = time.perf_counter()
    kept = str(_MEMORY) if _MEMORY.is_dir() else None
    was_enabled = gc.isenabled()
    gc.disable()  # when memory is swept must not depend on what else this process does
    try:
        with tempfile.TemporaryDirectory(prefix="tocsin-sim-", dir=kept) as folder, virtual() as loop:
            world = World(
                loop,
                Path(folder),
                f"world {plan.seed}",
                plan.epoch_s * 1000.0,
                plan.replicas,
                plan.snapshot_interval_s,
                replay.load(Path(plan.replay)) if plan.replay else None,
            )
            loop.idle = lambda: leap.leap(world)
            with listening(world.trace):
                verdicts = _play(world, plan, loop, progress)
                for machine in world.machines.values():
                    machine.crash()
            world.trace.close()
            hours = loop.time() / 3600
    finally:
        gc.collect()
        if was_enabled:
            gc.enable()
    if not verdicts:
        verdicts = [
            Verdict(checker.name, checker.claim, finding)
            for checker in ALL
            for finding in checker.check(world.history)
        ]
    return Outcome(plan, verdicts, world.history, world.trace, hours, time.perf_counter() - began_s)


def _play(world: World, plan: Plan, loop: VirtualLoop, progress: Progress | None) -> list[Verdict]:
    try:
        loop.run_until_complete(loop.spawn(None, _story(world, plan, progress), "story"))
    except (Deadlock, Livelock) as stuck:
        name = type(stuck).__name__.lower()
        return [Verdict(name, "somebody is always able to go on", Finding(world.now_ms(), str(stuck)))]
    return []


async def _story(world: World, plan: Plan, progress: Progress | None) -> None:
    history = world.history
    history.clock_error_ms = AHEAD_MS
    for machine in world.machines.values():
        machine.start()
    acting: list[asyncio.Task[None]] = []
    for action in plan.actions:
        await _until(world, action.at_s, progress)
        acting.append(asyncio.ensure_future(_act(world, action)))
        acting = [task for task in acting if not task.done() or task.result()]
    await _until(world, plan.hours * 3600, progress)
    if acting:
        await asyncio.wait(acting, timeout=MENDING_S)
    mend(world)
    history.calm_ms = world.now_ms()
    world.tell("CALM")
    await asyncio.sleep(CALM_S)
    history.ended_ms = world.now_ms()
    for name, machine in world.machines.items():
        replica = machine.replica
        if replica is not None and replica._parts is not None:
            found = with_deleted(final(replica._store), history.deleted.values())
            history.finals[name] = found if world.start is None else world.start.since(found)


async def _until(world: World, at_s: float, progress: Progress | None) -> None:
    """Now and then somebody is told how far it has come, and memory is swept."""
    while (left_s := at_s - world.loop.time()) > 0:
        await asyncio.sleep(min(left_s, 6 * 3600.0))
        if world.loop.steps - world.swept_at > SWEEP_EVERY:
            world.swept_at = world.loop.steps
            gc.collect()
        if progress is not None:
            progress(world.loop.time() / 3600)


async def _act(world: World, action: Action) -> None:
    if action.kind in FAULTS:
        await break_something(world, action.kind, action.what)
    else:
        await clients.ask(world, action.kind, action.what)


def mend(world: World) -> None:
    """Whatever is still broken."""
    world.network.clear()
    world.receivers.trouble.clear()
    world.receivers.set_down("all", False)
    world.quorum.is_full = False
    world.quorum.lagging.clear()
    for name in world.quorum.up:
        world.quorum.up[name] = True
    world.quorum.recover()
    world.before_a_call = None
    world.quorum.presence_late_s.clear()
    for machine in world.machines.values():
        machine.clock.set_right()
        machine.is_barred = False
        machine.workshop.lies = 0.0
        if machine.process is not None:
            machine.process.slow_s = None
            machine.process.resume(world.loop)
        machine.start()
