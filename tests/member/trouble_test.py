"""Starts that are broken off, programs that fail, and what is said about it."""

from __future__ import annotations

import asyncio
import shutil
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from tests.member.town import a_town, ids, imposter, keeps, remembers, until

from tocsin.errors import ClusterError
from tocsin.model.cluster import Member

PRETENDS = 'case "$1" in --version|--help) exec etcd "$@";; *) echo "out of order" >&2; exit 1;; esac'


def a_join_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    """The hard case: one member alone let a second one in, and can decide nothing more until that one comes."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            (a,) = await town.founded("a")
            await keeps(a)
            (b,) = town.build("b")
            await town.membership(a).add(Member("b", peer=b.address()))
            member = b.prepare(program=imposter(tmp_path, PRETENDS))
            trying = asyncio.create_task(member.start())

            async def fails() -> bool:
                return "out of order" in member.problem

            await until(fails, "etcd not to start")
            trying.cancel()
            with suppress(asyncio.CancelledError):
                await trying
            await b.start()
            assert await remembers(b)
            assert set(await ids(a)) == {"a", "b"}

    asyncio.run(story())


def a_founding_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = town.build("abc")
            broken = c.prepare(program=imposter(tmp_path, PRETENDS))
            early = [asyncio.create_task(one) for one in (a.start(), b.start(), broken.start())]

            async def fails() -> bool:
                return "out of order" in broken.problem

            await until(fails, "etcd not to start")
            early[2].cancel()
            with suppress(asyncio.CancelledError):
                await early[2]
            await asyncio.gather(c.start(), *early[:2])
            await keeps(a)
            assert await remembers(c)

    asyncio.run(story())


def who_was_removed_while_it_was_away_is_told_when_it_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            await c.stop()
            await town.membership(a).remove("c")
            with pytest.raises(ClusterError, match="c was removed from the cluster"):
                await c.start()
            assert c.pid() is None

    asyncio.run(story())


def an_etcd_whose_disk_was_taken_away_does_not_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            before, ghost = await ids(a), b.pid()
            await b.leave_etcd_alone()
            shutil.rmtree(b.data)
            await keeps(a)
            await b.start()
            assert b.pid() != ghost
            assert await remembers(b)
            assert (await ids(a))["b"] != before["b"]

    asyncio.run(story())


def a_taken_port_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            (a,) = town.build("a")
            port = int(a.address().rpartition(":")[2]) + 1
            with socket.create_server(("127.0.0.1", port)):
                trying = asyncio.create_task(a.start())

                async def complains() -> bool:
                    return a.member is not None and "address already in use" in a.member.problem

                await until(complains, "the taken port to be told")
            await trying
            assert a.member is not None
            assert a.member.problem == ""

    asyncio.run(story())
