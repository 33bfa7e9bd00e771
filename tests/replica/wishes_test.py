"""Whoever asks for something gets an answer, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import NoLeader
from tocsin.model.command import Command, DeleteSchedule, LaunchNow, PutSchedules
from tocsin.model.new import columns_of
from tocsin.replica.wishes import Wishes, prepared, settle
from tocsin.state.store import Store


def _portions(commands: Sequence[Command]) -> list[list[str]]:
    async def run() -> list[list[str]]:
        wishes = Wishes(lambda: None)
        asked = [asyncio.ensure_future(wishes.make(command)) for command in commands]
        await asyncio.sleep(0)
        portions = []
        while wishes:
            taken = wishes.take()
            for wish in taken:
                settle(wish.answer, None)
            portions.append([wish.command.about for wish in taken])
        await asyncio.gather(*asked)
        return portions

    return asyncio.run(run())


def no_entry_holds_two_commands_about_the_same_and_nobody_else_waits_for_them() -> None:
    asked = [LaunchNow(id) for id in ("a", "b", "a", "c", "c", "a")]
    assert _portions(asked) == [["a", "b", "c"], ["a", "c"], ["a"]]


def what_is_about_many_goes_alone_and_in_its_turn() -> None:
    many = PutSchedules(columns_of([]))
    asked = [many, LaunchNow("a"), LaunchNow("a"), many, LaunchNow("b")]
    about = "many schedules"
    assert _portions(asked) == [[about], ["a"], ["a"], [about], ["b"]]


def a_turn_that_launches_takes_few_and_leaves_a_long_list_for_the_next() -> None:
    async def run() -> list[list[str]]:
        wishes = Wishes(lambda: None)
        asked: list[Command] = [
            *(LaunchNow(id) for id in "abc"),
            PutSchedules(columns_of([])),
            LaunchNow("d"),
        ]
        waiting = [asyncio.ensure_future(wishes.make(command)) for command in asked]
        await asyncio.sleep(0)
        portions = [
            wishes.take(2),
            wishes.take(with_many=False),
            wishes.take(with_many=False),
            wishes.take(),
            wishes.take(),
        ]
        for wish in (wish for portion in portions for wish in portion):
            settle(wish.answer, None)
        await asyncio.gather(*waiting)
        return [[wish.command.about for wish in portion] for portion in portions]

    assert asyncio.run(run()) == [["a", "b"], ["c"], [], ["many schedules"], ["d"]]


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


def a_command_that_changes_nothing_is_answered_without_an_entry(tmp_path: Path) -> None:
    async def run() -> Any:
        store = Store(tmp_path / "state.db")
        wishes = Wishes(lambda: None)
        asked = asyncio.ensure_future(wishes.make(PutSchedules(columns_of([]))))
        await asyncio.sleep(0)
        found = prepared(store.db, wishes.take(), 0)
        store.close()
        assert found.changes == found.wishes == []
        assert not asked.done(), "an answer before it is certain who leads"
        found.settle([])
        return await asked

    assert asyncio.run(run()) == {}
