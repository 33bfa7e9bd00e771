"""Clocks that step, and machines that sleep: the real loop on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.api.door.access import new_token
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.decide.clock import Bounds
from tocsin.errors import ClockNotBelieved, Refused, Unauthenticated
from tocsin.model.command import (
    ConfirmClock,
    CreateToken,
    DeleteSchedule,
    NoteTokenUse,
    PutSchedule,
    RepairDue,
)
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.replica import Replica
from tocsin.state import views

DAY_MS = 86_400_000


class _StepClock(SystemClock):
    """This machine's clock, moved."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


def _with_clock(
    data: Path,
    work: Callable[[Replica, _StepClock], Awaitable[None]],
    given: _StepClock | None = None,
    *,
    puts: bool = True,
    **policies: Any,
) -> None:
    async def run() -> None:
        clock = given or _StepClock()
        replica = compose(Settings(data=data, name="one"), clock).replica
        await replica.start()
        schedule = {"id": "s", "cron": "* * * * * *", "target": {"kind": "null"}, **policies}
        try:
            if puts:
                await replica.propose(PutSchedule(convert(schedule)))
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


async def _stopped(replica: Replica, clock: _StepClock) -> None:
    """The step was seen, and what was under way has ended."""
    await _until(clock, lambda: not replica.clock.is_believed)
    await replica.propose(NoteTokenUse({}))


async def _until(clock: _StepClock, seen: Callable[[], bool]) -> None:
    never = asyncio.Event()
    while not seen():
        await clock.wait(never, 0.02)


async def _confirm(replica: Replica) -> None:
    await replica.propose(ConfirmClock(replica.clock.system_ms(), actor="ann"))


def _next_s(replica: Replica) -> int:
    (found,) = replica._store.db.execute("SELECT instant_s FROM due").fetchone()
    return int(found)


def three_seconds_forty_days_ahead_change_nothing(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 2)
        stepped_s = replica.clock.system_ms() // 1000
        clock.offset_ms += 40 * DAY_MS
        await _stopped(replica, clock)
        await clock.wait(asyncio.Event(), 3.0)
        assert max(await _instants(replica)) <= stepped_s, "nothing is launched meanwhile"
        assert abs(replica.meta.time_ms - SystemClock().wall_ms()) < 10_000
        clock.offset_ms -= 40 * DAY_MS
        after = await _until_more(replica, clock, 4)
        assert after == list(range(before[0], after[-1] + 1)), "nothing is lost"
        assert _next_s(replica) <= SystemClock().wall_ms() // 1000 + 2
        assert not replica.meta.is_due_ahead

    _with_clock(tmp_path, work)


def commands_are_carried_out_by_the_time_that_is_believed(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        clock.offset_ms += 40 * DAY_MS
        await _stopped(replica, clock)
        await replica.propose(
            PutSchedule(convert({"id": "t", "cron": "@hourly", "target": {"kind": "null"}}))
        )
        view = await replica.read(views.schedule, "t")
        assert view.next is not None
        assert view.next.timestamp() < SystemClock().wall_ms() / 1000 + 3600

    _with_clock(tmp_path, work)


def no_token_expires_by_a_clock_that_is_not_believed(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        token, _ = new_token("ops", ("admin",), (), clock.wall_ms() + DAY_MS)
        await replica.propose(CreateToken(token))
        clock.offset_ms += 40 * DAY_MS
        await _stopped(replica, clock)
        await replica.propose(ConfirmClock(replica.clock.system_ms(), bearer=token.id))
        with pytest.raises(Unauthenticated):
            await replica.propose(DeleteSchedule("s", bearer=token.id))

    _with_clock(tmp_path, work)


def a_confirmed_step_forward_launches_the_last_and_goes_on(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 2)
        clock.offset_ms += 3_600_000
        await _stopped(replica, clock)
        before = await _instants(replica)
        await _confirm(replica)
        after = await _until_more(replica, clock, 3)
        fresh = after[len(before) :]
        assert fresh[0] >= before[-1] + 3_590, "only the last missed one is launched"
        assert fresh == list(range(fresh[0], fresh[0] + len(fresh))), (
            "then the timeline goes on without a hole"
        )
        assert replica.meta.present_since_ms - replica.meta.absent_since_ms > 3_500_000

    _with_clock(tmp_path, work, missed="last")


def a_confirmed_step_forward_loses_nothing_under_all(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 1)
        clock.offset_ms += 300_000
        await _stopped(replica, clock)
        await _confirm(replica)
        after = await _until_more(replica, clock, 302)
        assert after == list(range(before[0], after[-1] + 1))

    _with_clock(tmp_path, work, missed="all")


def only_what_the_clock_shows_can_be_confirmed(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        with pytest.raises(Refused, match="nothing to confirm"):
            await _confirm(replica)
        clock.offset_ms += 40 * DAY_MS
        await _stopped(replica, clock)
        with pytest.raises(Refused, match="shows"):
            await replica.propose(ConfirmClock(SystemClock().wall_ms()))

    _with_clock(tmp_path, work)


def a_wrong_confirmation_can_be_repaired(tmp_path: Path) -> None:
    """Forty days ahead and confirmed, then set right and confirmed again."""

    async def work(replica: Replica, clock: _StepClock) -> None:
        await _until_more(replica, clock, 1)
        for ahead_ms in (40 * DAY_MS, -40 * DAY_MS):
            clock.offset_ms += ahead_ms
            await _stopped(replica, clock)
            await _confirm(replica)
            await _until(clock, lambda: replica.meta.time_ms - clock.wall_ms() in range(-2_000, 2_000))
            if ahead_ms > 0:
                await _until_more(replica, clock, 2)
        assert replica.meta.is_due_ahead
        assert _next_s(replica) > clock.wall_ms() // 1000 + 39 * 86_400
        await replica.propose(RepairDue(["s"], is_last=True))
        assert not replica.meta.is_due_ahead
        after = await _until_more(replica, clock, 3)
        assert max(Counter(after).values()) == 1
        near = [instant_s for instant_s in after if instant_s < clock.wall_ms() // 1000 + 60]
        assert near[-3:] == list(range(near[-3], near[-3] + 3))

    _with_clock(tmp_path, work)


def a_cold_start_with_a_clock_far_ahead_waits_for_a_person(tmp_path: Path) -> None:
    clock = _StepClock()

    async def first(replica: Replica, clock: _StepClock) -> None:
        await _until_more(replica, clock, 1)

    _with_clock(tmp_path, first, clock)
    (tmp_path / "clock.json").write_text('{"boot": "another", "offset_ms": 0}')
    clock.offset_ms += 40 * DAY_MS

    async def second(replica: Replica, clock: _StepClock) -> None:
        count = len(await _instants(replica))
        assert replica.clock.state == "unknown"
        with pytest.raises(ClockNotBelieved):
            await replica.propose(
                PutSchedule(convert({"id": "t", "cron": "@hourly", "target": {"kind": "null"}}))
            )
        await clock.wait(asyncio.Event(), 1.5)
        assert len(await _instants(replica)) == count
        clock.offset_ms -= 40 * DAY_MS
        await _until_more(replica, clock, 2)
        assert replica.clock.is_believed

    _with_clock(tmp_path, second, clock, puts=False)


def a_clock_stepped_back_doubles_nothing_and_loses_nothing(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        before = await _until_more(replica, clock, 3)
        clock.offset_ms -= 5_000
        after = await _until_more(replica, clock, 3)
        assert max(Counter(after).values()) == 1
        assert after == list(range(before[0], after[-1] + 1))

    _with_clock(tmp_path, work)


def a_clock_that_goes_back_within_its_bounds_silences_nothing(tmp_path: Path) -> None:
    """However far it may step, the journal hears of it: what waits does so from now on, and an issue is raised."""

    async def work(replica: Replica, clock: _StepClock) -> None:
        replica.clock.bounds = Bounds(step_ms=DAY_MS)
        await _until_more(replica, clock, 2)
        clock.offset_ms += 6 * 3_600_000
        await _until_more(replica, clock, 2)
        clock.offset_ms -= 6 * 3_600_000
        await _until(clock, lambda: bool(replica.meta.is_due_ahead))
        assert replica.clock.is_believed
        await replica.propose(RepairDue(["s"], is_last=True))
        await _until_more(replica, clock, 2)

    _with_clock(tmp_path, work)


def a_second_that_comes_twice_is_launched_once(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: _StepClock) -> None:
        for _ in range(5):
            await _until_more(replica, clock, 1)
            clock.offset_ms -= 900
        after = await _until_more(replica, clock, 1)
        assert after == list(range(after[0], after[-1] + 1))

    _with_clock(tmp_path, work)
