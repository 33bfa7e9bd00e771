"""Whose clock is believed among several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.replica.several import StepClock, Town, put

from tocsin.clock import SystemClock
from tocsin.model.command import ConfirmClock

DAYS_MS = 40 * 86_400_000
_WEEKDAYS_MS = 5 * 86_400_000
"""A clock that is ahead of the last entry by so much after a reboot is plausible."""


def _with(
    folder: Path, started: str, known: str, work: Callable[[Town], Awaitable[None]], *, ahead_ms: int = 0
) -> None:
    async def whole() -> None:
        town = Town(folder, known)
        for name in started:
            town.clocks[name] = StepClock()
            town.clocks[name].offset_ms = ahead_ms
        try:
            await asyncio.gather(*(town.start(name) for name in started))
            leader = await town.leader()
            await leader.propose(put("s", cron="* * * * * *"))
            await _until_called(town, 1)
            await work(town)
        finally:
            await town.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


async def _until_called(town: Town, count: int) -> None:
    before = len(town.world.calls)
    await town.until(lambda: len(town.world.calls) >= before + count)


def _nothing_early(town: Town) -> None:
    now_s = SystemClock().wall_ms() / 1000
    assert max(int(call.name.rpartition("-")[2]) for call in town.world.calls) <= now_s + 1


def _nothing_decided_since(town: Town, stepped_ms: int) -> None:
    """A launch that was decided before the step may be called after it."""
    assert not [call.name for call in town.world.calls if call.order.generated_at_ms > stepped_ms]


@pytest.mark.parametrize(("started", "known"), [("ab", "ab"), ("ab", "abc"), ("abc", "abc")])
@pytest.mark.parametrize("ahead_ms", [DAYS_MS, -DAYS_MS])
def the_replica_whose_clock_did_not_step_leads(
    tmp_path: Path, started: str, known: str, ahead_ms: int
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        town.clocks[former.name].offset_ms += ahead_ms
        await town.leader(but=former.name)
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, started, known, work)


def where_all_clocks_step_nobody_decides_until_they_are_right(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        stepped_ms = leader.clock.system_ms()
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: not leader.clock.is_believed)
        await leader.propose(put("t"))
        await leader.clock.wait(asyncio.Event(), 2.5)
        _nothing_decided_since(town, stepped_ms)
        for clock in town.clocks.values():
            clock.offset_ms -= DAYS_MS
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work)


@pytest.mark.parametrize("how", ["resigns", "is cut off"])
def what_fell_due_under_a_doubted_clock_was_missed_whoever_leads_next(tmp_path: Path, how: str) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        await leader.propose(put("skip", cron="* * * * * *", missed="skip"))
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: leader.meta.undecided_since_ms > 0)
        first_s = leader.meta.undecided_since_ms // 1000 + 1
        if how == "is cut off":
            successor = await town.cut(leader.name)
        else:
            successor = next(each for each in town.replicas.values() if each is not leader)
        until_s = SystemClock().wall_ms() // 1000
        for name in town.clocks:
            if name != leader.name:
                town.clocks[name].offset_ms = 0
        await town.leader(but=leader.name)
        await _until_called(town, 4)
        called = [
            int(call.name.rpartition("-")[2]) for call in town.world.calls if call.name.startswith("skip-")
        ]
        assert not [instant_s for instant_s in called if first_s < instant_s < until_s]
        assert successor.meta.undecided_since_ms == 0

    _with(tmp_path, "abc", "abc", work)


def what_a_person_confirms_the_other_replicas_believe_too(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: not leader.clock.is_believed)
        await leader.propose(ConfirmClock(leader.clock.system_ms(), actor="ann"))
        await town.until(lambda: all(each.clock.is_believed for each in town.replicas.values()))
        await _until_called(town, 2)

    _with(tmp_path, "ab", "ab", work)


def what_a_person_confirms_holds_when_the_leader_dies_at_once(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        await leader.propose(put("skip", cron="* * * * * *", missed="skip"))
        before_s = leader.clock.wall_ms() // 1000
        for clock in town.clocks.values():
            clock.offset_ms += DAYS_MS
        await town.until(lambda: not leader.clock.is_believed)
        now_s = leader.clock.system_ms() // 1000
        await leader.propose(ConfirmClock(now_s * 1000, actor="ann"))
        successor = await town.cut(leader.name)
        await town.until(lambda: successor.clock.is_believed)
        await _until_called(town, 4)
        called = [call.name for call in town.world.calls if call.name.startswith("skip-")]
        assert not [name for name in called if before_s + 60 < int(name.rpartition("-")[2]) < now_s - 60]

    _with(tmp_path, "abc", "abc", work)


def a_restart_of_the_process_makes_no_witness_of_a_machine_that_started_with_a_wrong_clock(
    tmp_path: Path,
) -> None:
    """Two of three machines were started with the same wrong clock, and then their processes one after another."""

    async def work(town: Town) -> None:
        former = await town.leader()
        others = [name for name in town.replicas if name != former.name]
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        for name in others:
            await town.reboot(name, _WEEKDAYS_MS)
        for name in others:
            again = await town.restart(name)
            await again.parts.rounds.once()
            assert not again.clock.is_believed
            await former.parts.rounds.once()
        await _until_called(town, 3)
        assert former.is_leader
        assert former.clock.state == "steady"
        _nothing_early(town)
        for name in others:
            town.clocks[name].offset_ms = 0
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))

    _with(tmp_path, "abc", "abc", work)


def a_restart_of_the_process_makes_no_witness_for_clocks_that_stepped(tmp_path: Path) -> None:
    """All clocks stepped, one machine was started again, and then its process."""

    async def work(town: Town) -> None:
        former = await town.leader()
        other = next(name for name in town.replicas if name != former.name)
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        stepped_ms = former.clock.system_ms()
        for clock in town.clocks.values():
            clock.offset_ms += _WEEKDAYS_MS
        await town.until(lambda: not former.clock.is_believed)
        await (await town.reboot(other)).parts.rounds.once()
        await (await town.restart(other)).parts.rounds.once()
        for replica in list(town.replicas.values()):
            await replica.parts.rounds.once()
            assert replica.clock.state == "stepped"
        _nothing_decided_since(town, stepped_ms)
        for clock in town.clocks.values():
            clock.offset_ms = 0
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work)


def a_right_leader_that_is_silent_for_a_moment_is_not_outvoted_by_clocks_it_contradicted(
    tmp_path: Path,
) -> None:
    async def work(town: Town) -> None:
        former = await town.leader()
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        others = [name for name in town.replicas if name != former.name]
        for name in others:
            await (await town.reboot(name, _WEEKDAYS_MS)).parts.rounds.once()
        await town.cut(former.name)
        for name in others:
            await town.replicas[name].parts.rounds.once()
            assert not town.replicas[name].clock.is_believed
        town.heal(former.name)
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work)


async def _power_cut(town: Town) -> None:
    """For an hour. a and c show the right time then, b that of the moment when it went down. b is back first."""
    for name in "abc":
        await town.stop(name)
        town.boots[name] = 2
    town.clocks["a"].offset_ms = town.clocks["c"].offset_ms = 0
    await town.start("b")
    await town.until(lambda: town.replicas["b"].is_leader or None)
    await town.start("a")
    await town.replicas["a"].parts.rounds.once()
    await _until_called(town, 1)


def a_clock_that_was_behind_and_is_set_right_is_believed_by_one_that_was_right_before(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        await _power_cut(town)
        await town.replicas["b"].parts.rounds.once()
        town.clocks["b"].offset_ms = 0
        await _until_called(town, 2)
        await town.start("c")
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work, ahead_ms=-3_600_000)


def a_clock_that_differs_from_that_of_the_last_leader_casts_no_doubt_on_one_that_agrees(
    tmp_path: Path,
) -> None:
    """The one that was behind led, and is switched off. The other two are right."""

    async def work(town: Town) -> None:
        await _power_cut(town)
        await town.stop("b")
        await town.until(lambda: town.replicas["a"].clock.state == "doubted" or None)
        await town.restart("a")
        await town.until(lambda: town.replicas["a"].clock.state == "doubted" or None)
        await town.start("c")
        await _until_called(town, 2)
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work, ahead_ms=-3_600_000)


def a_follower_that_was_started_ahead_and_set_right_was_not_told_anything_in_the_future(
    tmp_path: Path,
) -> None:
    """Otherwise it says that nothing is decided, until that time has come, and is never too far behind."""

    async def work(town: Town) -> None:
        leader = await town.leader()
        name = next(name for name in "abc" if name != leader.name)
        await town.stop(name)
        town.boots[name] = 2
        town.clocks[name].offset_ms = 3_600_000
        await town.start(name)
        follower = town.replicas[name]
        await town.until(lambda: follower.told_ms > follower.clock.wall_ms() - 1_000)
        town.clocks[name].offset_ms = 0
        await town.until(lambda: follower.clock.state == "steady")
        now_ms = SystemClock().wall_ms()
        assert now_ms - 5_000 < follower.told_ms <= SystemClock().wall_ms()

    _with(tmp_path, "abc", "abc", work)


@pytest.mark.parametrize("ahead_ms", [20_000, -20_000])
@pytest.mark.parametrize("position", [0, 1])
def a_follower_whose_clock_is_a_little_off_does_not_lead_while_a_right_one_can(
    tmp_path: Path, ahead_ms: int, position: int
) -> None:
    """The step is one that is followed, and the leader is lost, so that there is no majority among the clocks."""

    async def work(town: Town) -> None:
        former = await town.leader()
        await town.until(lambda: all(each.clock.state == "steady" for each in town.replicas.values()))
        wrong = [name for name in "abc" if name != former.name][position]
        town.clocks[wrong].offset_ms += ahead_ms
        await former.clock.wait(asyncio.Event(), 1.0)
        successor = await town.cut(former.name)
        assert successor.name != wrong
        await _until_called(town, 2)
        _nothing_early(town)

    _with(tmp_path, "abc", "abc", work)
