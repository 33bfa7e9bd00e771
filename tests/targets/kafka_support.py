"""Orders for a topic, and a target that sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tocsin.clock import SystemClock
from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.kafka.target import KafkaTarget
from tocsin.testing.targets import order_for


def boot_s() -> float:
    """Now, as ``Order.until_s`` counts."""
    return SystemClock().elapsed_s()


def orders_for(topic: str, count: int, **changes: Any) -> list[Order]:
    return [
        order_for(KafkaSpec(topic=topic), f"suite/{n}-1700000000", schedule=f"suite/{n}", **changes)
        for n in range(count)
    ]


@asynccontextmanager
async def running(address: str, config_file: str = "", **more: Any) -> AsyncIterator[KafkaTarget]:
    target = KafkaTarget(address, config_file, **more)
    await target.start()
    try:
        yield target
    finally:
        await target.stop()


def named(orders: Sequence[Order], outcomes: Sequence[Outcome], verdict: Verdict) -> set[str]:
    """Launches that ended so."""
    pairs = zip(orders, outcomes, strict=True)
    return {order.name for order, outcome in pairs if outcome.verdict is verdict}
