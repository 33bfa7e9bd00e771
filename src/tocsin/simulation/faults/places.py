"""Receivers that fail, hang, are not there, and lie."""

from __future__ import annotations

import asyncio
from typing import Any

from tocsin.simulation.faults.processes import chosen
from tocsin.simulation.world import World


async def bad(world: World, what: dict[str, Any]) -> None:
    """Those that were steady are not."""
    world.fault("target", f"receivers are {what['manner']} for {what['for_s']} s", "")
    world.receivers.trouble["steady"] = what["manner"]
    await asyncio.sleep(what["for_s"])
    world.receivers.trouble.clear()


async def down(world: World, what: dict[str, Any]) -> None:
    world.fault("target", f"{what['which']} receivers are down for {what['for_s']} s", "")
    world.receivers.set_down(what["which"], True)
    await asyncio.sleep(what["for_s"])
    world.receivers.set_down(what["which"], False)


async def lies(world: World, what: dict[str, Any]) -> None:
    """A machine's record of its commands is not to be trusted."""
    machine = chosen(world, what["who"])
    world.fault("target", f"{machine.name} lies about its commands for {what['for_s']} s", machine.name)
    machine.workshop.lies = 0.5
    await asyncio.sleep(what["for_s"])
    machine.workshop.lies = 0.0
