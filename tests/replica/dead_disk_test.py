"""A disk that hangs: the replica says so, alone and among others."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.replica.lone import LeapClock, run, until

from tocsin.replica import liveness
from tocsin.replica.liveness import DISK_TAKES_NO_WRITES, DiskProbe
from tocsin.replica.replica import Replica


def a_disk_that_hangs_is_told_as_the_problem_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = threading.Event()
    may_write.set()
    write = DiskProbe.write

    def hanging(probe: DiskProbe, wall_ms: int) -> None:
        may_write.wait()
        write(probe, wall_ms)

    monkeypatch.setattr(DiskProbe, "write", hanging)
    monkeypatch.setattr(liveness, "WEDGED_S", 3.0)

    async def work(replica: Replica, clock: LeapClock) -> None:
        async def problem() -> bool:
            return replica.problem == DISK_TAKES_NO_WRITES

        async def none() -> bool:
            return replica.problem == ""

        await until(none)
        may_write.clear()
        try:
            await until(problem)
        finally:
            may_write.set()
        await until(none)

    run(tmp_path, work)
