"""What the exec tests share: a target for the length of a test, an owner that can be killed, and waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.needs import lacking

from tocsin.clock import Clock
from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Order
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.processes import pid_of
from tocsin.targets.exec.records import Record
from tocsin.targets.exec.target import ExecTarget
from tocsin.testing.targets import order_for

LONG_S = 20.0
SETTINGS = ExecSettings(grace_s=1.0)


def shell(line: str, **spec: Any) -> Order:
    changes = {key: spec.pop(key) for key in ("payload", "timeout_s", "attempt", "name") if key in spec}
    return order_for(ExecSpec(shell=line, **spec), **changes)


@asynccontextmanager
async def opened(
    place: Path, settings: ExecSettings = SETTINGS, clock: Clock | None = None
) -> AsyncIterator[ExecTarget]:
    target = ExecTarget(place, settings, clock=clock)
    await target.start()
    try:
        yield target
    finally:
        await target.stop()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LONG_S):
            await test()

    asyncio.run(bounded())


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


async def line_from(path: Path) -> str:
    """The next line that someone writes to that fifo."""
    return (await asyncio.to_thread(path.read_text)).strip()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that announces itself to nobody, such as a state in /proc."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110  # why: /proc and other processes' files send no events
            await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    return _state(pid) in "ZX"


def stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rpartition(")")[2].split()[0]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def need_root() -> None:
    """Skip where it cannot be tried, but never where it must be."""
    if os.geteuid() != 0:
        lacking("needs root")


HELPER_FREEZES = """
import os, signal, sys
sys.path.append(sys.argv[1])
from tocsin.targets.exec import nursery
fork = nursery._fork_keeper
def frozen(*order):
    os.kill(os.getpid(), signal.SIGSTOP)
    fork(*order)
nursery._fork_keeper = frozen
nursery.main(int(sys.argv[2]))
"""
"""A nursery that stops when it has read an order."""

KEEPERS_FREEZE = """
import os, signal, sys
sys.path.append(sys.argv[1])
from tocsin.targets.exec import nursery, records
asked = records.Record.cancel_asked
def frozen(record):
    os.kill(os.getpid(), signal.SIGSTOP)
    return asked(record)
records.Record.cancel_asked = frozen
nursery.main(int(sys.argv[2]))
"""
"""A nursery whose keepers stop between the claim and the start of the command."""


async def frozen_keeper(record: Record) -> int:
    """The pid of the keeper that has the claim, once it stands still."""
    await until(lambda: record.claimed_by() is not None)
    keeper = pid_of(record.claimed_by() or "")
    await until(lambda: stopped(keeper))
    return keeper


_OWNER = """
import asyncio, sys
from pathlib import Path
import msgspec
from tocsin.targets.contract import Order
from tocsin.targets.exec import link
from tocsin.targets.exec.target import ExecTarget

link._START = sys.argv[2] or link._START

async def main():
    target = ExecTarget(Path(sys.argv[1]))
    await target.start()
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    print((await target.launch(order)).verdict.name, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Owner:
    """Another process that has a target and launched one order; it can be killed at any moment."""

    def __init__(self, place: Path, order: Order, nursery: str = "") -> None:
        """``nursery``: the program that is to be its helper, if not the usual one."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(place), nursery], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order))
        self._process.stdin.close()

    def verdict(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    async def frozen_helper(self) -> int:
        """The pid of its nursery, once it stands still."""
        await until(lambda: any(stopped(child) for child in children_of(self._process.pid)))
        [nursery] = children_of(self._process.pid)
        return nursery

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
