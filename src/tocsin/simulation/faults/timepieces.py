"""Clocks that run away, jump and stop."""

from __future__ import annotations

import asyncio
from typing import Any

from tocsin.simulation.faults.processes import chosen, come_up, go_down
from tocsin.simulation.world import World

DOWN_S = 1.0
HEARD_S = 8.0
"""By then a replica that was started has heard what the others say of its clock."""
SETTLED_S = 10.0


async def step(world: World, what: dict[str, Any]) -> None:
    """Somebody sets a clock wrongly; after a while it is set right."""
    machine = chosen(world, what["who"])
    world.fault("clock", f"the clock of {machine.name} steps by {what['by_s']} s", machine.name)
    machine.clock.step(what["by_s"] * 1000)
    await asyncio.sleep(what["for_s"])
    machine.clock.set_right()
    world.fault("clock", f"the clock of {machine.name} is set right", machine.name)


async def far_step(world: World, what: dict[str, Any]) -> None:
    """Somebody sets some clocks or all of them wrongly by weeks, as a bad time server would; after a while they are set
    right."""
    machines = [world.machines[name] for name in what["machines"]]
    for machine in machines:
        world.fault("far clock", f"the clock of {machine.name} steps by {what['by_s']} s", machine.name)
        machine.clock.step(what["by_s"] * 1000)
    await asyncio.sleep(what["for_s"])
    for machine in machines:
        machine.clock.set_right()
        world.fault("clock", f"the clock of {machine.name} is set right", machine.name)


async def wrong_start(world: World, what: dict[str, Any]) -> None:
    """Some machines, but not all, are started again with a clock that is days ahead. Then their processes are
    restarted, and the machine that is right stands still for a moment. What its clock has told them must not be
    forgotten by either. Nothing else is broken meanwhile: the right clock has to be heard once."""
    machines = [world.machines[name] for name in what["machines"]]
    if not machines or not await _all_are_steady(world):
        world.tell("no machine is started with a wrong clock: something else is broken")
        return
    world.undisturbed.clear()
    for machine in machines:
        world.fault("clock at start", f"{machine.name} is started {what['by_s']} s ahead", machine.name)
        go_down(world, machine)
        machine.clock.step(what["by_s"] * 1000)
        await asyncio.sleep(DOWN_S)
        come_up(world, machine)
        await asyncio.sleep(HEARD_S)
    for machine in machines:
        machine.crash()
        await asyncio.sleep(DOWN_S)
        machine.start()
        await asyncio.sleep(HEARD_S)
    right = [machine.process for machine in world.machines.values() if machine not in machines]
    for process in right:
        if process is not None:
            process.pause()
    await asyncio.sleep(what["for_s"])
    for process in right:
        if process is not None:
            process.resume(world.loop)
    await asyncio.sleep(HEARD_S)
    for machine in machines:
        machine.clock.set_right()
        world.fault("clock", f"the clock of {machine.name} is set right", machine.name)
    world.undisturbed.set()


async def _all_are_steady(world: World) -> bool:
    """Does nothing else go wrong, and is every clock believed by the other replicas?"""
    for _ in range(int(SETTLED_S)):
        replicas = [machine.replica for machine in world.machines.values()]
        are_steady = all(each is not None and each.clock.state == "steady" for each in replicas)
        if world.troubles == 1 and are_steady and world.leader() is not None:
            return True
        await asyncio.sleep(1.0)
    return False


async def stopped(world: World, what: dict[str, Any]) -> None:
    machine = chosen(world, what["who"])
    world.fault("clock", f"the clock of {machine.name} stands still for {what['for_s']} s", machine.name)
    machine.clock.stop()
    await asyncio.sleep(what["for_s"])
    machine.clock.go_on()
    await asyncio.sleep(1.0)
    machine.clock.set_right()
    world.fault("clock", f"the clock of {machine.name} is set right", machine.name)


async def drift(world: World, what: dict[str, Any]) -> None:
    """Durations are measured too short or too long, within what the office allows for."""
    machine = chosen(world, what["who"])
    rate = machine.clock.rate
    world.fault("drift", f"the clock of {machine.name} runs at {what['rate']}", machine.name)
    machine.clock.run_at(what["rate"])
    await asyncio.sleep(what["for_s"])
    machine.clock.run_at(rate)
