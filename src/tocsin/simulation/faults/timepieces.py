"""Clocks that run away, jump and stop."""

from __future__ import annotations

import asyncio
from typing import Any

from tocsin.simulation.faults.processes import chosen
from tocsin.simulation.world import World


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
