"""Processes that are killed, paused, and restarted."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tocsin.errors import TocsinError
from tocsin.simulation.machine import Machine
from tocsin.simulation.virtual import Process
from tocsin.simulation.world import World

WEDGED = "wedge"


def chosen(world: World, who: str) -> Machine:
    """The machine that is meant, as things are at this moment."""
    leader = world.leader()
    machines = list(world.machines.values())
    if who == "leader":
        return leader or machines[0]
    if who == "follower":
        return next((m for m in machines if m is not leader and m.is_up), machines[-1])
    return world.machines[who]


async def crash(world: World, what: dict[str, Any]) -> None:
    """Killed at some step, wherever that is; started again after a while."""
    machine = chosen(world, what["who"])
    world.fault("crash", f"{machine.process} after {what['after_steps']} more steps", machine.name)
    process = machine.process
    if process is not None and what["after_steps"]:
        process.dies_at_step = process.steps + what["after_steps"]
        for _ in range(100):
            if process.is_dead:
                break
            await asyncio.sleep(0.05)
    if machine.process is process:
        machine.crash()
    await asyncio.sleep(what["for_s"])
    machine.start()


async def power(world: World, what: dict[str, Any]) -> None:
    """The whole machine goes down, with the part of the journal that it keeps and all commands that run there."""
    machine = chosen(world, what["who"])
    world.fault("power", f"machine {machine.name} goes down for {what['for_s']} s", machine.name)
    go_down(world, machine)
    await asyncio.sleep(what["for_s"])
    come_up(world, machine)


def go_down(world: World, machine: Machine) -> None:
    machine.crash()
    machine.workshop.lose_power()
    machine.boots += 1
    world.quorum.up[machine.name] = False


def come_up(world: World, machine: Machine) -> None:
    world.quorum.up[machine.name] = True
    world.quorum.spread()
    world.network.changed()
    machine.start()


async def pause(world: World, what: dict[str, Any]) -> None:
    machine = chosen(world, what["who"])
    process = machine.process
    world.fault("pause", f"{process} for {what['for_s']} s", machine.name)
    if process is not None:
        process.pause()
        await asyncio.sleep(what["for_s"])
        process.resume(world.loop)


async def wedged_loop(world: World, what: dict[str, Any]) -> None:
    """The event loop stands still, and the thread that writes presence goes on."""
    machine = chosen(world, what["who"])
    process = machine.process
    world.fault(WEDGED, f"the event loop of {process} stands still for {what['for_s']} s", machine.name)
    if process is not None:
        process.wedge()
        await asyncio.sleep(what["for_s"])
        process.resume(world.loop)


async def blocked_state(world: World, what: dict[str, Any]) -> None:
    """The one thread that may write the state does not come back."""
    machine = chosen(world, what["who"])
    replica = machine.replica
    world.fault(WEDGED, f"the state of {machine.name} is blocked for {what['for_s']} s", machine.name)
    if replica is not None:
        world.loop.occupy(replica._writer, what["for_s"])
        await asyncio.sleep(what["for_s"])


async def late_presence(world: World, what: dict[str, Any]) -> None:
    """Presence is lost or comes late; entries are as fast as ever."""
    machine = chosen(world, what["who"])
    chance = world.chance.of("late presence")
    world.fault("presence", f"the presence of {machine.name} comes late for {what['for_s']} s", machine.name)
    world.quorum.presence_late_s[machine.name] = lambda: (
        None if chance.random() < what["lost"] else what["late_s"] * chance.random()
    )
    await asyncio.sleep(what["for_s"])
    world.quorum.presence_late_s.pop(machine.name, None)


async def pause_before_a_call(world: World, what: dict[str, Any]) -> None:
    """Right between the last look at its authority and the call."""
    machine = chosen(world, what["who"])
    world.fault("pause", f"{machine.name} before its next call, for {what['for_s']} s", machine.name)
    hit: asyncio.Future[Process] = world.loop.create_future()

    def hold(process: Process) -> None:
        if process is machine.process and not hit.done():
            world.tell(f"{process} is paused right before a call")
            process.pause()
            hit.set_result(process)

    world.before_a_call = hold
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(25.0):
            process = await hit
            await asyncio.sleep(what["for_s"])
            process.resume(world.loop)
    if hit.done() and not hit.cancelled():
        hit.result().resume(world.loop)
    world.before_a_call = None


async def rolling_restart(world: World, what: dict[str, Any]) -> None:
    """One after the other is stopped in peace and started again, as for an upgrade."""
    world.fault("upgrade", "one after the other is restarted", "")
    for machine in list(world.machines.values()):
        process = machine.process
        if process is None or machine.replica is None:
            continue
        stopping = world.loop.spawn(process, machine.stop(), "stop")
        await asyncio.wait([stopping], timeout=25.0)
        if machine.process is process:
            machine.crash()
        await asyncio.sleep(what["for_s"])
        machine.start()
        await asyncio.sleep(2.0)


async def stop_all(world: World, what: dict[str, Any]) -> None:
    """Everybody is stopped in peace at once: nobody leads who could ask for the last answers. They are kept on disk."""
    world.fault("upgrade", f"all are stopped, for {what['for_s']} s", "")
    stopping = [
        world.loop.spawn(machine.process, machine.stop(), "stop")
        for machine in world.machines.values()
        if machine.process is not None and machine.replica is not None
    ]
    if stopping:
        await asyncio.wait(stopping, timeout=25.0)
    for machine in world.machines.values():
        machine.crash()
    await asyncio.sleep(what["for_s"])
    for machine in world.machines.values():
        machine.start()


async def step_down(world: World, what: dict[str, Any]) -> None:
    machine = world.leader()
    world.fault("upgrade", "the leader is asked to resign", "")
    if machine is not None and machine.process is not None and machine.replica is not None:
        asked = world.loop.spawn(machine.process, _step_down(machine), "step down")
        await asyncio.wait([asked], timeout=5.0)


async def _step_down(machine: Machine) -> None:
    if machine.replica is not None:
        with contextlib.suppress(TocsinError):
            await machine.replica.step_down()
