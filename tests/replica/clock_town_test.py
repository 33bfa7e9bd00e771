"""Whose clock is believed among several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.replica.several import Town, put

from tocsin.clock import SystemClock
from tocsin.model.command import ConfirmClock

DAYS_MS = 40 * 86_400_000


def _with(folder: Path, started: str, known: str, work: Callable[[Town], Awaitable[None]]) -> None:
    async def whole() -> None:
        town = Town(folder, known)
        try:
            await asyncio.gather(*(town.start(name) for name in started))
            leader = await town.leader()
            await leader.propose(put("s", cron="* * * * * *"))
            await _until_called(town, 1)
            await work(town)
        finally:
            await town.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


async def _until_called(town: Town, count: int) -> None:
    before = len(town.world.calls)
    await town.until(lambda: len(town.world.calls) >= before + count)


def _nothing_early(town: Town) -> None:
    now_s = SystemClock().wall_ms() / 1000
    assert max(int(call.name.rpartition("-")[2]) for call in town.world.calls) <= now_s + 1


@pytest.mark.parametrize(("started", "known"), [("ab", "ab"), ("ab", "abc"), ("abc", "abc")])
@pytest.mark.parametrize("ahead_ms", [DAYS_MS, -DAYS_MS])
def the_replica_whose_clock_did_not_step_leads(
    tmp_path: Path, started: str, known: str, ahead_ms: int
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.clocks[former.name].offset_ms += ahead_ms
        await town.leader(but=former.name)
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, started, known, work)


def where_all_clocks_step_nobody_decides_until_they_are_right(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: not leader.clock.is_believed)
        await leader.propose(put("t"))
        count = len(town.world.calls)
        await leader.clock.wait(asyncio.Event(), 2.5)
        assert len(town.world.calls) == count
        for clock in town.clocks.values():
            clock.offset_ms -= DAYS_MS
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work)


def what_a_person_confirms_the_other_replicas_believe_too(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: not leader.clock.is_believed)
        await leader.propose(ConfirmClock(leader.clock.system_ms(), actor="ann"))
        await town.until(lambda: all(each.clock.is_believed for each in town.replicas.values()))
        await _until_called(town, 2)

    _with(tmp_path, "ab", "ab", work)
