"""A command starts while the leader's authority lasts, or not at all: real processes, really stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.targets.exec_support import KEEPERS_FREEZE, frozen_keeper, need_root, opened, run, shell, until

from tocsin.clock import SystemClock
from tocsin.model.target import ExecLimits
from tocsin.targets.contract import ACCEPTED, TOO_LATE, Order, Verdict
from tocsin.targets.exec import lease, link
from tocsin.targets.exec.archive import Archive
from tocsin.targets.exec.lease import line_of
from tocsin.targets.exec.records import VOID, Record
from tocsin.targets.exec.target import ExecTarget
from tocsin.testing.targets import see_through


def _marks(effects: Path, **spec: Any) -> Order:
    order = shell(f'echo "$TOCSIN_LAUNCH" >> {effects}', **spec)
    return msgspec.structs.replace(order, generated_at_ms=SystemClock().wall_ms())


def _with_authority(order: Order, for_s: float) -> Order:
    return msgspec.structs.replace(order, until_s=SystemClock().elapsed_s() + for_s)


def _record(place: Path, order: Order) -> Record:
    return Archive(place).record(order.name, order.attempt)


@contextmanager
def _paused(target: ExecTarget) -> Iterator[None]:
    """The nursery does nothing meanwhile."""
    nursery = target._connect().pid
    os.kill(nursery, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(nursery, signal.SIGCONT)


async def _until_over(moment_s: float) -> None:
    await until(lambda: SystemClock().elapsed_s() > moment_s)


def what_a_paused_nursery_took_too_long_over_never_starts_and_can_be_launched_later(tmp_path: Path) -> None:
    async def test() -> None:
        place, effects = tmp_path / "exec", tmp_path / "effects"
        async with opened(place):
            """From now on the records are whole."""
        async with opened(place) as target:
            order = _marks(effects)
            with _paused(target):
                began_s = SystemClock().elapsed_s()
                assert await target.launch(_with_authority(order, 1)) == TOO_LATE
                assert await target.lookup(order) is None
                await _until_over(began_s + 2)
            # The nursery takes orders one after the other: with this one it is past the one that came too late.
            other = shell("true", name="suite/other-1")
            assert (await see_through(target, other)).verdict is Verdict.SUCCEEDED
            record = _record(place, order)
            assert (record.claimed_by(), record.withdrawn()) == (VOID, False)
            assert not effects.exists()
            assert (await see_through(target, _with_authority(order, 1000))).verdict is Verdict.SUCCEEDED
            assert effects.read_text().split() == [order.name]

    run(test)


@pytest.mark.parametrize("user", [None, "nobody"])
def a_command_may_take_as_long_to_start_as_authority_is_renewed(tmp_path: Path, user: str | None) -> None:
    """Otherwise one that is slow to start would never be started by a leader of a cluster, and never fail."""
    if user is not None:
        need_root()

    async def test() -> None:
        effects = tmp_path / "effects"
        async with opened(tmp_path / "exec") as target:
            order = _marks(effects) if user is None else shell("true", user=user)
            with _paused(target):
                until_s = SystemClock().elapsed_s() + 2
                launching = asyncio.create_task(target.launch(_with_authority(order, 0.5)))
                while SystemClock().elapsed_s() < until_s:
                    await asyncio.sleep(0.1)
                    target.in_office(order.term, SystemClock().elapsed_s() + 1.5)
                assert not launching.done()
            outcome = await launching
            if outcome.verdict is Verdict.ACCEPTED:  # and not over already
                outcome = await target.watch(order)
            assert outcome.verdict is Verdict.SUCCEEDED
            if user is None:
                assert effects.read_text().split() == [order.name]

    run(test)


def authority_that_is_renewed_after_an_order_was_too_late_does_not_start_it(tmp_path: Path) -> None:
    async def test() -> None:
        effects = tmp_path / "effects"
        async with opened(tmp_path / "exec") as target:
            order = _marks(effects)
            with _paused(target):
                assert await target.launch(_with_authority(order, 0.5)) == TOO_LATE
                target._lease.renew(order.term, SystemClock().elapsed_s() + 1000)
            other = shell("true", name="suite/other-1")
            assert (await see_through(target, other)).verdict is Verdict.SUCCEEDED
            assert not effects.exists()
            assert (await see_through(target, _with_authority(order, 1000))).verdict is Verdict.SUCCEEDED
            assert effects.read_text().split() == [order.name]

    run(test)


def authority_that_is_renewed_does_not_move_the_deadline(tmp_path: Path) -> None:
    async def test() -> None:
        effects = tmp_path / "effects"
        async with opened(tmp_path / "exec") as target:
            order = _with_authority(_marks(effects), 1000)
            order = msgspec.structs.replace(order, deadline_s=SystemClock().elapsed_s() + 0.5)
            with _paused(target):
                assert await target.launch(order) == TOO_LATE
            assert await target.launch(order) == TOO_LATE
            assert not effects.exists()

    run(test)


@pytest.mark.parametrize("line", [b"", b"nonsense", line_of(7, 1000.0)[:-3], line_of(8, 1000.0)])
def a_lease_that_cannot_be_read_is_none(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(line)
    descriptor = lease.opened(str(path))
    assert descriptor is not None
    try:
        assert lease.read(descriptor, 7) is None
        path.write_bytes(line_of(7, 1234.5))
        assert lease.read(descriptor, 7) == 1234.5
    finally:
        os.close(descriptor)
    assert lease.read(lease.opened(str(tmp_path / "none")), 7) is None


def the_refusal_of_an_earlier_hand_over_is_not_taken_for_that_of_a_later_one(tmp_path: Path) -> None:
    async def test() -> None:
        place, effects = tmp_path / "exec", tmp_path / "effects"
        async with opened(place) as target:
            order = _marks(effects)
            with _paused(target):
                assert await target.launch(_with_authority(order, 0.2)) == TOO_LATE
                again = asyncio.create_task(see_through(target, _with_authority(order, 1000)))
                await until(lambda: any(charge.sends for charge in target._charges.values()))
            assert (await again).verdict is Verdict.SUCCEEDED
            assert effects.read_text().split() == [order.name]

    run(test)


def what_was_launched_in_time_is_found_by_one_who_comes_too_late(tmp_path: Path) -> None:
    async def test() -> None:
        order = _marks(tmp_path / "effects")
        async with opened(tmp_path / "exec") as target:
            first = await see_through(target, order)
            assert first.verdict is Verdict.SUCCEEDED
            assert await target.launch(_with_authority(order, 0)) == first

    run(test)


@pytest.mark.parametrize("limits", [ExecLimits(), ExecLimits(cpu_seconds=10)], ids=["spawned", "forked"])
@pytest.mark.parametrize("early", [True, False], ids=["told", "asked"])
def a_keeper_paused_after_its_claim_gives_it_back(
    limits: ExecLimits, early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_START", KEEPERS_FREEZE)

    async def test() -> None:
        place, effects = tmp_path / "exec", tmp_path / "effects"
        async with opened(place) as target:
            order = _with_authority(_marks(effects, limits=limits), 0.5)
            end = asyncio.create_task(see_through(target, order))
            keeper = await frozen_keeper(_record(place, order))
            assert order.until_s is not None
            if early:  # somebody else asks while nobody can know
                assert await ExecTarget(place).lookup(order) == ACCEPTED
            await _until_over(order.until_s + (0 if early else 0.2))
            os.kill(keeper, signal.SIGCONT)
            assert (await end) == TOO_LATE
            assert not effects.exists()
            assert _record(place, order).claimed_by() is None
            end = asyncio.create_task(see_through(target, _with_authority(order, 1000)))
            os.kill(await frozen_keeper(_record(place, order)), signal.SIGCONT)
            assert (await end).verdict is Verdict.SUCCEEDED
            assert effects.read_text().split() == [order.name]

    run(test)
