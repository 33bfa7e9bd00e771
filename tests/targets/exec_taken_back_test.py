"""Orders that are taken back before their command begins, and the same attempt given anew."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.targets.exec_support import fifo, opened, run, shell, until

from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.exec.charge import Charge
from tocsin.targets.exec.records import VOID
from tocsin.targets.exec.target import ExecTarget
from tocsin.targets.exec.watch import ending
from tocsin.testing.targets import see_through


@asynccontextmanager
async def _on_its_way(
    target: ExecTarget, order: Order
) -> AsyncIterator[tuple[asyncio.Task[Outcome], Charge]]:
    """The launch of an order that its nursery, which stands still meanwhile, has not read."""
    os.kill(target._connect().pid, signal.SIGSTOP)
    launching = asyncio.create_task(target.launch(order))
    await until(lambda: any(charge.sends for charge in target._charges.values()))
    [charge] = target._charges.values()
    yield launching, charge
    os.kill(target._connect().pid, signal.SIGCONT)


async def _let_go(launching: asyncio.Task[Outcome]) -> None:
    launching.cancel()
    await asyncio.wait([launching])


async def _all_is_read(target: ExecTarget) -> None:
    """Orders are read one after the other: those before this one were."""
    assert (await see_through(target, shell("true", name="suite/later-1"))).verdict is Verdict.SUCCEEDED


def an_order_that_was_cancelled_on_its_way_can_be_given_anew(tmp_path: Path) -> None:
    """As a backfill does. Asked before that, its record does not say that the new order was cancelled."""

    async def test() -> None:
        async with opened(tmp_path / "exec"):
            pass  # the first one finds no records of earlier times
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done >> {tmp_path}/effect")
            os.kill(target._connect().pid, signal.SIGSTOP)
            end = asyncio.create_task(see_through(target, order))
            await until(lambda: bool(target._charges))
            await target.cancel(order)
            os.kill(target._connect().pid, signal.SIGCONT)
            cancelled = await end
            assert cancelled.is_uncalled
            assert await target.lookup(order) is None
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED
            assert (await target.launch(order)).verdict is Verdict.SUCCEEDED, (
                "once more, and it is not begun again"
            )
        assert (tmp_path / "effect").read_text() == "done\n"

    run(test)


@pytest.mark.parametrize("left_behind", ["cancel", "void", "void and cancel", "withdrawn and cancel"])
def an_order_runs_whatever_an_earlier_one_left_behind_that_was_never_begun(
    tmp_path: Path, left_behind: str
) -> None:
    """A service that was killed with its helper leaves a cancellation behind, without a claim."""

    async def test() -> None:
        async with opened(tmp_path / "exec"):
            pass  # the first one finds no records of earlier times
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done >> {tmp_path}/effect")
            record = target._archive.record(order.name, order.attempt)
            record.make()
            if "void" in left_behind:
                record.claim(VOID)
            if "withdrawn" in left_behind:
                record.claim("somebody")
                record.withdraw()
            if "cancel" in left_behind:
                record.ask_cancel()
            assert await target.lookup(order) is None
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED
        assert (tmp_path / "effect").read_text() == "done\n"

    run(test)


def an_order_that_was_cancelled_and_given_anew_is_carried_out_once(tmp_path: Path) -> None:
    """Both are on their way, to the same claim."""

    async def test() -> None:
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done >> {tmp_path}/effect")
            async with _on_its_way(target, order) as (first, _):
                await target.cancel(order)
                await _let_go(first)
                second = asyncio.create_task(see_through(target, order))
                await until(lambda: any(charge.sends for charge in target._charges.values()))
            assert (await second).verdict is Verdict.SUCCEEDED
            await _all_is_read(target)
        assert (tmp_path / "effect").read_text() == "done\n"

    run(test)


def an_order_that_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    """A leader that left office lets go of it, and the next one may be told that it was not called."""

    async def test() -> None:
        async with opened(tmp_path / "exec"):
            pass  # the first one finds no records of earlier times
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done >> {tmp_path}/effect")
            async with _on_its_way(target, order) as (launching, _):
                await _let_go(launching)
                assert await target.lookup(order) is None
            await _all_is_read(target)
        assert not (tmp_path / "effect").exists()

    run(test)


def a_refusal_of_an_order_that_was_sent_twice_keeps_the_other_one_from_being_begun(tmp_path: Path) -> None:
    """A nursery died, and a keeper that is busy may still read from it what was sent first."""

    async def test() -> None:
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done > {tmp_path}/effect")
            async with _on_its_way(target, order) as (launching, charge):
                charge.sends += 1
                target._hear({"key": charge.key, "event": "refused", "reason": "no process could be made"})
                assert (await launching).verdict is Verdict.NOT_STARTED
            await _all_is_read(target)
        assert not (tmp_path / "effect").exists()

    run(test)


def the_late_word_of_a_keeper_does_not_end_the_order_that_was_given_anew(tmp_path: Path) -> None:
    """It had found its order cancelled, and froze before it said so."""

    async def test() -> None:
        async with opened(tmp_path / "exec") as target:
            gate = fifo(tmp_path / "gate")
            order = shell(f"read line < {gate}")
            async with _on_its_way(target, order) as (first, former):
                await target.cancel(order)
                await _let_go(first)
            second = asyncio.create_task(see_through(target, order))
            await until(lambda: target._archive.record(order.name, 1).command() is not None)
            late = {**ending("cancelled", "cancelled before it started"), "is_uncalled": True}
            target._hear({"key": former.key, "event": "ended", **late})
            await asyncio.to_thread(gate.write_text, "\n")
            assert (await second).verdict is Verdict.SUCCEEDED

    run(test)
