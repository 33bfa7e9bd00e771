"""Launches that a power cut left open, and a machine that starts with a clock that is not believed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.replica.lone import put, run, until

from tocsin.clock import SystemClock
from tocsin.errors import ClockNotBelieved
from tocsin.model.command import ConfirmClock, ResolveLaunch
from tocsin.model.launch import LaunchState, LaunchView
from tocsin.replica.leader import Leader, Tick
from tocsin.replica.replica import Replica
from tocsin.state import views
from tocsin.state.seal import seal_of

DAY_MS = 86_400_000
FAR = pytest.mark.parametrize("by_ms", [-DAY_MS, 40 * DAY_MS])
COUNT = 5


class _Wall(SystemClock):
    """Whose wall clock alone can be set."""

    offset_ms = 0
    ahead_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


def _left_open(data: Path, *, state: LaunchState = LaunchState.STARTED, **fields: Any) -> None:
    """Launches that were handed over in this second, and nobody knows what became of them."""

    async def create(replica: Replica, _: object) -> None:
        await replica.propose(put("s", "0 0 1 1 *", **fields))

    run(data, create)
    seal_of(data / "state.db").unlink()
    with closing(sqlite3.connect(data / "state.db")) as db:
        (sid,) = db.execute("SELECT sid FROM schedule").fetchone()
        (now_ms,) = db.execute("SELECT value FROM meta WHERE key = 'time_ms'").fetchone()
        ended_ms = now_ms if state is LaunchState.IN_DOUBT else None
        columns = "lid, sid, version, instant_s, kind, state, attempt, term, started_ms, ended_ms"
        db.executemany(
            f"INSERT INTO launch ({columns}) VALUES (?, ?, 1, ?, 0, {state:d}, 1, 1, ?, ?)",
            [(lid, sid, now_ms // 1000 + lid - COUNT, now_ms, ended_ms) for lid in range(1, COUNT + 1)],
        )
        db.execute("UPDATE meta SET value = ? WHERE key = 'next_lid'", (COUNT + 1,))
        db.commit()


def _started_again(
    data: Path, by_ms: int, work: Callable[[Replica, _Wall], Awaitable[None]], *, is_cold: bool = True
) -> None:
    if is_cold:
        (data / "clock.json").write_text('{"boot": "another"}')
    clock = _Wall()
    clock.offset_ms = by_ms
    run(data, work, clock)  # type: ignore[arg-type]  # why: a clock that is set, and not one that leaps


async def _states(replica: Replica) -> set[str]:
    return {view.state for view in await _launches(replica)}


async def _launches(replica: Replica) -> list[LaunchView]:
    return (await replica.read(views.launches, limit=100)).items


async def _has_waited(replica: Replica, clock: _Wall) -> None:
    assert not replica.clock.is_believed
    await clock.wait(asyncio.Event(), 1.0)
    assert await _states(replica) == {"started"}


async def _all_are(replica: Replica, state: str) -> list[LaunchView]:
    async def seen() -> bool:
        return await _states(replica) == {state}

    await until(seen)
    return await _launches(replica)


@FAR
@pytest.mark.parametrize("is_cold", [True, False], ids=["cold", "stepped"])
def what_was_left_open_is_called_when_the_clock_is_believed(
    tmp_path: Path, by_ms: int, is_cold: bool
) -> None:
    async def work(replica: Replica, clock: _Wall) -> None:
        await _has_waited(replica, clock)
        clock.offset_ms = 0
        for view in await _all_are(replica, "succeeded"):
            assert view.ended_at is not None
            assert abs(view.ended_at.timestamp() - SystemClock().wall_ms() / 1000) < 10

    _left_open(tmp_path)
    _started_again(tmp_path, by_ms, work, is_cold=is_cold)


def a_deadline_that_passed_while_the_machine_was_off_is_kept(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _Wall) -> None:
        await _has_waited(replica, clock)
        await replica.propose(ConfirmClock(replica.clock.system_ms(), actor="ann"))
        for view in await _all_are(replica, "skipped"):
            assert "deadline" in view.reason

    begun = tmp_path / "begun"
    _left_open(tmp_path, target={"kind": "exec", "shell": f"touch {begun}"}, deadline="20s")
    _started_again(tmp_path, 8 * DAY_MS, work)
    assert not begun.exists()


def what_waits_for_the_clock_keeps_nobody_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, turn = 0, Leader.turn

    async def counted(leader: Leader) -> Tick:
        nonlocal turns
        turns += 1
        return await turn(leader)

    monkeypatch.setattr(Leader, "turn", counted)
    _left_open(tmp_path)
    _started_again(tmp_path, 8 * DAY_MS, _has_waited)
    assert turns < 20


def nobody_has_a_launch_called_again_at_a_time_that_is_not_known(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _Wall) -> None:
        name = (await _launches(replica))[0].name
        with pytest.raises(ClockNotBelieved):
            await replica.propose(ResolveLaunch(name, "relaunch"))
        await replica.propose(ResolveLaunch(name, "skipped"))
        assert await _states(replica) == {"in_doubt", "skipped"}

    _left_open(tmp_path, state=LaunchState.IN_DOUBT)
    _started_again(tmp_path, 8 * DAY_MS, work)
