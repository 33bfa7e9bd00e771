"""Virtual time, and processes in it."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.simulation.virtual import Deadlock, Livelock, Process, VirtualLoop, virtual


def _played(story: object, loop: VirtualLoop) -> object:
    return loop.run_until_complete(loop.spawn(None, story))


def a_year_passes_at_once() -> None:
    async def story() -> None:
        await asyncio.sleep(365 * 86_400)

    with virtual() as loop:
        _played(story(), loop)
        assert loop.time() == 365 * 86_400


def whoever_waits_for_what_never_comes_is_reported_as_a_deadlock() -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with virtual() as loop, pytest.raises(Deadlock, match="no timer"):
        _played(story(), loop)


def whoever_is_busy_for_ever_at_one_moment_is_reported_too() -> None:
    def again() -> None:
        loop.call_soon(again)

    with virtual() as loop:
        again()
        with pytest.raises(Livelock):
            loop.run_forever()


@pytest.mark.parametrize("step", range(1, 9))
def a_killed_process_takes_no_further_step_not_even_to_clean_up(step: int) -> None:
    done: list[str] = []

    async def life() -> None:
        try:
            for number in range(5):
                done.append(f"step {number}")
                await asyncio.sleep(0)
            await asyncio.to_thread(done.append, "on another thread")
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    async def story(loop: VirtualLoop) -> None:
        process = Process("a", 1)
        process.on_death = process.kill
        process.dies_at_step = step
        loop.spawn(process, life())
        await asyncio.sleep(20)

    with virtual() as loop:
        _played(story(loop), loop)
    assert done == [f"step {number}" for number in range(min(step - 1, 5))] + (
        ["on another thread"] if step > 7 else []
    )


def a_paused_process_goes_on_where_it_was_and_time_has_passed() -> None:
    seen: list[tuple[str, float]] = []

    async def life(loop: VirtualLoop) -> None:
        for number in range(3):
            seen.append((f"step {number}", loop.time()))
            await asyncio.sleep(1)

    async def story(loop: VirtualLoop) -> None:
        process = Process("a", 1)
        loop.spawn(process, life(loop))
        await asyncio.sleep(0.5)
        process.pause()
        await asyncio.sleep(60)
        process.resume(loop)
        await asyncio.sleep(5)

    with virtual() as loop:
        _played(story(loop), loop)
    assert seen == [("step 0", 0.0), ("step 1", 60.5), ("step 2", 61.5)]


def work_on_another_thread_is_done_in_order_even_by_a_slow_disk() -> None:
    done: list[int] = []

    async def life() -> None:
        delays = iter([0.5, 0.0, 0.2])
        process.slow_s = lambda: next(delays)
        await asyncio.gather(*(asyncio.to_thread(done.append, number) for number in range(3)))

    with virtual() as loop:
        process = Process("a", 1)
        _played(_joined(loop.spawn(process, life())), loop)
        assert (done, loop.time()) == ([0, 1, 2], 0.7)


async def _joined(task: asyncio.Task[object]) -> None:
    await task
