"""Messages that get lost, come late, and overtake each other."""

from __future__ import annotations

import asyncio
from typing import Any

from tocsin.simulation.faults.processes import chosen
from tocsin.simulation.network import JOURNAL, Weather
from tocsin.simulation.world import World


async def cut_off(world: World, what: dict[str, Any]) -> None:
    """A machine neither hears nor is heard, and its part of the journal falls behind."""
    machine = chosen(world, what["who"])
    name = machine.name
    world.fault("partition", f"{name} is cut off for {what['for_s']} s", name)
    ways = [*_ways(world, name, "both"), *_ways(world, name, "to others"), *_ways(world, name, "from others")]
    for way in ways:
        way.is_cut = True
    world.quorum.lagging.add(name)
    await asyncio.sleep(what["for_s"])
    world.quorum.lagging.discard(name)
    world.quorum.spread()
    _clear(world, ways)


async def cut_one_way(world: World, what: dict[str, Any]) -> None:
    machine = chosen(world, what["who"])
    world.fault("partition", f"{machine.name}: {what['way']} is cut for {what['for_s']} s", machine.name)
    ways = _ways(world, machine.name, what["way"])
    for way in ways:
        way.is_cut = True
    await asyncio.sleep(what["for_s"])
    _clear(world, ways)


async def bad_weather(world: World, what: dict[str, Any]) -> None:
    """Some messages are lost, others late; they overtake each other."""
    machine = chosen(world, what["who"])
    facts = {key: what[key] for key in ("lost", "late", "late_s", "slow_s")}
    world.fault("weather", f"{machine.name}: {what['way']} {facts} for {what['for_s']} s", machine.name)
    ways = _ways(world, machine.name, what["way"])
    for way in ways:
        way.lost, way.late, way.late_s, way.slow_s = facts.values()
    await asyncio.sleep(what["for_s"])
    _clear(world, ways)


async def lost_answers(world: World, what: dict[str, Any]) -> None:
    """What is written is written, and its author never hears of it."""
    machine = chosen(world, what["who"])
    world.fault("acks", f"{machine.name} gets no answers for {what['for_s']} s", machine.name)
    ways = _ways(world, machine.name, "from journal")
    for way in ways:
        way.lost = 1.0
    await asyncio.sleep(what["for_s"])
    _clear(world, ways)


async def late_entries(world: World, what: dict[str, Any]) -> None:
    """What is sent to the journal arrives up to minutes later."""
    machine = chosen(world, what["who"])
    world.fault("acks", f"what {machine.name} writes comes late, for {what['for_s']} s", machine.name)
    ways = _ways(world, machine.name, "to journal")
    for way in ways:
        way.late, way.late_s = 0.7, 200.0
    await asyncio.sleep(what["for_s"])
    _clear(world, ways)


async def no_room(world: World, what: dict[str, Any]) -> None:
    world.fault("acks", f"the journal has no room for {what['for_s']} s", "")
    world.quorum.is_full = True
    await asyncio.sleep(what["for_s"])
    world.quorum.is_full = False


def _ways(world: World, name: str, which: str) -> list[Weather]:
    others = [other for other in world.machines if other != name]
    network = world.network
    match which:
        case "to journal":
            return [network.way(name, JOURNAL)]
        case "from journal":
            return [network.way(JOURNAL, name)]
        case "to others":
            return [network.way(name, other) for other in others]
        case "from others":
            return [network.way(other, name) for other in others]
        case _:
            return [network.way(name, JOURNAL), network.way(JOURNAL, name)]


def _clear(world: World, ways: list[Weather]) -> None:
    for way in ways:
        way.clear()
    world.network.changed()
