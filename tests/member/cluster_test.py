"""Three real etcd members: founded, restarted, killed, taken over."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.member.town import House, a_town, ids, keeps, remembers, until

from tocsin.errors import ClusterError, JournalUnavailable, OfficeTaken
from tocsin.member.record import Memory


def three_empty_replicas_found_one_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = await town.founded()
            assert set(await ids(houses[0])) == {"a", "b", "c"}
            await keeps(houses[0])
            for house in houses:
                assert await remembers(house)
                assert house.member is not None
                assert house.member.condition().condition == "founded"
                assert house.member.problem == ""
            assert len({house.member.condition().founding for house in houses if house.member}) == 1

    asyncio.run(story())


def nobody_founds_before_all_are_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = town.build("abc")
            early = [asyncio.create_task(house.start()) for house in (a, b)]

            async def waits() -> bool:
                return all(house.member is not None and "from c" in house.member.problem for house in (a, b))

            await until(waits, "two of them to wait for the third")
            assert (a.pid(), b.pid()) == (None, None)
            await asyncio.gather(c.start(), *early)
            assert len(await ids(a)) == 3

    asyncio.run(story())


def a_restarted_replica_goes_on_with_its_data(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            before = await ids(a)
            await b.stop()
            assert b.pid() is None
            await keeps(a)
            await b.start()
            assert await remembers(b)
            assert await ids(a) == before

    asyncio.run(story())


def the_whole_cluster_can_be_restarted(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = await town.founded()
            await keeps(houses[0])
            for house in houses:
                await house.stop()
            await asyncio.gather(*(house.start() for house in houses))
            assert all([await remembers(house) for house in houses])

    asyncio.run(story())


def a_killed_etcd_is_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before = b.pid()
            b.kill()
            await until(lambda: remembers(b), "the etcd of b to be back")
            assert b.pid() not in (None, before)

    asyncio.run(story())


def an_etcd_that_outlived_its_tocsin_is_taken_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            before = b.pid()
            await b.leave_etcd_alone()
            await keeps(a)
            await b.start()
            assert b.pid() == before
            assert await remembers(b)
            b.kill()
            await until(lambda: remembers(b), "an adopted etcd to be minded like a child")

    asyncio.run(story())


def an_etcd_with_other_options_is_not_taken_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            _, b, _ = await town.founded()
            before = b.pid()
            await b.leave_etcd_alone()
            (town.folder / "etcd").symlink_to("/usr/bin/etcd")
            member = b.prepare(program=str(town.folder / "etcd"))
            await member.start()
            assert b.pid() not in (None, before)

    asyncio.run(story())


def two_processes_cannot_share_a_disk(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            (a,) = await town.founded("a")
            first, pid = a.member, a.pid()
            with pytest.raises(OfficeTaken):
                await a.prepare().start()
            a.member = first
            assert a.pid() == pid

    asyncio.run(story())


def a_leader_that_stops_hands_over_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = await town.founded()
            client = houses[0].client(alone=True)
            status = await client.status(client.endpoints[0])
            known = await ids(houses[0])
            leader = next(house for house in houses if known[house.name] == status.leader)
            other = next(house for house in houses if house is not leader)
            client = other.client(alone=True)
            await leader.stop()
            status = await client.status(client.endpoints[0])
            assert status.leader not in (0, known[leader.name])

    asyncio.run(story())


def a_replica_that_moves_tells_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await b.stop()
            moved = town.move(b)
            await moved.start()

            async def known() -> bool:
                peers = await a.client().members()
                port = int(moved.address().rpartition(":")[2])
                return any(peer.peer_urls == [f"https://127.0.0.1:{port + 1}"] for peer in peers)

            await until(known, "the new address of b")

    asyncio.run(story())


@pytest.mark.parametrize("is_recognised", [True, False])
def a_copy_of_a_disk_is_not_started_while_the_replica_runs(tmp_path: Path, is_recognised: bool) -> None:
    """Two etcds that are one member would each acknowledge what the other does not have. The copy of a virtual machine
    is not recognised by its files."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            _, b, _ = await town.founded()
            await b.stop()
            shutil.copytree(b.data, tmp_path / "copy")
            again = House(town, "b", b.settings.cluster)
            town.houses["b"] = again
            await again.start()
            copy = town.move(again)
            town.houses |= {"b": again, "copy": copy}
            copy.data = tmp_path / "copy"
            copy.settings = msgspec.structs.replace(copy.settings, data=copy.data)
            if not is_recognised:
                Memory(copy.data / "member", "b").sign()
            said = f"b runs at {again.address()}" if is_recognised else "is a copy of its disk"
            with pytest.raises(ClusterError, match=said):
                await copy.start()
            assert copy.pid() is None

    asyncio.run(story())


def a_stranger_gets_nowhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            await c.lose_disk()
            stranger = House(town, "c", c.settings.cluster, secret="another secret that nobody else has")
            town.houses["c"] = stranger
            trying = asyncio.create_task(stranger.start())

            async def refused() -> bool:
                return stranger.member is not None and "TLS fails" in stranger.member.problem

            await until(refused, "the stranger to be turned away")
            trying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await trying
            with pytest.raises(JournalUnavailable, match="TLS"):
                await stranger.client().members()
            assert stranger.pid() is None
            assert set(await ids(a)) == {"a", "b", "c"}

    asyncio.run(story())
