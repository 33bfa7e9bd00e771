"""One living process under one name: who is refused, who ends, and who goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tocsin.clock import SystemClock
from tocsin.errors import JournalUnavailable, NameTaken
from tocsin.journal.contract import NameHolder
from tocsin.replica.name_guard import BEAT_S, SILENCE_S, NameGuard, disk_id


class _Clock(SystemClock):
    """Time passes only where somebody waits, and others may act meanwhile."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def elapsed_s(self) -> float:
        return self.now_s

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        self.now_s += timeout_s
        if self.meanwhile is not None:
            await self.meanwhile()
        return False


class _Store:
    """The port ``NameStore``, in memory."""

    def __init__(self) -> None:
        self.held: dict[str, NameHolder] = {}
        self.is_answer_lost = False

    async def holder(self, name: str) -> NameHolder | None:
        return self.held.get(name)

    async def put(self, name: str, holder: NameHolder, instead: NameHolder | None) -> bool:
        if self.held.get(name) != instead:
            return False
        self.held[name] = holder
        if self.is_answer_lost:
            self.is_answer_lost = False
            raise JournalUnavailable("no answer")
        return True

    async def release(self, name: str, holder: NameHolder) -> None:
        if self.held.get(name) == holder:
            del self.held[name]

    async def close(self) -> None:
        return


class _Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = _Store()
        self.clock = _Clock()

    async def guard(self, disk: str) -> NameGuard:
        guard = NameGuard("x", self.folder / disk, self.store, self.clock)
        await guard.start()
        return guard

    async def holding(self, disk: str) -> NameGuard:
        """A process that has held the name for long."""
        guard = await self.guard(disk)
        await guard.take()
        for _ in range(10):
            self.clock.now_s += BEAT_S
            await guard._beat()
        return guard


def _in_scene(folder: Path, work: Callable[[_Scene], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(10):
            await work(_Scene(folder))

    asyncio.run(whole())


def a_second_living_replica_is_refused_and_told_of_the_remedy(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        first = await scene.holding("disk")
        scene.clock.meanwhile = first._beat
        with pytest.raises(NameTaken, match="another replica named x is running") as refused:
            await (await scene.guard("another disk")).take()
        assert "--name" in refused.value.hint
        await first._beat()

    _in_scene(tmp_path, work)


def a_replica_that_was_killed_starts_again_at_once(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        await scene.holding("disk")
        before_s = scene.clock.now_s
        again = await scene.guard("disk")
        await again.take()
        assert scene.clock.now_s == before_s
        await again._beat()

    _in_scene(tmp_path, work)


def a_replica_with_a_new_disk_waits_until_the_old_one_is_known_to_be_dead(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        old = await scene.holding("disk")
        before_s = scene.clock.now_s
        new = await scene.guard("new disk")
        await new.take()
        assert SILENCE_S <= scene.clock.now_s - before_s <= SILENCE_S + BEAT_S
        with pytest.raises(NameTaken):  # it was only paused
            await old._beat()
        await new._beat()

    _in_scene(tmp_path, work)


def a_name_that_was_released_is_free(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        await (await scene.holding("disk")).stop()
        before_s = scene.clock.now_s
        await (await scene.guard("another disk")).take()
        assert scene.clock.now_s == before_s

    _in_scene(tmp_path, work)


def a_copy_of_the_disk_ends_and_the_original_goes_on(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        original = await scene.holding("disk")
        copy = await scene.guard("disk")
        await copy.take()
        await original._beat()
        scene.clock.now_s += BEAT_S
        ended = await copy.lost()
        assert isinstance(ended, NameTaken)
        assert "copy" in ended.message
        await original._beat()

    _in_scene(tmp_path, work)


def a_copy_that_starts_a_moment_after_the_original_ends_too(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        original = await scene.guard("disk")
        await original.take()
        scene.clock.now_s += BEAT_S
        copy = await scene.guard("disk")
        await copy.take()
        await original._beat()
        assert isinstance(await copy.lost(), NameTaken)
        await original._beat()

    _in_scene(tmp_path, work)


def an_answer_that_was_lost_costs_nobody_its_name(tmp_path: Path) -> None:
    async def work(scene: _Scene) -> None:
        guard = await scene.guard("disk")
        scene.store.is_answer_lost = True
        with pytest.raises(JournalUnavailable):
            await guard.take()
        await guard.take()
        scene.store.is_answer_lost = True
        with pytest.raises(JournalUnavailable):
            await guard._beat()
        await guard._beat()
        assert scene.store.held["x"] == guard._held

    _in_scene(tmp_path, work)


def a_disk_keeps_its_id(tmp_path: Path) -> None:
    assert disk_id(tmp_path / "disk") == disk_id(tmp_path / "disk") != disk_id(tmp_path / "other")
