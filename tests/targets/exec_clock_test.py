"""When a command began and ended is told by the time that is believed, whatever clock its keeper sees."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.targets.exec_support import opened, run, shell

from tocsin.clock import SystemClock
from tocsin.replica.clock_guard import ClockGuard
from tocsin.targets.contract import Order, Outcome
from tocsin.targets.exec import link
from tocsin.targets.exec.archive import Archive
from tocsin.targets.exec.processes import boot_id
from tocsin.testing.targets import see_through

DAYS_40_S = 40 * 86_400
WRONG_BY_S = [-DAYS_40_S, DAYS_40_S]
SPARE_MS = 2_000


class _Stepping(SystemClock):
    """The wall clock of a machine, which steps."""

    off_s = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.off_s * 1000


def _step_keepers(patch: pytest.MonkeyPatch, off_s: int) -> None:
    """Nurseries that are started from now on, and their keepers, see that clock."""
    shifted = f"import time; right = time.time_ns; time.time_ns = lambda: right() + {off_s * 10**9}"
    patch.setattr(link, "_START", shifted + link._START)


def _step_files(place: Path, order: Order, off_s: int) -> Path:
    """The record as a file system marks it by that clock."""
    record = Path(Archive(place).record(order.name, order.attempt).path)
    at_s = time.time() + off_s
    for path in (*record.iterdir(), record):
        os.utime(path, (at_s, at_s), follow_symlinks=False)
    return record


def _new_order() -> Order:
    return shell("true", name=f"suite/one-{int(time.time())}")


def _is_of_now(outcome: Outcome | None, since_ms: int) -> None:
    assert outcome is not None
    assert outcome.called_ms is not None
    assert outcome.ended_ms is not None
    assert since_ms - SPARE_MS <= outcome.called_ms <= outcome.ended_ms + 10
    assert outcome.ended_ms <= time.time() * 1000 + 10


@pytest.mark.parametrize("off_s", WRONG_BY_S)
def a_command_that_ran_while_the_clock_was_wrong_is_told_by_the_time_that_was_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: int
) -> None:
    async def test() -> None:
        system = _Stepping()
        clock = ClockGuard(system)
        clock.begin(0)
        _step_keepers(monkeypatch, off_s)
        since_ms = system.wall_ms()
        async with opened(tmp_path, clock=clock) as target:
            system.off_s = off_s
            order = _new_order()
            _is_of_now(await see_through(target, order), since_ms)
            _step_files(tmp_path, order, off_s)
            _is_of_now(await target.lookup(order), since_ms)
        async with opened(tmp_path, clock=clock) as later:
            _is_of_now(await later.lookup(order), since_ms)
            system.off_s = 0
            _is_of_now(await later.watch(order), since_ms)

    run(test)


@pytest.mark.parametrize("off_s", [14, 25, -25])
def a_small_step_after_the_start_of_a_command_does_not_move_what_is_told_of_it(
    tmp_path: Path, off_s: int
) -> None:
    """A leader whose clock is put forward leaves office, and is asked what became of its commands."""

    async def test() -> None:
        system = _Stepping()
        clock = ClockGuard(system)
        clock.begin(0)
        since_ms = system.wall_ms()
        async with opened(tmp_path, clock=clock) as target:
            order = _new_order()
            _is_of_now(await see_through(target, order), since_ms)
            system.off_s = off_s
            _is_of_now(await target.lookup(order), since_ms)

    run(test)


@pytest.mark.parametrize("off_s", WRONG_BY_S)
def the_output_of_a_command_that_ended_while_the_clock_was_wrong_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: int
) -> None:
    async def test() -> None:
        _step_keepers(monkeypatch, off_s)
        async with opened(tmp_path) as target:
            old, new = shell("true"), _new_order()
            for order in (old, new):
                await see_through(target, order)
                _step_files(tmp_path, order, off_s)
            assert await target.prune(30 * 86_400) == 0
            assert await target.output(old.name, 1) is not None
            assert await target.output(new.name, 1) is not None

    run(test)


def after_a_restart_of_the_machine_the_output_is_kept_by_the_second_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        _step_keepers(monkeypatch, -DAYS_40_S)
        async with opened(tmp_path) as target:
            order = _new_order()
            await see_through(target, order)
            _reboot(_step_files(tmp_path, order, -DAYS_40_S))
            assert await target.prune(30 * 86_400) == 0
            assert await target.prune(-5) == 1

    run(test)


def a_command_of_another_boot_is_told_by_the_wall_clock_of_then(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as target:
            order = _new_order()
            await see_through(target, order)
            record = Path(Archive(tmp_path).record(order.name, order.attempt).path)
            _reboot(record)
            found = await target.lookup(order)
            assert found is not None
            assert found.ended_ms == json.loads((record / "ended").read_text())["ended_ms"]
            assert found.called_ms == int(os.readlink(record / "command").split()[0])

    run(test)


def a_record_of_a_keeper_that_wrote_less_is_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as target:
            order = _new_order()
            await see_through(target, order)
            ended = Path(Archive(tmp_path).record(order.name, order.attempt).path) / "ended"
            told = json.loads(ended.read_text())
            del told["ended_boot_ms"]
            ended.write_text(json.dumps(told))
            found = await target.lookup(order)
            assert found is not None
            assert found.ended_ms == told["ended_ms"]

    run(test)


def _reboot(record: Path) -> None:
    """As if the machine had been started again since."""
    for name in ("claim", "command"):
        link_, at = record / name, (record / name).lstat()
        text = os.readlink(link_).replace(boot_id(), "another-boot")
        assert "another-boot" in text
        link_.unlink()
        link_.symlink_to(text)
        os.utime(link_, ns=(at.st_atime_ns, at.st_mtime_ns), follow_symlinks=False)
    os.utime(record, (at.st_mtime, at.st_mtime))
