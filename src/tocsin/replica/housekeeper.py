"""Targets keep records of their own (a command's output and exit status). What is older than history may go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.targets.contract import Target

log = structlog.get_logger()
EVERY_S = 3600.0


class Housekeeper:
    """Runs beside the leader, after it has concluded what was open: nothing that is still needed is old."""

    def __init__(self, targets: Mapping[str, Target], clock: Clock, retention: Retention) -> None:
        self._targets = targets
        self._clock = clock
        self._retention = retention
        self._stop = asyncio.Event()

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, EVERY_S):
            await self.tidy()

    def stop(self) -> None:
        self._stop.set()

    async def tidy(self) -> None:
        for kind, target in self._targets.items():
            try:
                gone = await target.prune(self._retention.age_ms / 1000)
            except OSError as wrong:
                log.warning("old records stay", target=kind, reason=str(wrong))
                continue
            if gone:
                log.info("old records are gone", target=kind, count=gone)
