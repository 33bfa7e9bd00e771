"""Clocks that step, and machines that sleep: the real loop on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.model.command import PutSchedule
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.replica import Replica
from tocsin.state import views


class _StepClock(SystemClock):
    """This machine's clock, moved."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


def _with_clock(data: Path, work: Callable[[Replica, _StepClock], Awaitable[None]], **policies: Any) -> None:
    async def run() -> None:
        clock = _StepClock()
        replica = compose(Settings(data=data, name="one"), clock).replica
        await replica.start()
        schedule = {"id": "s", "cron": "* * * * * *", "target": {"kind": "null"}, **policies}
        await replica.propose(PutSchedule(convert(schedule)))
        try:
            await asyncio.wait_for(work(replica, clock), 60)
        finally:
            await replica.stop()

    asyncio.run(run())


async def _instants(replica: Replica) -> list[int]:
    page = await replica.read(views.launches, limit=1000)
    return sorted(int(view.scheduled_at.timestamp()) for view in page.items)


async def _until_more(replica: Replica, clock: _StepClock, count: int) -> list[int]:
    """Wait for so many launches more than there are."""
    before = len(await _instants(replica))
    never = asyncio.Event()
    while len(await _instants(replica)) < before + count:
        await clock.wait(never, 0.02)
    return await _instants(replica)


def a_clock_stepped_forward_launches_the_last_and_goes_on(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 2)
        clock.offset_ms += 3_600_000
        after = await _until_more(replica, clock, 3)
        fresh = after[len(before) :]
        assert fresh[0] >= before[-1] + 3_590, "only the last missed one is launched"
        assert fresh == list(range(fresh[0], fresh[0] + len(fresh))), (
            "then the timeline goes on without a hole"
        )
        assert replica.meta.present_since_ms - replica.meta.absent_since_ms > 3_500_000

    _with_clock(tmp_path, work, missed="last")


def a_clock_stepped_forward_loses_nothing_under_all(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 1)
        clock.offset_ms += 300_000
        after = await _until_more(replica, clock, 302)
        assert after == list(range(before[0], after[-1] + 1))

    _with_clock(tmp_path, work, missed="all")


def a_clock_stepped_back_doubles_nothing_and_loses_nothing(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 3)
        clock.offset_ms -= 5_000
        after = await _until_more(replica, clock, 3)
        assert max(Counter(after).values()) == 1
        assert after == list(range(before[0], after[-1] + 1))

    _with_clock(tmp_path, work)


def a_second_that_comes_twice_is_launched_once(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        for _ in range(5):
            await _until_more(replica, clock, 1)
            clock.offset_ms -= 900
        after = await _until_more(replica, clock, 1)
        assert after == list(range(after[0], after[-1] + 1))

    _with_clock(tmp_path, work)
