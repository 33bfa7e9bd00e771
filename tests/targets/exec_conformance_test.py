from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Target, Verdict
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.target import ExecTarget
from tocsin.testing.targets import CLAIMS, Claim, Harness, claim_name, hold


class _ExecHarness(Harness):
    times_out_as = Verdict.FAILED

    def __init__(self, place: Path) -> None:
        self._place = place
        self._effects = place / "effects"
        self._fifo = place / "lasting"
        os.mkfifo(self._fifo)
        self._targets: list[ExecTarget] = []
        note = f'echo "$TOCSIN_LAUNCH" >> {self._effects}'
        self.succeeds = ExecSpec(shell=note)
        self.fails = ExecSpec(shell=f"{note}; exit 3")
        self.cannot_start = ExecSpec(argv=("/no/such/command",))
        # Opened for reading and writing, the fifo takes the line whether or not anyone waits for it.
        self.lasts = ExecSpec(shell=f"{note}; echo here 1<> {self._fifo}; exec sleep 1000")

    async def another(self) -> Target:
        target = ExecTarget(self._place / "exec", ExecSettings(grace_s=2))
        await target.start()
        self._targets.append(target)
        return target

    def effects(self, name: str) -> int:
        lines = self._effects.read_text().split("\n") if self._effects.exists() else []
        return Counter(lines)[name]

    async def until_lasting(self) -> None:
        await asyncio.to_thread(self._fifo.read_bytes)

    async def stop(self) -> None:
        for target in self._targets:
            await target.stop()


@asynccontextmanager
async def _harness(place: Path) -> AsyncIterator[Harness]:
    harness = _ExecHarness(place)
    harness.target = await harness.another()
    try:
        yield harness
    finally:
        await harness.stop()


@pytest.mark.parametrize("claim", CLAIMS, ids=claim_name)
def the_exec_target_conforms(claim: Claim, tmp_path: Path) -> None:
    hold(claim, _harness(tmp_path))
