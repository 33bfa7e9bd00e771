"""What the keeper of a command makes of a disk that hangs."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.targets.exec_support import opened, run, shell

from tocsin.targets.exec.archive import Archive
from tocsin.targets.exec.records import Record
from tocsin.targets.exec.watch import Watch
from tocsin.testing.targets import see_through


class _HangingRecord(Record):
    """Its disk takes the first output only after the command has ended and its time is up."""

    command: subprocess.Popen[bytes]
    until_s: float

    def append(self, name: str, data: bytes) -> int:
        os.waitid(os.P_PID, self.command.pid, os.WEXITED | os.WNOWAIT)
        while time.clock_gettime(time.CLOCK_BOOTTIME) < self.until_s:
            os.sched_yield()
        return super().append(name, data)


class _Mouth:
    has_more = False

    def retry(self) -> None:
        return


def _watched(record: _HangingRecord, **order: Any) -> dict[str, Any]:
    readable, writable = os.pipe()
    wake, woken = os.pipe()
    os.set_blocking(readable, False)
    command = subprocess.Popen(["sh", "-c", "echo begun; sleep 0.2"], stdout=writable, start_new_session=True)
    os.close(writable)
    record.command, record.until_s = command, time.clock_gettime(time.CLOCK_BOOTTIME) + 1.0
    record.make()
    select.select([readable], [], [])  # so that the keeper finds an output when it first looks
    if order.pop("is_cancelled", False):
        record.ask_cancel()
        os.write(woken, b"1")
    given = {"limits": {}, "timeout_s": None, "grace_s": 5.0, "head_max": 100, "tail_max": 100, **order}
    watch = Watch(record, given, command.pid, readable, wake, _Mouth(), None)  # type: ignore[arg-type]  # why: a stub
    watch.until_over()
    how = watch.ending()
    command.returncode = how["exit_code"]
    os.close(wake)
    os.close(woken)
    return how


@pytest.mark.parametrize("order", [{"timeout_s": 0.6}, {"is_cancelled": True}])
def a_command_that_ended_while_the_disk_hung_was_neither_timed_out_nor_cancelled(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    how = _watched(_HangingRecord(str(tmp_path / "name" / "1")), **order)
    assert (how["verdict"], how["reason"], how["exit_code"]) == ("succeeded", "", 0)


def a_command_begins_when_it_is_started_and_not_when_the_disk_has_noted_it(tmp_path: Path) -> None:
    async def test() -> None:
        place = tmp_path / "exec"
        async with opened(place) as target:
            order = shell("true")
            await see_through(target, order)
            record = Path(Archive(place).record(order.name, order.attempt).path)
            late_s = time.time() + 20  # so late the disk has taken it
            os.utime(record / "command", (late_s, late_s), follow_symlinks=False)
            found = await target.lookup(order)
            assert found is not None
            assert found.called_ms is not None
            assert found.called_ms <= time.time() * 1000

    run(test)
