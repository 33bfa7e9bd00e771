"""Many questions at once: bounded, in order, and nothing that happened is left unsaid."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tocsin.cli.several import AT_ONCE, in_order
from tocsin.errors import NotFound, TocsinError, TooMany, Unreachable


def _told(items: list[int], work: Any) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []

    async def whole() -> None:
        async for item, result in in_order(items, work):
            found.append((item, result))

    try:
        asyncio.run(whole())
    except TocsinError as wrong:
        found.append((-1, wrong))
    return found


def the_answers_come_in_the_order_of_the_questions():
    async def last_first(number: int) -> int:
        for _ in range(50 - number % 50):
            await asyncio.sleep(0)
        return number * 2

    assert _told(list(range(120)), last_first) == [(number, number * 2) for number in range(120)]


def only_so_many_are_asked_at_once():
    asked, most = 0, 0

    async def count(number: int) -> None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1

    _told(list(range(100)), count)
    assert most == AT_ONCE


def a_refusal_stops_nobody_else():
    async def refuse_three(number: int) -> int:
        if number == 3:
            raise NotFound("three")
        return number

    found = _told(list(range(6)), refuse_three)
    assert [number for number, _ in found] == list(range(6))
    assert str(found[3][1]) == "three"


def when_nobody_answers_what_was_begun_is_still_told():
    begun: list[int] = []

    async def dead_after_five(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 5:
            raise Unreachable("gone")
        return number

    found = _told(list(range(1000)), dead_after_five)
    assert isinstance(found[-1][1], Unreachable)
    assert [number for number, _ in found[:-1]] == [number for number in begun if number != 5]
    assert len(begun) < 1000, "nothing more was begun"


@pytest.mark.parametrize("held_back", [1, 3])
def who_is_held_back_asks_again(held_back):
    asked = 0

    async def pace(number: int) -> str:
        nonlocal asked
        asked += 1
        if asked <= held_back:
            raise TooMany("too fast", wait_s=0.001)
        return "served"

    assert _told([7], pace) == [(7, "served")]
    assert asked == held_back + 1
