"""Whoever asks for something gets an answer, whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.errors import NoLeader
from tocsin.model.command import DeleteSchedule, LaunchNow
from tocsin.replica.wishes import Wishes, settle


def no_entry_holds_two_commands_about_the_same() -> None:
    async def run() -> list[int]:
        wishes = Wishes(lambda: None)
        asked = [asyncio.ensure_future(wishes.make(LaunchNow(id))) for id in ("a", "b", "a", "c", "c")]
        await asyncio.sleep(0)
        portions = []
        while wishes:
            taken = wishes.take()
            for wish in taken:
                settle(wish.answer, None)
            portions.append(len(taken))
        await asyncio.gather(*asked)
        return portions

    assert asyncio.run(run()) == [2, 2, 1]


def nobody_waits_for_ever_when_the_loop_ends() -> None:
    async def run() -> None:
        wishes = Wishes(lambda: None)
        waiting = asyncio.ensure_future(wishes.make(DeleteSchedule("a")))
        under_way = asyncio.ensure_future(wishes.make(DeleteSchedule("b")))
        await asyncio.sleep(0)
        wishes.take()
        wishes.close(NoLeader("over"))
        for asked in (waiting, under_way):
            with pytest.raises(NoLeader):
                await asked
        with pytest.raises(NoLeader):
            await wishes.make(DeleteSchedule("c"))

    asyncio.run(run())
