"""Places for a few, and fair to all."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.targets.slots import Shares, Slots


def one_lane_has_a_quarter_and_a_dozen_leave_room_for_a_newcomer() -> None:
    shares = Shares(256)
    for lane in range(12):
        assert shares.has_room(str(lane))
        while shares.has_room(str(lane)):
            shares.take(str(lane))
    assert shares.held["0"] == 64
    assert shares.has_room("newcomer")


def without_lanes_all_places_are_for_everybody() -> None:
    shares = Shares(10, shared=False)
    shares.take("exec", 9)
    assert shares.has_room("exec")
    shares.take("exec")
    assert not shares.has_room("exec")


def who_waits_is_served_lane_after_lane() -> None:
    async def test() -> list[str]:
        slots, order = Slots(1), []

        async def use(lane: str) -> None:
            await slots.take(lane)
            order.append(lane)
            slots.give_back(lane)

        await slots.take("first")
        users = [asyncio.create_task(use(lane)) for lane in ("a", "a", "a", "b", "c")]
        await asyncio.sleep(0)
        slots.give_back("first")
        await asyncio.gather(*users)
        return order

    assert asyncio.run(test()) == ["a", "b", "c", "a", "a"]


@pytest.mark.parametrize("granted_first", [False, True])
def who_gives_up_leaves_no_place_lost(granted_first: bool) -> None:
    async def test() -> None:
        slots = Slots(1)
        await slots.take("a")
        waiting = asyncio.create_task(slots.take("a"))
        await asyncio.sleep(0)
        if granted_first:
            slots.give_back("a")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if not granted_first:
            slots.give_back("a")
        assert slots.is_free("a")

    asyncio.run(test())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["come", "go", "give up"])), max_size=60))
def places_are_never_lost_nor_given_twice(steps: list[tuple[str, str]]) -> None:
    async def test() -> None:
        slots = Slots(4)
        tasks: dict[str, list[asyncio.Task[bool]]] = {"a": [], "b": [], "c": []}
        for lane, step in steps:
            if step == "come":
                tasks[lane].append(asyncio.create_task(slots.take(lane)))
            elif tasks[lane]:
                task = tasks[lane].pop(0 if step == "go" else -1)
                if task.done():
                    slots.give_back(lane)
                else:
                    task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            holding = sum(task.done() for lane in tasks.values() for task in lane)
            assert holding == slots._shares.total <= 4
        for lane, left in tasks.items():
            for task in reversed(left):
                if task.done():
                    slots.give_back(lane)
                else:
                    task.cancel()
                await asyncio.sleep(0)
        assert slots._shares.total == 0
        assert not slots._waiting
        assert not slots._turns

    asyncio.run(test())
