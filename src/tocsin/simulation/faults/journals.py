"""A journal whose engine is restored from an old copy, as an operator may do it to an etcd that is not ours."""

from __future__ import annotations

import asyncio
from typing import Any

from tocsin.simulation.history import PutBack
from tocsin.simulation.world import World

SEEN_S = 10.0
NOTICED_S = 15.0
"""So long the old copy stays in place: by then every replica that has seen more has stopped."""
AHEAD = 5


async def restored(world: World, what: dict[str, Any]) -> None:
    """An old copy is put in place of the journal while all replicas run. Somebody may write to it: then it is as long
    as what the leader has seen, or longer. When all have stopped the newest is put back, which is the remedy."""
    quorum = world.quorum
    world.fault("restored journal", f"a copy of the journal is kept for {what['for_s']} s", "")
    if quorum.birth is None:
        return
    old = quorum.copied()
    await asyncio.sleep(what["for_s"])
    if not await _all_see_more(world, old.birth.incarnation, old.last):
        world.tell("the old copy is not used: not everybody has seen more")
        return
    world.undisturbed.clear()
    newest, seen = quorum.copied(), _seen(world)
    world.tell(f"the journal goes back from {newest.last} to the copy that ends at {old.last}")
    began_ms = world.now_ms()
    quorum.put_back(old)
    wanted = {"behind": old.last, "equal": max(seen.values()), "ahead": newest.last + AHEAD}[what["written"]]
    quorum.write_stray(wanted)
    await asyncio.sleep(NOTICED_S)
    world.history.put_back.append(PutBack(began_ms, world.now_ms(), old.last, seen))
    world.tell(f"the newest journal is put back, up to {newest.last}")
    quorum.put_back(newest)
    world.undisturbed.set()


async def _all_see_more(world: World, incarnation: str, last: int) -> bool:
    """A replica that has seen no more than the copy holds cannot know that there was more. False also where something
    else is broken."""
    for _ in range(int(SEEN_S)):
        seen = _seen(world)
        is_whole = world.troubles == 1 and world.quorum.host() is not None and world.leader() is not None
        birth = world.quorum.birth
        is_same = birth is not None and birth.incarnation == incarnation
        if is_whole and is_same and len(seen) == len(world.machines) and min(seen.values()) > last:
            return True
        await asyncio.sleep(1.0)
    return False


def _seen(world: World) -> dict[str, int]:
    """By machine: the last entry that its replica has applied."""
    running = {name: machine.replica for name, machine in world.machines.items()}
    return {
        name: replica.meta.seq
        for name, replica in running.items()
        if replica is not None and replica._parts is not None
    }
