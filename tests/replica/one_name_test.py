"""Several disks under one name: stand-bys that nobody gave names, and copies of a data directory."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.replica.several import EXEC, HTTP, Town, in_town, launched, put, state_of

from tocsin.replica.parts import Paths
from tocsin.replica.peers import NoPeers
from tocsin.replica.replica import Replica
from tocsin.state import views


async def _started(town: Town, replica: Replica, key: str) -> None:
    await replica.start()
    town.replicas[key] = replica


@pytest.mark.parametrize("target", [HTTP, EXEC], ids=["http", "exec"])
def a_replica_that_lost_an_election_to_one_of_its_own_name_knows_nothing_of_that_term(
    tmp_path: Path, target: dict[str, str]
) -> None:
    async def work(town: Town) -> None:
        town.world.is_held = True
        winner = town.make("a", peers=NoPeers())
        first = town.handles["a"]
        loser = town.make("a", peers=NoPeers(), paths=Paths(tmp_path / "another disk"))
        second = town.handles["a"]
        first.gate, second.gate = asyncio.Event(), asyncio.Event()
        await asyncio.gather(_started(town, winner, "winner"), _started(town, loser, "loser"))
        await asyncio.gather(first.waiting.wait(), second.waiting.wait())  # both stand for term 1
        first.gate.set()
        await town.until(lambda: winner.is_leader)
        second.gate.set()
        await winner.propose(put(target=target))
        name = await launched(winner)
        await town.call_of(name)
        first.cut()
        await town.until(lambda: loser.is_leader)
        view = await state_of(loser, name, "in_doubt")
        assert view.attempt == 1
        assert len(town.world.named(name)) == 1
        first.heal()

    in_town(tmp_path, work, names="")


@pytest.mark.parametrize("is_stale", [True, False], ids=["copied before", "copied after"])
def no_record_proves_nothing_on_a_disk_that_was_put_back_from_a_copy_of_the_same_term(
    tmp_path: Path, is_stale: bool
) -> None:
    """The copy after it has every entry that its process wrote: it is what a process leaves that is killed before it
    makes the call."""

    async def work(town: Town) -> None:
        town.world.is_held = True
        leader = await town.leader()
        await leader.propose(put(target=EXEC))
        if is_stale:
            shutil.copytree(tmp_path / "a", tmp_path / "copy")
        name = await launched(leader)
        await town.call_of(name)
        await state_of(leader, name, "running")
        handle = town.handles["a"]
        handle.cut()
        await town.until(lambda: not leader.parts.has_authority)
        if not is_stale:
            shutil.copytree(tmp_path / "a", tmp_path / "copy")
        copy = town.make("a", peers=NoPeers(), paths=Paths(tmp_path / "copy"))
        await _started(town, copy, "copy")
        await town.until(lambda: copy.is_leader)
        if is_stale:
            await state_of(copy, name, "in_doubt")
            assert len(town.world.named(name)) == 1
        else:
            await town.call_of(name, 2)
            assert (await copy.read(views.launch, name)).attempt == 1
        handle.heal()

    in_town(tmp_path, work, names="a")
