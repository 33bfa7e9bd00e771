"""How the blocks of an import are waited for. Reading and writing are stood in for: what counts is the order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tocsin.api.importing.reading import Read
from tocsin.api.importing.work import Import
from tocsin.model.lines import ImportLine
from tocsin.model.new import columns_of


class _Work(Import):
    """Three blocks; the first is written only when it is let go."""

    def __init__(self, ids: list[str]) -> None:
        super().__init__(None, None, "put", False, True)  # type: ignore[arg-type]  # why: neither is asked here
        self.let_go = asyncio.Event()
        self.begun: list[str] = []
        self._ids = ids

    async def _read_all(self, request: Any, ahead: asyncio.Queue[Any]) -> None:
        for id in self._ids:
            ahead_of = columns_of([])
            ahead_of.ids.append(id)
            await ahead.put(asyncio.create_task(_read(Read(ahead_of, [1], []))))
        await ahead.put(None)

    async def _write_all(self, read: list[Read]) -> list[ImportLine]:
        (id,) = read[0].new.ids
        self.begun.append(id)
        if len(self.begun) == 1:
            await self.let_go.wait()
        return []


async def _read(found: Read) -> list[Read]:
    return [found]


async def _turns(number: int = 200) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def a_block_that_is_written_before_the_one_ahead_of_it_makes_nobody_look_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop that did so held up the thread that was to write the other one: imports took ten times as long."""
    looks = 0
    sound = asyncio.wait

    async def counted(*args: Any, **named: Any) -> Any:
        nonlocal looks
        looks += 1
        return await sound(*args, **named)

    async def story() -> None:
        work = _Work(["a", "b", "c"])
        monkeypatch.setattr(asyncio, "wait", counted)
        written = asyncio.create_task(_all_of(work))
        await _turns()
        assert work.begun == ["a", "b"], "the third waits for a place"
        assert looks < 10
        work.let_go.set()
        assert await written == 3
        assert work.begun == ["a", "b", "c"]

    asyncio.run(story())


def what_is_about_the_same_id_waits_for_the_block_before_it() -> None:
    async def story() -> None:
        work = _Work(["a", "a", "b"])
        written = asyncio.create_task(_all_of(work))
        await _turns()
        assert work.begun == ["a"]
        work.let_go.set()
        assert await written == 3
        assert work.begun == ["a", "a", "b"]

    asyncio.run(story())


async def _all_of(work: Import) -> int:
    return len([refused async for refused in work._written(None)])  # type: ignore[arg-type]  # why: nobody reads it
