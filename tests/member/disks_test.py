"""Disks are lost, replicas come and go, and nothing that was acknowledged is forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.member.town import PATIENCE_S, a_town, ids, keeps, lead, remembers, until

from tocsin.errors import AlreadyExists, ClusterError, InvalidInput, NotFound
from tocsin.journal.etcd.client import EtcdClient
from tocsin.model.cluster import Member


def a_replica_that_lost_its_disk_comes_back_as_another_member(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before = await ids(a)
            await b.lose_disk()
            await b.start()
            assert await remembers(b)
            after = await ids(a)
            assert set(after) == {"a", "b", "c"}
            assert (after["a"], after["c"]) == (before["a"], before["c"])
            assert after["b"] != before["b"]

    asyncio.run(story())


def an_empty_replica_waits_while_there_is_no_majority(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await keeps(a)
            await c.die()
            await b.lose_disk()
            trying = asyncio.create_task(b.start())

            async def waits() -> bool:
                return b.member is not None and "cannot join yet" in b.member.problem

            await until(waits, "b to wait")
            assert b.pid() is None
            await c.start()
            await trying
            assert await remembers(b)

    asyncio.run(story())


def a_fourth_joins_when_it_may_and_stops_when_it_is_removed(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, *_ = await town.founded()
            await keeps(a)
            (d,) = town.build("d")
            with pytest.raises(ClusterError, match="d is not a member") as refused:
                await d.start()
            assert f"tocsin cluster add d={d.address()}" in refused.value.hint
            await d.stop()
            membership = town.membership(a)
            await membership.add(Member("d", peer=d.address()))
            member = await d.start()
            assert await remembers(d)
            assert set(await ids(a)) == {"a", "b", "c", "d"}
            await membership.remove("d")
            said = await asyncio.wait_for(member.lost(), 30)
            assert "d was removed from the cluster" in str(said)
            assert str(said) == member.problem
            await d.stop()
            with pytest.raises(ClusterError, match="d is not a member"):
                await d.start()
            assert set(await ids(a)) == {"a", "b", "c"}

    asyncio.run(story())


def what_would_cost_the_majority_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            await keeps(a)
            membership = town.membership(a)
            with pytest.raises(NotFound, match="no replica z"):
                await membership.remove("z")
            with pytest.raises(AlreadyExists, match="b is a member already"):
                await membership.add(Member("b", peer="127.0.0.1:9000"))
            with pytest.raises(InvalidInput, match="same ports"):
                await membership.add(Member("d", peer=a.address()))
            await c.die()
            await until(lambda: remembers(a), "somebody to lead without c")
            with pytest.raises(ClusterError, match="only 1 answer"):
                await membership.remove("b")
            with pytest.raises(ClusterError, match="only 2 of a, b, c answer"):
                await membership.add(Member("d", peer="127.0.0.1:9000"))
            await membership.remove("c")
            assert set(await ids(a)) == {"a", "b"}

    asyncio.run(story())


def an_etcd_that_leads_hands_over_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when it has agreed to its own removal. Of two, the other one cannot go on if it did not hear of that."""
    leading: list[int] = []
    remove = EtcdClient.remove_member

    async def noting(client: EtcdClient, id: int) -> None:
        leading.append((await client.status(client.endpoints[0])).leader)
        await remove(client, id)

    monkeypatch.setattr(EtcdClient, "remove_member", noting)

    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = a, b = await town.founded("ab")
            numbers, leaving = await ids(a), b.member
            assert leaving is not None
            membership = town.membership(a)

            async def is_removed() -> bool:
                """etcd refuses it until they have been connected for five seconds."""
                await lead(b, houses)
                with suppress(ClusterError):
                    await membership.remove("b")
                return set(await ids(a)) == {"a"}

            await until(is_removed, "b to be removed")
            assert set(leading) == {numbers["a"]}
            said = await asyncio.wait_for(leaving.lost(), PATIENCE_S)
            assert "b was removed from the cluster" in str(said)
            await b.stop()
            await keeps(a)

    asyncio.run(story())


def the_last_one_cannot_be_removed(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            (a,) = await town.founded("a")
            with pytest.raises(ClusterError, match="a is the last replica"):
                await town.membership(a).remove("a")

    asyncio.run(story())


def a_survivor_recovers_and_the_others_join_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await keeps(a)
            await b.lose_disk()
            await c.lose_disk()
            await a.stop()
            empty = [asyncio.create_task(house.start()) for house in (b, c)]
            survivor = await a.start(recover=True)
            assert await remembers(a)
            assert survivor.recovered_ms is not None
            survivor.recovery_noted()
            await asyncio.gather(*empty)
            assert set(await ids(a)) == {"a", "b", "c"}
            assert await remembers(c)
            # The option is often left where it was: it must not strike the others off a second time.
            await a.stop()
            again = await a.start(recover=True)
            assert again.recovered_ms is None
            assert set(await ids(a)) == {"a", "b", "c"}

    asyncio.run(story())


def a_survivor_that_was_killed_recovers_and_all_hold_the_same_data(tmp_path: Path) -> None:
    """etcd's log may lack its last entry then, while its data has it: who joins must be sent the data."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await keeps(a)
            await a.die()
            await b.lose_disk()
            await c.lose_disk()
            empty = [asyncio.create_task(house.start()) for house in (b, c)]
            await a.start(recover=True)
            assert a.member is not None
            assert a.member.condition().condition == "recovering"
            assert not any(waiting.done() for waiting in empty), "nobody is let in before it is noted"
            a.member.recovery_noted()
            await asyncio.gather(*empty)
            await keeps(a)
            found = [await house.client(alone=True).range(b"kept") for house in (a, b, c)]
            assert len({(each.revision, tuple(each.kvs)) for each in found}) == 1, found

    asyncio.run(story())


def recovery_is_refused_where_nothing_is_lost_or_nothing_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await a.die()
            with pytest.raises(ClusterError, match="the majority is not lost"):
                await a.start(recover=True)
            await a.stop()
            await b.lose_disk()
            with pytest.raises(ClusterError, match="nothing to recover from"):
                await b.start(recover=True)

    asyncio.run(story())
