"""The real loop with real targets: what callers and people do to it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kill.receiver import HttpReceiver

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.errors import InvalidInput, SnapshotDamaged
from tocsin.model.command import (
    CancelLaunch,
    ConfirmClock,
    LaunchNow,
    MakeCheckpoint,
    PutSchedule,
    SwitchSchedule,
)
from tocsin.model.launch import LaunchState
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.replica import Replica
from tocsin.state import snapshot, views
from tocsin.state.store import Store


class _StepClock(SystemClock):
    offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


def _run(data: Path, work: Callable[[Replica], Awaitable[Any]], clock: SystemClock | None = None) -> Any:
    async def whole() -> Any:
        replica = compose(Settings(data=data, name="one", kill_grace="1s"), clock).replica
        await replica.start()
        try:
            return await asyncio.wait_for(work(replica), 60)
        finally:
            await replica.stop()

    return asyncio.run(whole())


def _put(
    id: str, cron: str = "0 0 1 1 *", target: dict[str, Any] | None = None, **fields: Any
) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": cron, "target": target or {"kind": "null"}, **fields}))


async def _until(replica: Replica, states: set[str], count: int = 1) -> list[Any]:
    """Wait for so many launches in these states."""
    clock, never = SystemClock(), asyncio.Event()
    while True:
        page = await replica.read(views.launches, limit=1000)
        found = [view for view in page.items if view.state in states]
        if len(found) >= count:
            return found
        await clock.wait(never, 0.02)


def a_run_now_that_replaces_stops_what_runs(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        await replica.propose(_put("s", target={"kind": "exec", "shell": "sleep 600"}, overlap="replace"))
        await replica.propose(LaunchNow("s"))
        (first,) = await _until(replica, {"running"})
        clock, never = SystemClock(), asyncio.Event()
        while int(clock.wall_ms() / 1000) == int(first.scheduled_at.timestamp()):
            await clock.wait(never, 0.02)  # two launches by hand cannot have the same second
        await replica.propose(LaunchNow("s"))
        (stopped,) = await _until(replica, {"cancelled"})
        assert stopped.name == first.name
        (second,) = await _until(replica, {"running"})
        await replica.propose(CancelLaunch(second.name))
        await _until(replica, {"cancelled"}, 2)

    _run(tmp_path, work)


def commands_about_one_schedule_that_come_together_act_one_after_the_other(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        await asyncio.gather(
            replica.propose(_put("s", cron="* * * * * *", enabled=False)),
            replica.propose(SwitchSchedule("s", enabled=True)),
        )
        view = await replica.read(views.schedule, "s")
        assert view.enabled
        assert view.next is not None, "it would never fire"
        await _until(replica, {"succeeded"})

    _run(tmp_path, work)


def a_command_that_cannot_be_understood_does_not_stop_the_loop(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        with pytest.raises(InvalidInput):
            await replica.propose(CancelLaunch("this is no name"))
        await replica.propose(_put("s", cron="* * * * * *"))
        await _until(replica, {"succeeded"})

    _run(tmp_path, work)


def a_clock_put_back_before_the_start_is_no_absence(tmp_path: Path) -> None:
    """What falls due in the hour that comes twice is launched on its own time, not given up as missed."""
    clock = _StepClock()

    async def work(replica: Replica) -> None:
        clock.offset_ms -= 3_600_000
        await replica.propose(ConfirmClock(clock.wall_ms()))
        never = asyncio.Event()
        while replica.meta.present_since_ms > clock.wall_ms():
            await clock.wait(never, 0.02)
        await replica.propose(_put("s", cron="* * * * * *", missed="skip"))
        found = await _until(replica, {"succeeded", "skipped"}, 3)
        assert {view.state for view in found} == {"succeeded"}
        assert await replica.read(lambda db: db.execute("SELECT count(*) FROM missed").fetchone()) == (0,)

    _run(tmp_path, work, clock)


def a_clean_stop_leaves_no_doubt_about_calls_that_were_not_made(tmp_path: Path) -> None:
    receiver = HttpReceiver()
    at = f"@at {SystemClock().wall_ms() // 1000 + 2}"
    target = {"kind": "http", "url": receiver.url}

    async def herd(replica: Replica) -> None:
        puts = [replica.propose(_put(f"s{number}", cron=at, target=target)) for number in range(1500)]
        await asyncio.gather(*puts)
        clock, never = SystemClock(), asyncio.Event()
        while not receiver.seen:
            await clock.wait(never, 0.005)

    async def rest(replica: Replica) -> dict[int, int]:
        def by_state(db: sqlite3.Connection) -> dict[int, int]:
            return dict(db.execute("SELECT state, count(*) FROM launch GROUP BY state").fetchall())

        clock, never = SystemClock(), asyncio.Event()
        while (
            sum((await replica.read(by_state)).values()) < 1500 or (await replica.read(views.counts, 0)).open
        ):
            await clock.wait(never, 0.02)  # what had no slot was due, and is now
        return await replica.read(by_state)

    _run(tmp_path, herd)
    assert len(receiver.seen) < 1500, "the stop came too late to prove anything"
    assert _run(tmp_path, rest) == {int(LaunchState.SUCCEEDED): 1500}
    assert len({seen.name for seen in receiver.seen}) == len(receiver.seen) == 1500
    receiver.close()


def a_state_found_damaged_in_use_is_rebuilt_at_the_next_start(tmp_path: Path) -> None:
    async def fill(replica: Replica) -> None:
        for number in range(300):
            await replica.propose(_put(f"s{number}"))

    _run(tmp_path, fill)

    def damage(db: sqlite3.Connection) -> None:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'due'").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with (tmp_path / "state.db").open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)

    async def meet_damage(replica: Replica) -> BaseException | None:
        # In the thread of the state: elsewhere the checkpoint could meet a transaction of it.
        await asyncio.get_running_loop().run_in_executor(replica._writer, damage, replica._store.db)
        proposing = asyncio.create_task(replica.propose(_put("one-more")))
        error = await asyncio.wait_for(replica.failed(), 10)
        proposing.cancel()
        return error

    assert isinstance(_run(tmp_path, meet_damage), sqlite3.DatabaseError)

    async def count(replica: Replica) -> int:
        return len((await replica.read(views.schedules, limit=1000)).items)

    assert _run(tmp_path, count) in (300, 301)  # the last one may have reached the journal


def a_snapshot_is_not_made_of_a_damaged_state(tmp_path: Path) -> None:
    async def work(replica: Replica) -> None:
        for number in range(300):
            await replica.propose(_put(f"s{number}"))
        await replica.snapshot_now()
        await replica.parts.rounds.once()
        newest = replica.snapshotter.newest
        replica._store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = replica._store.db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'due_by_schedule'"
        ).fetchone()
        with (tmp_path / "state.db").open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
        await replica.propose(_put("one-more", enabled=False))
        making = asyncio.create_task(replica.snapshot_now())
        assert isinstance(await replica.failed(), SnapshotDamaged)
        making.cancel()
        assert replica.snapshotter.newest == newest

    _run(tmp_path, work)


def a_turn_with_nothing_to_do_asks_the_state_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle leader takes a turn a second: what is due and when the next thing is due are one question."""
    turns: list[tuple[int, int | None]] = []

    async def work(replica: Replica) -> None:
        await replica.propose(_put("s", "0 0 1 1 *"))
        leader = replica.parts.career.leader
        assert leader is not None
        ask, turn, asked = leader._on_state, leader.turn, 0

        async def counted(*question: Any) -> Any:
            nonlocal asked
            asked += 1
            return await ask(*question)

        async def observed() -> Any:
            nonlocal asked
            asked, seq = 0, replica.meta.seq
            tick = await turn()
            if replica.meta.seq == seq:
                turns.append((asked, tick.next_ms))
            return tick

        monkeypatch.setattr(leader, "_on_state", counted)
        monkeypatch.setattr(leader, "turn", observed)
        clock, never = SystemClock(), asyncio.Event()
        while len(turns) < 3:
            await clock.wait(never, 0.02)
        (next_ms,) = await replica.read(lambda db: db.execute("SELECT min(at_ms) FROM due").fetchone())
        assert turns == [(1, next_ms)] * 3

    _run(tmp_path, work)


def a_checkpoint_without_a_reader_makes_no_snapshot_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when no descriptor is left: the entry is committed, and must not be applied again."""
    reader = Store.reader
    failed: list[int] = []

    def sometimes(store: Store) -> sqlite3.Connection:
        if not failed:
            failed.append(store.meta.seq)
            raise sqlite3.OperationalError("unable to open database file")
        return reader(store)

    async def work(replica: Replica) -> None:
        monkeypatch.setattr(Store, "reader", sometimes)
        await replica.propose(MakeCheckpoint())
        await replica.propose(_put("behind"))
        assert failed
        assert snapshot.manifests(tmp_path / "snapshots") == []
        await replica.propose(MakeCheckpoint())
        async with asyncio.timeout(20):
            while not snapshot.manifests(tmp_path / "snapshots"):
                await replica.clock.wait(asyncio.Event(), 0.02)

    _run(tmp_path, work)
