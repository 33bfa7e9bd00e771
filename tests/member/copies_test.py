"""Data directories that are put back from copies: such a replica does not vote with a log that may be too old."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tests.member.town import House, Town, a_town, ids, imposter, joins_anew, keeps, remembers, until

from tocsin.errors import ClusterError
from tocsin.member.record import Memory
from tocsin.member.recovery import Recovery

FAILS = 'case "$1" in --version|--help) exec etcd "$@";; esac; exit 1'


async def _copied(house: House) -> Path:
    """The house goes on with the original."""
    await house.stop()
    copy = house.town.folder / f"{house.name}.copy"
    shutil.copytree(house.data, copy)
    await house.start()
    return copy


def _put_back(house: House, copy: Path) -> None:
    shutil.rmtree(house.data)
    shutil.copytree(copy, house.data)


async def _given_up(*trying: asyncio.Task[object]) -> None:
    for one in trying:
        one.cancel()
        with suppress(asyncio.CancelledError):
            await one


def a_replica_whose_data_was_put_back_joins_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            copy = await _copied(b)
            before = await ids(a)
            await keeps(a)
            await b.stop()
            _put_back(b, copy)
            await joins_anew(b, a, before)
            after = await ids(a)
            # From now on it is the replica's own again.
            await b.stop()
            await b.start()
            assert await ids(a) == after

    asyncio.run(story())


def a_copy_does_not_vote_while_one_who_knows_more_is_away(tmp_path: Path) -> None:
    """c was away when a and b acknowledged; a with its old copy and c would be a majority that knows nothing of it."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            copy = await _copied(a)
            await c.stop()
            await keeps(b)
            await a.stop()
            _put_back(a, copy)
            await b.die()
            trying = [asyncio.create_task(house.start()) for house in (a, c)]

            async def waits() -> bool:
                return a.member is not None and "it cannot join yet" in a.member.problem

            await until(waits, "a to wait")
            assert a.pid() is None
            assert a.member is not None
            assert a.member.condition().condition == "copied"
            assert (a.etcd / "member" / "wal").is_dir(), "it may be needed as long as it has not joined"
            await b.start()
            await asyncio.gather(*trying)
            assert all([await remembers(house) for house in (a, b, c)])

    asyncio.run(story())


def a_cluster_of_copies_goes_on_when_it_is_told_to_recover(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = a, b, _ = await town.founded()
            await keeps(a)
            for house in houses:
                await house.stop()
            for house in houses:
                shutil.move(house.data, f"{house.data}.copy")
                shutil.copytree(f"{house.data}.copy", house.data)
            trying = [asyncio.create_task(house.start()) for house in houses]

            async def all_wait() -> bool:
                members = [house.member for house in houses]
                return all(one is not None and "data in a, b, c is a copy" in one.problem for one in members)

            await until(all_wait, "all of them to say that they are copies")
            assert [house.pid() for house in houses] == [None] * 3
            await _given_up(trying[1])
            await b.stop()
            member = await b.start(recover=True)
            assert await remembers(b)
            member.recovery_noted()
            await asyncio.gather(trying[0], trying[2])
            assert set(await ids(a)) == {"a", "b", "c"}
            assert all([await remembers(house) for house in houses])
            await b.stop()
            await b.start()
            assert await remembers(b)

    asyncio.run(story())


def a_recovery_from_a_copy_is_refused_while_another_can_know_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            copy = await _copied(a)
            await keeps(b)
            await a.stop()
            _put_back(a, copy)
            await c.lose_disk()
            with pytest.raises(ClusterError, match="is a copy, and b can know more") as refused:
                await a.start(recover=True)
            assert "give --recover to b" in refused.value.hint
            await a.stop()
            await b.stop()
            member = await b.start(recover=True)
            member.recovery_noted()
            await asyncio.gather(a.start(), c.start())
            assert all([await remembers(house) for house in (a, b, c)])

    asyncio.run(story())


def a_recovery_that_failed_does_not_make_a_copy_an_original(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, *others = await town.founded()
            copy = await _copied(a)
            for house in (a, *others):
                await house.stop()
            _put_back(a, copy)
            member = a.prepare(recover=True, program=imposter(tmp_path, FAILS))
            trying = asyncio.create_task(member.start())

            async def fails() -> bool:
                return "etcd ended" in member.problem

            await until(fails, "etcd not to start")
            await _given_up(trying)
            assert Memory(a.data / "member", "a").is_copy()

    asyncio.run(story())


def a_cluster_of_one_goes_on_from_a_copy(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            (a,) = await town.founded("a")
            await keeps(a)
            before = await ids(a)
            copy = await _copied(a)
            await a.stop()
            _put_back(a, copy)
            await a.start()
            assert await remembers(a)
            assert await ids(a) == before

    asyncio.run(story())


def of_two_the_other_one_recovers(tmp_path: Path) -> None:
    """Nothing can be agreed on without a, so a cannot be replaced."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b = await town.founded("ab")
            copy = await _copied(a)
            await keeps(b)
            await a.stop()
            _put_back(a, copy)
            trying = asyncio.create_task(a.start())

            async def waits() -> bool:
                return a.member is not None and "cannot join yet" in a.member.problem

            await until(waits, "a to wait")
            assert a.pid() is None
            await b.stop()
            member = await b.start(recover=True)
            member.recovery_noted()
            await trying
            assert set(await ids(b)) == {"a", "b"}
            assert await remembers(a)

    asyncio.run(story())


def _moved_with_a_copy(town: Town, house: House) -> House:
    moved = town.move(house)
    shutil.move(moved.data, f"{moved.data}.old")
    shutil.copytree(f"{moved.data}.old", moved.data)
    return moved


def a_replica_that_moves_with_a_copy_of_its_data_joins_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before = await ids(a)
            await b.stop()
            moved = _moved_with_a_copy(town, b)
            await moved.start()
            assert await remembers(moved)
            after = await ids(a)
            assert set(after) == {"a", "b", "c"}
            assert after["b"] != before["b"]

    asyncio.run(story())


def data_that_is_replaced_under_a_running_replica_is_not_used(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            shutil.copytree(b.etcd, tmp_path / "copy")
            shutil.rmtree(b.etcd)
            shutil.copytree(tmp_path / "copy", b.etcd)
            b.kill()

            async def complains() -> bool:
                return b.member is not None and "is a copy, and not the directory" in b.member.problem

            await until(complains, "b not to start its etcd")
            assert b.pid() is None
            await b.stop()
            await b.start()
            assert await remembers(b)

    asyncio.run(story())


@pytest.mark.parametrize("step", ["make_whole", "mark"])
def a_recovery_that_was_broken_off_is_repeated_before_the_replica_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """etcd has struck the others off by then: without the mark of the loss, what they launched is launched again."""

    class _Killed(Exception):
        pass

    def killed(*_: object) -> None:
        raise _Killed

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await keeps(a)
            await a.stop()
            await b.lose_disk()
            await c.lose_disk()
            with monkeypatch.context() as patched:
                patched.setattr(Recovery, step, killed)
                with pytest.raises(_Killed):
                    await a.start(recover=True)
            trying = asyncio.create_task(a.start())

            async def waits() -> bool:
                return a.member is not None and bool(a.member.problem)

            await until(waits, "a to wait")
            assert a.pid() is None
            await _given_up(trying)
            member = await a.start(recover=True)
            assert await remembers(a)
            assert member.recovered_ms is not None

    asyncio.run(story())
