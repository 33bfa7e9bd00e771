"""A node that kills itself with SIGKILL at a named moment of a launch. Run as a script by ``crash_points_test``.

``crasher POINT DATA SCHEDULES``: puts the schedules (a JSON file), and lives until the moment comes. With the point
``none`` it lives until every launch has ended, prints what became of them as JSON, and stops cleanly.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.journal import codec
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model import change as c
from tocsin.model.command import PutSchedule
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica import conclusion
from tocsin.replica.launcher import Launcher
from tocsin.replica.replica import Replica
from tocsin.state import views

_STARTS = (c.LaunchesStarted,)
_ENDS = (c.LaunchesSucceeded, c.LaunchesEnded, c.AttemptsFailed)

POINTS = {
    "before the start is written": ("append", _STARTS, "before"),
    "after the start is durable, before it is applied": ("append", _STARTS, "after"),
    "after the start is applied, before the target is called": ("hand_over", None, "before"),
    "after the target was called, before its outcome is written": ("append", _ENDS, "before"),
    "after the outcome is durable, before it is applied": ("append", _ENDS, "after"),
}


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(point: str) -> None:
    if point == "none":
        return
    where, kinds, when = POINTS[point]
    if where == "hand_over":
        Launcher.hand_over = _die
        return
    original = SqliteJournal.append

    async def append(self: SqliteJournal, id: bytes, raw: bytes, *rest: Any) -> None:
        is_it = any(isinstance(change, kinds or ()) for change in codec.decode(raw, 0).changes)
        if is_it and when == "before":
            _die()
        await original(self, id, raw, *rest)
        if is_it:
            _die()

    SqliteJournal.append = append


def _arm_conclusion() -> None:
    """Dies after it has concluded the first of several open launches."""
    original = conclusion.Concluder._conclude_here

    async def conclude_one(*args: Any) -> str:
        await original(*args)
        _die()
        return ""

    conclusion.Concluder._conclude_here = conclude_one


async def _live(data: Path, schedules: list[dict[str, Any]], until_ended: bool) -> None:
    replica = compose(Settings(data=data, name="crasher")).replica
    await replica.start()
    for schedule in schedules:
        await replica.propose(PutSchedule(convert(schedule)))
    clock, never = SystemClock(), asyncio.Event()
    while not (until_ended and await _all_ended(replica, len(schedules))):
        await clock.wait(never, 0.02)
    found = (await replica.read(views.launches)).items
    await replica.stop()
    print(json.dumps({view.schedule: [view.state, view.attempt, view.reason] for view in found}))


async def _all_ended(replica: Replica, count: int) -> bool:
    counts = await replica.read(views.counts, 0)
    page = await replica.read(views.launches)
    return counts.open == 0 and len(page.items) >= count


if __name__ == "__main__":
    chosen, folder, file = sys.argv[1:]
    if chosen == "during the conclusion":
        _arm_conclusion()
    else:
        _arm(chosen)
    asyncio.run(_live(Path(folder), json.loads(Path(file).read_text()), until_ended=chosen == "none"))
