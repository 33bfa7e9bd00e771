"""A target that this node has not been given what it needs for: it says so, and that is certain."""

from __future__ import annotations

from tocsin.model.target import TargetSpec
from tocsin.targets.contract import Order, Outcome, Output, Verdict


class AbsentTarget:
    """Nothing goes out, so the same attempt may be made again as soon as the setting is there."""

    looks_up = False

    def __init__(self, kind: str, why: str) -> None:
        self.kind = kind
        self._why = why

    def idempotent(self, spec: TargetSpec) -> bool:
        return False

    async def start(self, last_entry_ms: int = 0) -> None:
        """There is nothing to get ready."""

    async def stop(self) -> None:
        """There is nothing to let go."""

    async def launch(self, order: Order) -> Outcome:
        return Outcome(Verdict.NOT_STARTED, self._why)

    async def watch(self, order: Order) -> Outcome:
        return Outcome(Verdict.UNKNOWN, self._why)

    async def lookup(self, order: Order) -> Outcome | None:
        """Nobody can be asked what became of it."""
        return Outcome(Verdict.UNKNOWN, self._why)

    async def cancel(self, order: Order) -> None:
        """Nothing runs."""

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0
