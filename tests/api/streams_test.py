"""What streams are made from: entries up to the one applied, and word of the next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.api.resources.events import Wanted, _frames
from tocsin.api.resources.streams import Streams
from tocsin.config import Settings
from tocsin.errors import Gap
from tocsin.model.command import PutSchedule
from tocsin.model.event import Place
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.notices import Applied
from tocsin.replica.replica import Replica


def _with_replica(data: Path, work: Callable[[Replica], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        replica = compose(Settings(data=data, name="one")).replica
        await replica.start()
        try:
            return await work(replica)
        finally:
            await replica.stop()

    return asyncio.run(run())


async def _stays() -> bool:
    return True


def _put(id: str) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": "0 0 29 2 *", "target": {"kind": "null"}}))


def _data(frame: bytes) -> list[Any]:
    lines = frame.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def a_reader_that_was_overtaken_is_told_what_it_missed(tmp_path: Path) -> None:
    """It had begun in time, and was so slow that the entries before it were trimmed away."""

    async def work(replica: Replica) -> None:
        for number in range(4):
            await replica.propose(_put(f"s{number}"))
        wanted = Wanted("", None, frozenset(), lambda _: True)
        frames = _frames(replica, Streams(replica), Place(1, 0), "", wanted, _stays, True)
        await anext(frames)
        assert _data(await anext(frames))[0]["id"] == f"1.0-{replica.meta.mark}"
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        await replica.propose(_put("later"))
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        (gap,) = _data(await anext(frames))
        first = await replica.first_kept()
        assert (gap["kind"], gap["first_sequence"], gap["last_sequence"]) == ("gap", 2, first - 1)
        (event,) = _data(await anext(frames))
        assert (event["kind"], event["schedule"]) == ("schedule.created", "later")
        await frames.aclose()

    _with_replica(tmp_path, work)


def entries_come_in_order_and_never_beyond_the_one_applied(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        for number in range(5):
            await replica.propose(_put(f"s{number}"))
        newest = replica.meta.seq
        assert [seq for seq, _ in await replica.entries(0, 3)] == [1, 2, 3]
        assert [seq for seq, _ in await replica.entries(3, 100)] == list(range(4, newest + 1))
        assert await replica.entries(newest, 10) == []
        assert await replica.entries(newest + 7, 10) == []
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        await replica.propose(_put("later"))
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        with pytest.raises(Gap):
            await replica.entries(0, 3)

    _with_replica(tmp_path, work)


def whoever_waits_is_woken_by_what_is_applied(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        newest = replica.meta.seq
        assert await replica.applied.wait_beyond(newest - 1) == newest, "it is there already"
        waiting = [asyncio.create_task(replica.applied.wait_beyond(newest)) for _ in range(3)]
        await replica.propose(_put("s"))
        assert await asyncio.gather(*waiting) == [newest + 1] * 3

    _with_replica(tmp_path, work)


def a_wait_can_be_cancelled_and_ends_with_the_replica() -> None:
    async def whole() -> None:
        applied = Applied(7)
        cancelled = asyncio.create_task(applied.wait_beyond(7))
        ended = asyncio.create_task(applied.wait_beyond(7))
        await asyncio.sleep(0)
        cancelled.cancel()
        applied.end()
        assert await ended == 7
        assert await applied.wait_beyond(100) == 7
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(whole())
