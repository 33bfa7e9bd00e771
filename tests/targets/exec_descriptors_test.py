"""A service that has run out of file descriptors: it takes nobody for dead, and nobody has to wait for it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.targets.exec_support import run, shell, until

from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.exec.processes import boot_id, identity, lives
from tocsin.targets.exec.reach import send_signal
from tocsin.targets.exec.target import ExecTarget


@contextmanager
def _no_descriptors(left: int = 0) -> Iterator[None]:
    """Not one more file can be opened, or only so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use, hard))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    for _ in range(left):
        os.close(taken.pop())
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def a_living_process_is_not_taken_for_dead() -> None:
    boot = boot_id()
    me = identity(boot, os.getpid())
    assert me is not None
    with _no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        lives(me, boot)
    assert lives(me, boot)


def a_look_that_fails_for_want_of_descriptors_keeps_none() -> None:
    """The last one is taken to hold on to the process, and none is left to see whether it is the right one."""
    boot = boot_id()
    me = identity(boot, os.getpid())
    assert me is not None
    before = set(os.listdir("/proc/self/fd"))
    with _no_descriptors(left=1):
        for _ in range(3):
            with pytest.raises(OSError, match="Too many open files"):
                send_signal(me, boot, signal.SIGCONT)
    assert set(os.listdir("/proc/self/fd")) == before


def _held() -> int:
    """Descriptors of processes."""
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum("pidfd" in link for link in links)


def commands_that_run_leave_descriptors_for_others(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def test() -> None:
        target = ExecTarget(tmp_path / "exec")
        await target.start()
        target._waiters_max = 2
        orders = [shell(f"read line < {gate}; exit 3") for _ in range(6)]
        orders = [msgspec.structs.replace(order, name=f"s-{n}") for n, order in enumerate(orders)]
        for order in orders:
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
        others = _held()
        watching = [asyncio.create_task(target.watch(order)) for order in orders]
        await until(lambda: target._waiters == 2)
        assert _held() == others + 2
        opened = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
        os.write(opened, b"go\n" * 6)
        os.close(opened)
        async with asyncio.timeout(20):
            assert {(await done).exit_code for done in watching} <= {3, 1}
        assert target._waiters == 0
        await target.stop()

    run(test)


def the_loop_goes_on_and_the_end_is_still_learnt(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def test() -> None:
        target = ExecTarget(tmp_path / "exec")
        await target.start()
        order = shell(f"read line < {gate}; exit 3")
        assert (await target.launch(order)).verdict is Verdict.ACCEPTED
        # A second instance knows nothing from messages: it has to look, and cannot.
        stranger = ExecTarget(tmp_path / "exec")
        await stranger.start()
        with _no_descriptors():
            watching = asyncio.create_task(stranger.watch(order))
            turns = 0
            for _ in range(50):
                await asyncio.sleep(0)
                turns += 1
            assert turns == 50, "the loop stood still"
            assert not watching.done()
        opened = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
        os.write(opened, b"go\n")
        os.close(opened)
        outcome: Outcome = await asyncio.wait_for(watching, 20)
        assert (outcome.verdict, outcome.exit_code) == (Verdict.FAILED, 3)
        await stranger.stop()
        await target.stop()

    run(test)


def a_cancel_is_carried_out_when_there_are_descriptors_again(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def test() -> None:
        target = ExecTarget(tmp_path / "exec")
        await target.start()
        order = shell(f"read line < {gate}")
        assert (await target.launch(order)).verdict is Verdict.ACCEPTED
        with _no_descriptors():
            cancelling = asyncio.create_task(target.cancel(order))
            await asyncio.wait([cancelling], timeout=0.2)
            assert not cancelling.done()
        await cancelling
        assert (await target.watch(order)).verdict is Verdict.CANCELLED
        await target.stop()

    run(test)
