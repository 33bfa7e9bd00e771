"""A nats target for tests, and what is sent with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tocsin.clock import Clock, SystemClock
from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.targets.contract import Order, Outcome
from tocsin.targets.nats.settings import access_of
from tocsin.targets.nats.target import NatsTarget
from tocsin.targets.permissions import Names
from tocsin.testing.targets import order_for

SPEC = NatsSpec(subject="events.one")


def target_for(url: str, *, clock: Clock | None = None, subjects: str = "", creds: str = "") -> NatsTarget:
    """Not started."""
    return NatsTarget(access_of(url, creds, ""), clock=clock, subjects=Names.parse(subjects))


async def connected(url: str, **options: Any) -> NatsTarget:
    """Started, and connected."""
    target = target_for(url, **options)
    await target.start()
    await until_connected(target)
    return target


async def until_connected(target: NatsTarget) -> None:
    """It says so itself: while it is not connected, every order is told why."""
    probe = NatsSpec(subject="nobody.listens.to.this")
    await _until(target, probe, lambda reason: "not connected" not in reason)


async def until_told(target: NatsTarget, words: str) -> Outcome:
    """Ask until it answers in these words."""
    return await _until(target, SPEC, lambda reason: words in reason)


async def _until(target: NatsTarget, spec: NatsSpec, is_it: Callable[[str], bool]) -> Outcome:
    async with asyncio.timeout(20):
        while True:
            outcome = await target.launch(order_for(spec))
            if is_it(outcome.reason):
                return outcome
            await SystemClock().wait(asyncio.Event(), 0.01)  # only spares the processor between two looks


def numbered(count: int, *, spec: NatsSpec = SPEC, start: int = 0, **changes: Any) -> list[Order]:
    return [order_for(spec, f"suite/many-{start + number}", **changes) for number in range(count)]


async def launch(target: NatsTarget, order: Order) -> Outcome:
    """Within the time of a test."""
    async with asyncio.timeout(30):
        return await target.launch(order)
