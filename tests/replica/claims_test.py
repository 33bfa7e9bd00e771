"""Somebody says that they lead in a later term: whom that deposes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.replica.several import Town, in_town, put

from tocsin.errors import NoLeader, Refused, Stopping, Unreachable
from tocsin.model.cluster import Asked
from tocsin.state import views


def a_term_that_nobody_ever_took_office_in_deposes_nobody(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        term = leader.meta.term
        for replica in town.replicas.values():
            for claimed in (term + 1, 10**6, 2**63):
                with pytest.raises(Refused, match="nobody leads in term"):
                    await replica.fates([], claimed)
        await leader.propose(put())
        assert (leader.is_leader, leader.meta.term) == (True, term)

    in_town(tmp_path, work)


def a_former_leader_that_has_missed_the_change_sees_it_in_the_journal(tmp_path: Path) -> None:
    """It stops at the first word of its successor, before it has applied anything of it."""

    async def work(town: Town) -> None:
        former = await town.leader()
        term, own = former.meta.term, former.parts.career.any_leader
        assert own is not None
        town.silent.add(former.name)
        town.handles[former.name].gate = asyncio.Event()  # it hangs in the middle of an append
        successor = await town.leader(but=former.name)
        assert former.parts.career.any_leader is own
        assert former.meta.term == term < successor.meta.term
        assert await former.fates([], successor.meta.term) == []
        assert own._deposed
        town.heal(former.name)
        await town.until(lambda: former.meta.leader == successor.name)

    in_town(tmp_path, work)


def one_that_cannot_ask_the_journal_believes_it_at_once(tmp_path: Path) -> None:
    """It cannot write either, so nothing is lost; and whoever leads now learns what became of its calls."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        own = leader.parts.career.any_leader
        assert own is not None
        town.handles[leader.name].cut()
        async with asyncio.timeout(1.0):
            assert await leader.fates([], leader.meta.term + 1) == []
        assert own._deposed

    in_town(tmp_path, work)


def one_that_has_stopped_says_so_too(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        replica = town.replicas["a"]
        await town.stop("a")
        with pytest.raises(Stopping, match="has stopped"):
            await replica.read(views.counts, 0)

    in_town(tmp_path, work)


@pytest.mark.parametrize("stops", [False, True])
def one_that_has_not_seen_the_end_of_a_term_tells_nothing_of_it_even_if_it_stops(
    stops: bool, tmp_path: Path
) -> None:
    """A record may be missing there because it was never read."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        follower = next(replica for replica in town.replicas.values() if replica is not leader)
        await town.until(lambda: follower.meta.term)
        town.handles[follower.name].cut()
        if stops:
            follower.applied.end()
        with pytest.raises(Unreachable, match="beginning of term 2"):
            await follower.fates([Asked("s-1", 1, "http", 0, 1)], 2)

    in_town(tmp_path, work)


def a_replica_that_is_starting_says_so_to_whoever_asks(tmp_path: Path) -> None:
    """It is reached before it has a state: a new leader that asks after a call is to ask again."""

    async def work(town: Town) -> None:
        starting = town.make("a")
        with pytest.raises(NoLeader, match="starting"):
            await starting.fates([Asked("s-1", 1, "http", 0, 1)], 2)
        with pytest.raises(NoLeader, match="starting"):
            await starting.propose(put())

    in_town(tmp_path, work, names="")
