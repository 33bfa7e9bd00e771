"""The claims that every target must pass.

To use them, describe the target to them with a ``Harness``::

    @pytest.mark.parametrize("claim", CLAIMS, ids=claim_name)
    def my_target_conforms(claim):
        hold(claim, my_harness())        # an async context manager that gives a Harness

A claim that does not apply, because the harness has no order of that sort, passes without saying anything.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import msgspec

from tocsin.clock import SystemClock
from tocsin.model.target import TargetSpec
from tocsin.targets.authority import AUTHORITY_ENDED
from tocsin.targets.contract import BatchTarget, Order, Outcome, Target, Verdict

_LONG_S = 20.0
"""No claim takes this long unless something hangs."""
_COARSE_MS = 20
"""A target may take the time of a call from a file system, whose clock is a little behind."""


class Harness(ABC):
    """A target, what to order from it, and how to see what its receiver did."""

    target: Target
    """Started."""
    succeeds: TargetSpec
    fails: TargetSpec | None = None
    """Fails in a way that another try may mend."""
    fails_for_good: TargetSpec | None = None
    cannot_start: TargetSpec | None = None
    """Nothing goes out: no such command, nobody listens."""
    lasts: TargetSpec | None = None
    """Has its effect at once and then goes on until it is cancelled."""
    times_out_as: Verdict = Verdict.UNKNOWN
    """FAILED only for a target that itself ends, for certain, what takes too long."""

    @abstractmethod
    async def another(self) -> Target:
        """A second target over the same receiver, as after a restart; started."""

    @abstractmethod
    def effects(self, name: str) -> int:
        """How often the receiver acted on that name."""

    async def until_lasting(self) -> None:
        """Wait until the receiver is at work on an order that lasts. Not asked for without ``lasts``."""
        raise AssertionError("a harness that has an order that lasts must say how to wait for it")


def order_for(spec: TargetSpec, name: str = "suite/one-1700000000", **changes: Any) -> Order:
    """An order to try a target with."""
    order = Order(
        name=name,
        schedule="suite/one",
        scheduled_at_s=1_700_000_000,
        attempt=1,
        term=7,
        generated_at_ms=1_700_000_000_123,
        target=spec,
        payload=b'{"n":1}',
    )
    return msgspec.structs.replace(order, **changes)


def _boot_s() -> float:
    """Now, as ``Order.until_s`` counts."""
    return SystemClock().elapsed_s()


async def see_through(target: Target, order: Order) -> Outcome:
    """Launch it and wait for its end."""
    outcome = await target.launch(order)
    return await target.watch(order) if outcome.verdict is Verdict.ACCEPTED else outcome


async def a_launch_succeeds_and_has_one_effect(harness: Harness) -> None:
    order = order_for(harness.succeeds)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is Verdict.SUCCEEDED, outcome
    assert harness.effects(order.name) == 1


async def a_failure_is_failed_and_may_be_tried_again(harness: Harness) -> None:
    if harness.fails is None:
        return
    order = order_for(harness.fails)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is Verdict.FAILED, outcome
    assert not outcome.permanent
    assert outcome.reason
    assert harness.effects(order.name) == 1


async def a_failure_for_good_is_permanent(harness: Harness) -> None:
    if harness.fails_for_good is None:
        return
    outcome = await see_through(harness.target, order_for(harness.fails_for_good))
    assert outcome.verdict is Verdict.FAILED, outcome
    assert outcome.permanent


async def what_cannot_start_is_not_started_and_has_no_effect(harness: Harness) -> None:
    if harness.cannot_start is None:
        return
    order = order_for(harness.cannot_start)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is Verdict.NOT_STARTED, outcome
    assert outcome.reason
    assert harness.effects(order.name) == 0


async def a_further_attempt_has_an_effect_of_its_own(harness: Harness) -> None:
    for attempt in (1, 2):
        order = order_for(harness.succeeds, attempt=attempt)
        assert (await see_through(harness.target, order)).verdict is Verdict.SUCCEEDED
        assert harness.effects(order.name) == attempt


async def a_second_launch_of_the_same_attempt_has_no_second_effect(harness: Harness) -> None:
    if not harness.target.looks_up:
        return
    order = order_for(harness.succeeds)
    first = await see_through(harness.target, order)
    for target in (harness.target, await harness.another()):
        assert await see_through(target, order) == first
    assert harness.effects(order.name) == 1


async def a_look_up_finds_what_has_ended(harness: Harness) -> None:
    if not harness.target.looks_up:
        return
    order = order_for(harness.fails or harness.succeeds)
    outcome = await see_through(harness.target, order)
    for target in (harness.target, await harness.another()):
        assert await target.lookup(order) == outcome


async def a_look_up_finds_what_still_runs(harness: Harness) -> None:
    if not harness.target.looks_up or harness.lasts is None:
        return
    order = order_for(harness.lasts)
    launched = await harness.target.launch(order)
    assert launched.verdict is Verdict.ACCEPTED, launched
    another = await harness.another()
    found = await another.lookup(order)
    assert found is not None
    assert found.verdict is Verdict.ACCEPTED, found
    await another.cancel(order)
    assert (await another.watch(order)).verdict is Verdict.CANCELLED


async def a_look_up_of_what_was_never_launched_finds_nothing(harness: Harness) -> None:
    found = await harness.target.lookup(order_for(harness.succeeds))
    assert found is None or found.verdict is Verdict.UNKNOWN, found


async def what_lasts_can_be_cancelled(harness: Harness) -> None:
    if harness.lasts is None:
        return
    order = order_for(harness.lasts)
    end = asyncio.create_task(see_through(harness.target, order))
    await harness.until_lasting()
    await harness.target.cancel(order)
    outcome = await end
    assert outcome.verdict is Verdict.CANCELLED, outcome


async def to_cancel_what_does_not_run_is_harmless(harness: Harness) -> None:
    order = order_for(harness.succeeds)
    await harness.target.cancel(order)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is Verdict.SUCCEEDED, outcome
    await harness.target.cancel(order)
    if harness.target.looks_up:
        assert await harness.target.lookup(order) == outcome


async def to_run_out_of_time_is_no_failure_unless_it_was_ended(harness: Harness) -> None:
    if harness.lasts is None:
        return
    order = order_for(harness.lasts, timeout_s=0.3)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is harness.times_out_as, outcome
    assert "0.3s" in outcome.reason


async def a_caller_that_is_cancelled_is_let_go(harness: Harness) -> None:
    if harness.lasts is None:
        return
    order = order_for(harness.lasts)
    caller = asyncio.create_task(see_through(harness.target, order))
    await harness.until_lasting()
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller
    assert caller.cancelled()
    await harness.target.cancel(order)


async def many_at_once_have_one_effect_each(harness: Harness) -> None:
    orders = [order_for(harness.succeeds, f"suite/many-{number}") for number in range(100)]
    outcomes = await asyncio.gather(*(see_through(harness.target, order) for order in orders))
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert {harness.effects(order.name) for order in orders} == {1}


async def a_batch_has_one_outcome_an_order(harness: Harness) -> None:
    if not isinstance(harness.target, BatchTarget):
        return
    orders = [order_for(harness.succeeds, f"suite/batch-{number}") for number in range(100)]
    outcomes = await harness.target.launch_batch(orders)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.SUCCEEDED] * len(orders)
    assert {harness.effects(order.name) for order in orders} == {1}


async def an_order_whose_authority_has_ended_is_not_started(harness: Harness) -> None:
    order = order_for(harness.succeeds, until_s=_boot_s())
    before = harness.effects(order.name)
    outcome = await harness.target.launch(order)
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, AUTHORITY_ENDED)
    assert not outcome.permanent
    found = await harness.target.lookup(order)
    assert found is None or found.verdict is Verdict.UNKNOWN, found
    assert harness.effects(order.name) == before


async def what_came_too_late_can_be_launched_with_new_authority(harness: Harness) -> None:
    late = order_for(harness.succeeds, until_s=_boot_s())
    assert (await harness.target.launch(late)).verdict is Verdict.NOT_STARTED
    order = msgspec.structs.replace(late, until_s=_boot_s() + 1000)
    outcome = await see_through(harness.target, order)
    assert outcome.verdict is Verdict.SUCCEEDED, outcome
    if harness.target.looks_up:
        outcome = await see_through(await harness.another(), order)
        assert outcome.verdict is Verdict.SUCCEEDED, outcome
    assert harness.effects(order.name) == 1


async def authority_is_needed_to_start_and_not_to_end(harness: Harness) -> None:
    if harness.lasts is None:
        return
    order = order_for(harness.lasts, until_s=_boot_s() + 1)
    end = asyncio.create_task(see_through(harness.target, order))
    await harness.until_lasting()
    done, _ = await asyncio.wait([end], timeout=1.1)
    assert not done
    await harness.target.cancel(order)
    assert (await end).verdict is Verdict.CANCELLED


async def of_a_batch_only_what_has_authority_is_started(harness: Harness) -> None:
    if not isinstance(harness.target, BatchTarget):
        return
    ends = [_boot_s(), _boot_s() + 1000, None]
    orders = [order_for(harness.succeeds, f"suite/late-{n}", until_s=end) for n, end in enumerate(ends)]
    outcomes = await harness.target.launch_batch(orders)
    expected = [Verdict.NOT_STARTED, Verdict.SUCCEEDED, Verdict.SUCCEEDED]
    assert [outcome.verdict for outcome in outcomes] == expected


async def a_time_of_the_call_lies_between_order_and_end(harness: Harness) -> None:
    clock = SystemClock()
    since_ms = clock.wall_ms() - _COARSE_MS
    outcome = await see_through(harness.target, order_for(harness.succeeds))
    if outcome.called_ms is not None:
        assert since_ms <= outcome.called_ms <= clock.wall_ms(), outcome


async def what_cannot_start_has_no_time_of_a_call(harness: Harness) -> None:
    if harness.cannot_start is None:
        return
    outcome = await see_through(harness.target, order_for(harness.cannot_start))
    assert outcome.called_ms is None, outcome


async def what_was_never_launched_has_no_output(harness: Harness) -> None:
    assert await harness.target.output("suite/never-1", 1) is None


Claim = Callable[[Harness], Awaitable[None]]

CLAIMS: Sequence[Claim] = (
    a_launch_succeeds_and_has_one_effect,
    a_failure_is_failed_and_may_be_tried_again,
    a_failure_for_good_is_permanent,
    what_cannot_start_is_not_started_and_has_no_effect,
    a_further_attempt_has_an_effect_of_its_own,
    a_second_launch_of_the_same_attempt_has_no_second_effect,
    a_look_up_finds_what_has_ended,
    a_look_up_finds_what_still_runs,
    a_look_up_of_what_was_never_launched_finds_nothing,
    what_lasts_can_be_cancelled,
    to_cancel_what_does_not_run_is_harmless,
    to_run_out_of_time_is_no_failure_unless_it_was_ended,
    a_caller_that_is_cancelled_is_let_go,
    many_at_once_have_one_effect_each,
    a_batch_has_one_outcome_an_order,
    an_order_whose_authority_has_ended_is_not_started,
    what_came_too_late_can_be_launched_with_new_authority,
    authority_is_needed_to_start_and_not_to_end,
    of_a_batch_only_what_has_authority_is_started,
    a_time_of_the_call_lies_between_order_and_end,
    what_cannot_start_has_no_time_of_a_call,
    what_was_never_launched_has_no_output,
)


def claim_name(claim: Claim) -> str:
    """The claim in words, for the test's report."""
    return getattr(claim, "__name__", repr(claim))


def hold(claim: Claim, harness: AbstractAsyncContextManager[Harness]) -> None:
    """Try one claim in an event loop of its own."""

    async def held() -> None:
        async with harness as given, asyncio.timeout(_LONG_S):
            await claim(given)

    asyncio.run(held())
