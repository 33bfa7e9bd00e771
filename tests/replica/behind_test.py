"""A follower that is behind: nobody is told by it that something is not there, or at another version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.replica.ledger import Record
from tests.replica.lone import in_town, put
from tests.replica.several import Town

from tocsin.api import conditions
from tocsin.api.conditions import Conditions, existing
from tocsin.api.service import Service
from tocsin.errors import NoLeader, NotFound, VersionConflict
from tocsin.model.command import Command, DeleteSchedule, SwitchSchedule
from tocsin.model.schedule import ScheduleView
from tocsin.model.token import EVERYBODY, Caller
from tocsin.replica.peers import NoPeers
from tocsin.replica.replica import Replica


class _Door:
    """As much of the service as a write needs."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    async def propose(self, caller: Caller, command: Command) -> Any:
        return await self.replica.propose(command)

    async def write(
        self, id: str, tag: str | None, command: Callable[[ScheduleView], Command]
    ) -> tuple[int, int]:
        service = cast(Service, self)
        return await conditions.write(
            service, EVERYBODY, id, Conditions.of(tag), lambda present: command(existing(present, id))
        )


def _with_follower_behind(tmp_path: Path, work: Callable[[Replica, _Door], Any]) -> None:
    """Each entry reaches the follower half a second late."""

    async def whole(town: Town) -> None:
        await town.start("a")
        leader = await town.leader()
        follower = town.replicas["b"] = town.make("b")
        read = town.handles["b"].read

        async def late(after: int, id: bytes | None = None) -> AsyncIterator[Record]:
            async for record in read(after, id):
                await asyncio.sleep(0.5)
                yield record

        town.handles["b"].read = late  # type: ignore[method-assign]  # why: a slow way to the journal
        await follower.start()
        await town.until(lambda: follower.meta.seq >= leader.meta.seq or None)
        await work(leader, _Door(follower))

    in_town(tmp_path, whole)


def _delete(present: ScheduleView) -> Command:
    return DeleteSchedule(present.id, expect=present.version)


def _pause(present: ScheduleView) -> Command:
    return SwitchSchedule(present.id, False, expect=present.version)


def what_was_just_created_can_be_deleted_through_a_follower_that_is_behind(tmp_path: Path) -> None:
    async def work(leader: Replica, door: _Door) -> None:
        await leader.propose(put("s", "@yearly"))
        assert await door.replica.read(conditions.newest, "s") is None
        assert (await door.write("s", None, _delete))[0] == 1
        assert await leader.read(conditions.newest, "s") is None

    _with_follower_behind(tmp_path, work)


def the_version_that_was_just_written_is_known_to_a_follower_that_is_behind(tmp_path: Path) -> None:
    async def work(leader: Replica, door: _Door) -> None:
        await leader.propose(put("s", "@yearly"))
        await leader.propose(put("s", "@daily"))
        assert await door.write("s", '"2"', _pause) == (2, 3)
        with pytest.raises(VersionConflict):
            await door.write("s", '"2"', _pause)
        with pytest.raises(NotFound):
            await door.write("t", None, _pause)

    _with_follower_behind(tmp_path, work)


def a_write_that_meets_a_newer_version_is_made_on_it_and_not_tried_in_vain(tmp_path: Path) -> None:
    async def work(leader: Replica, door: _Door) -> None:
        await leader.propose(put("s", "@yearly"))
        await door.replica.catch_up()
        await leader.propose(put("s", "@daily"))
        tried: list[int] = []

        def pause(present: ScheduleView) -> Command:
            tried.append(present.version)
            return _pause(present)

        assert await door.write("s", None, pause) == (2, 3)
        assert tried == [1, 2]

    _with_follower_behind(tmp_path, work)


def a_stand_by_without_a_way_to_the_leader_says_so_when_it_has_heard_of_it_again(tmp_path: Path) -> None:
    async def whole(town: Town) -> None:
        await town.start("a")
        leader = await town.leader()
        stand_by = await town.start("b", peers=NoPeers())
        await town.until(lambda: stand_by.meta.seq >= leader.meta.seq or None)
        async with asyncio.timeout(4):  # two refusals, each as soon as the leader was heard of again
            with pytest.raises(NoLeader, match="a leads, and cannot be reached from here"):
                await stand_by.propose(put("s"))
            with pytest.raises(NoLeader):
                await stand_by.catch_up()
        await town.stop("a")
        await stand_by.propose(put("s", "@yearly"))  # it waits until this one leads

    in_town(tmp_path, whole)
