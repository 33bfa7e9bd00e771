"""Does nothing and succeeds: for rehearsing schedules, and for measuring everything but the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tocsin.clock import Clock, SystemClock
from tocsin.model.target import TargetSpec
from tocsin.targets.authority import has_ended
from tocsin.targets.contract import SUCCEEDED, TOO_LATE, Order, Outcome, Output


class NullTarget:
    """Launching twice is launching once, as nothing happens either time: so it counts as idempotent."""

    kind: ClassVar[str] = "null"
    looks_up: ClassVar[bool] = False

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def idempotent(self, spec: TargetSpec) -> bool:
        return True

    async def start(self, last_entry_ms: int = 0) -> None:
        """There is nothing to get ready."""

    async def stop(self) -> None:
        """There is nothing to let go."""

    async def launch(self, order: Order) -> Outcome:
        return TOO_LATE if has_ended(order.until_s, self._clock.elapsed_s()) else SUCCEEDED

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        now_s = self._clock.elapsed_s()
        return [TOO_LATE if has_ended(order.until_s, now_s) else SUCCEEDED for order in orders]

    async def watch(self, order: Order) -> Outcome:
        return SUCCEEDED

    async def lookup(self, order: Order) -> Outcome | None:
        return None

    async def cancel(self, order: Order) -> None:
        """It is over before anyone could ask."""

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0
