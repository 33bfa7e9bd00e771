"""``/live``: nothing goes on for a reader who has left, in whichever moment that was."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.clock import SystemClock
from tocsin.replica.notices import Applied
from tocsin.ui.live import _ticks


@pytest.mark.parametrize("turns", range(6))
def a_reader_who_leaves_just_when_something_happens_is_gone(turns: int) -> None:
    """As everybody does who acts, and goes on to another page."""

    async def whole() -> None:
        applied = Applied(1)
        status = SimpleNamespace(sequence=1, leader="a", term=1, role="leader")
        replica: Any = SimpleNamespace(
            applied=applied, meta=SimpleNamespace(seq=1), clock=SystemClock(), status=lambda: status
        )
        is_told = asyncio.Event()

        async def read() -> None:
            async for _ in _ticks(replica, asyncio.Event(), lambda: True):
                is_told.set()

        reader = asyncio.create_task(read())
        await is_told.wait()
        await asyncio.sleep(0)
        replica.meta.seq = 2
        applied.notice(2)
        for _ in range(turns):
            await asyncio.sleep(0)
        reader.cancel()
        done, _ = await asyncio.wait([reader], timeout=5)
        assert done

    asyncio.run(whole())
