"""One real replica of one machine, on a clock that a test puts forward, and several of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.replica.several import Town

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.model.command import Backfill, PutSchedule
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.replica import Replica
from tocsin.state import views


class LeapClock(SystemClock):
    """This machine's clocks, put forward together."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.ahead_s * 1000)

    def elapsed_s(self) -> float:
        return super().elapsed_s() + self.ahead_s


def run(
    data: Path,
    work: Callable[[Replica, LeapClock], Awaitable[Any]],
    clock: LeapClock | None = None,
    **given: Any,
) -> Any:
    clock = clock or LeapClock()

    async def whole() -> Any:
        replica = compose(Settings(data=data, name="one", **given), clock).replica
        await replica.start()
        try:
            return await asyncio.wait_for(work(replica, clock), 60)
        finally:
            await replica.stop()

    return asyncio.run(whole())


def put(id: str = "s", cron: str = "* * * * * *", **fields: Any) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": cron, "target": {"kind": "null"}, **fields}))


async def until(seen: Callable[[], Awaitable[Any]]) -> Any:
    clock, never = SystemClock(), asyncio.Event()
    async with asyncio.timeout(20):
        while not (found := await seen()):
            await clock.wait(never, 0.02)
    return found


async def launched(replica: Replica, count: int) -> None:
    async def seen() -> bool:
        page = await replica.read(views.launches, limit=1000)
        return sum(view.state == "succeeded" for view in page.items) >= count

    await until(seen)


def in_town(tmp_path: Path, work: Callable[[Town], Awaitable[None]]) -> None:
    async def whole() -> None:
        town = Town(tmp_path)
        try:
            await work(town)
        finally:
            await town.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


def backfill(id: str) -> Backfill:
    return Backfill(id, 0, 60)
