"""Whose votes etcd counts: not all replicas that are enlisted have joined."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.member.town import House, a_town, until

from tocsin.model.cluster import Member, majority_of


def a_replica_that_was_only_added_has_no_vote(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, _ = await town.founded()
            (d,) = town.build("d")
            await town.membership(a).add(Member("d", peer=d.address()))
            await until(lambda: _counts(a, "abc"), "a to know who votes")
            await d.start()
            await until(lambda: _counts(a, "abcd"), "a to know that d votes")

    asyncio.run(story())


def after_a_recovery_only_the_survivor_votes(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            for lost in (a, b):
                await lost.lose_disk()
            await c.stop()
            member = await c.start(recover=True)
            await until(lambda: _counts(c, "c"), "c to know that it is alone")
            member.recovery_noted()
            await asyncio.gather(a.start(), b.start())
            await until(lambda: _counts(c, "abc"), "c to know that the others have joined")

    asyncio.run(story())


async def _counts(house: House, names: str) -> bool:
    assert house.member is not None
    voters = house.member.voters()
    return voters is not None and (sorted(voters.names), voters.needed) == (
        sorted(names),
        majority_of(names).needed,
    )
