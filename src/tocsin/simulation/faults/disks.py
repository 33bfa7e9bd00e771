"""Disks that are slow, damaged, lost and put back from a copy."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tocsin.errors import TocsinError
from tocsin.model.command import MakeCheckpoint
from tocsin.simulation.faults.processes import WEDGED, chosen
from tocsin.simulation.faults.ways import cut_off
from tocsin.simulation.machine import Machine
from tocsin.simulation.network import JOURNAL
from tocsin.simulation.world import World
from tocsin.state import snapshot


async def slow(world: World, what: dict[str, Any]) -> None:
    machine = chosen(world, what["who"])
    process = machine.process
    chance = world.chance.of("slow disk")
    world.fault("disk", f"the disk of {machine.name} is slow for {what['for_s']} s", machine.name)
    if process is not None:
        process.slow_s = lambda: 0.4 * chance.random() ** 3
        await asyncio.sleep(what["for_s"])
        process.slow_s = None


async def hanging(world: World, what: dict[str, Any]) -> None:
    """Nothing that waits for the disk comes back: neither the state nor the probe."""
    machine = chosen(world, what["who"])
    replica = machine.replica
    world.fault(WEDGED, f"the disk of {machine.name} hangs for {what['for_s']} s", machine.name)
    if replica is not None and replica._parts is not None:
        for executor in (replica._writer, replica.parts.presence.disk):
            world.loop.occupy(executor, what["for_s"])
        await asyncio.sleep(what["for_s"])


async def lose(world: World, what: dict[str, Any]) -> None:
    """One disk: the others have everything. A majority: the journal goes on from what is left of it. All: from the
    newest backup, if there is one."""
    lost = [world.machines[name] for name in what["lost"]]
    if what["snapshot_first"]:
        await checkpoint(world)
        await asyncio.sleep(1.0)
    if any(machine.is_barred for machine in world.machines.values()):
        world.tell("no further disk is lost: not everybody is back from the last loss")
        return
    world.fault("lost disks", f"{', '.join(what['lost'])} for {what['for_s']} s", "")
    is_majority = 2 * len(lost) > len(world.machines)
    down = list(world.machines.values()) if is_majority else lost
    for machine in down:
        machine.crash()
    for machine in lost:
        machine.lose_disk()
        machine.is_barred = True
        world.quorum.up[machine.name] = False
    left = world.quorum.lose(what["lost"])
    await asyncio.sleep(what["for_s"])
    survivors = [machine for machine in down if machine not in lost]
    if left is not None and survivors:
        world.tell(f"{survivors[0].name} goes on with what is left of the journal, up to {left}")
        survivors[0].losses.are_to_be_noted = True
    for machine in lost:
        world.quorum.up[machine.name] = True
    world.quorum.recover()
    if left is not None and survivors:
        await _note_the_loss(world, survivors[0])
    for machine in [*survivors, *lost]:
        machine.is_barred = False
        machine.start()
        await asyncio.sleep(0.2)


async def _note_the_loss(world: World, survivor: Machine) -> None:
    """Whoever goes on from what is left does so alone: others are let in only when the journal has heard of it. It
    keeps the journal itself, so nothing can cut it off from it."""
    for _ in range(600):
        if not survivor.losses.are_to_be_noted:
            return
        world.quorum.lagging.discard(survivor.name)
        world.network.way(survivor.name, JOURNAL).clear()
        world.network.way(JOURNAL, survivor.name).clear()
        world.network.changed()
        survivor.start()
        await asyncio.sleep(0.1)


async def put_back(world: World, what: dict[str, Any]) -> None:
    """An operator copies a disk while its process runs, and later puts the copy in its place. The journal is not on it,
    and the machine stays up: commands go on, of which the copy knows nothing."""
    machine = chosen(world, what["who"])
    copy = machine.copy_disk()
    world.fault(
        "disk", f"the disk of {machine.name} is copied, and put back after {what['for_s']} s", machine.name
    )
    await asyncio.sleep(what["for_s"])
    if machine.disks != copy.disk:
        world.tell(f"the copy is not put back: {machine.name} has lost its disk since")
        return
    machine.crash()
    machine.put_back(copy)
    machine.start()


async def damaged_snapshot(world: World, what: dict[str, Any]) -> None:
    """The newest snapshot of a disk is cut short, and the state that it would stand for is gone too."""
    machine = chosen(world, what["who"])
    await checkpoint(world)
    await asyncio.sleep(1.0)
    machine.crash()
    folder = machine.data / "snapshots"
    found = snapshot.manifests(folder)
    world.fault("disk", f"the newest of {len(found)} snapshots of {machine.name} is cut short", machine.name)
    if found:
        path = snapshot.data_of(folder, found[0].seq)
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            file.truncate(found[0].size // 2)
    _remove_state(machine.data)
    await asyncio.sleep(what["for_s"])
    machine.start()


async def lost_state(world: World, what: dict[str, Any]) -> None:
    """The state file alone: snapshots and journal add up to it."""
    machine = chosen(world, what["who"])
    machine.crash()
    world.fault("disk", f"the state of {machine.name} is gone", machine.name)
    _remove_state(machine.data)
    await asyncio.sleep(what["for_s"])
    machine.start()


async def left_behind(world: World, what: dict[str, Any]) -> None:
    """One is cut off while the others make snapshots and trim the journal: it has to catch up from a snapshot."""
    cutting = asyncio.ensure_future(cut_off(world, {**what, "who": "follower"}))
    for _ in range(3):
        await asyncio.sleep(what["for_s"] / 4)
        await checkpoint(world)
    await cutting


async def checkpoint(world: World) -> None:
    """Everybody who can makes a snapshot."""
    leader = world.leader()
    if leader is None or leader.process is None or leader.replica is None:
        return
    replica = leader.replica

    async def ask() -> None:
        with contextlib.suppress(TocsinError):
            await replica.propose(MakeCheckpoint())

    asked = world.loop.spawn(leader.process, ask(), "checkpoint")
    await asyncio.wait([asked], timeout=5.0)


def _remove_state(data: Any) -> None:
    for path in sorted(data.glob("state.db*")):
        path.unlink(missing_ok=True)
