"""Commands in control groups (cgroup v2): limits hold for the whole tree, and nothing escapes a time-out."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.needs import lacking
from tests.targets.exec_support import opened, run, shell, until

from tocsin.model.target import ExecLimits
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.exec import cgroup_home
from tocsin.targets.exec.cgroup import Group
from tocsin.targets.exec.orders import ExecSettings

_SETTINGS = ExecSettings(grace_s=0.3)
_WITHOUT = ExecSettings(grace_s=0.3, may_group=False)
_ESCAPES = "setsid sh -c 'trap \"\" TERM; echo $$ > {file}; while :; do sleep 1; done' & wait"


def _need_groups(place: Path) -> None:
    found = cgroup_home.find(place)
    cgroup_home.leave(found)
    if not found.path:
        lacking(f"a machine on which control groups can be made: {found.why_none}")


def _ended(place: Path, order: Order, settings: ExecSettings = _SETTINGS) -> Outcome:
    found: list[Outcome] = []

    async def work() -> None:
        async with opened(place, settings) as target:
            await target.launch(order)
            found.append(await target.watch(order))

    run(work)
    return found[0]


def _until_written(path: Path) -> None:
    while not path.exists() or not path.read_text():
        os.sched_yield()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def a_process_that_leaves_its_session_does_not_escape_the_time_out(tmp_path: Path) -> None:
    _need_groups(tmp_path)
    order = shell(_ESCAPES.format(file=tmp_path / "pid"), timeout_s=1)
    outcome = _ended(tmp_path / "exec", order)
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "timed out after 1s (SIGKILL)")
    assert not _is_alive(int((tmp_path / "pid").read_text()))


def it_does_not_escape_a_cancellation_either(tmp_path: Path) -> None:
    _need_groups(tmp_path)
    order = shell(_ESCAPES.format(file=tmp_path / "pid"), timeout_s=60)

    async def work() -> None:
        async with opened(tmp_path / "exec", _SETTINGS) as target:
            await target.launch(order)
            await asyncio.to_thread(_until_written, tmp_path / "pid")
            await target.cancel(order)
            assert (await target.watch(order)).verdict is Verdict.CANCELLED

    run(work)
    assert not _is_alive(int((tmp_path / "pid").read_text()))


def a_command_that_leaves_its_group_ends_with_the_time_out(tmp_path: Path) -> None:
    """As systemd-run --scope does, and root may."""
    _need_groups(tmp_path)
    above = Path(cgroup_home.find(tmp_path / "exec").path).parent
    leaves = f"echo $$ > {above}/cgroup.procs && echo $$ > {tmp_path}/pid; sleep 50; echo over"
    outcome = _ended(tmp_path / "exec", shell(leaves, timeout_s=1))
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "timed out after 1s (SIGTERM)")
    assert outcome.exit_code == 143
    assert not _is_alive(int((tmp_path / "pid").read_text()))


def cpu_time_is_counted_for_the_whole_tree(tmp_path: Path) -> None:
    _need_groups(tmp_path)
    busy = "for i in 1 2 3 4; do (while :; do :; done) & done; wait"
    outcome = _ended(tmp_path / "exec", shell(busy, limits=ExecLimits(cpu_seconds=2)))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("it used more than its 2 s of CPU")


@pytest.mark.parametrize("settings", [_SETTINGS, _WITHOUT], ids=["groups", "no groups"])
def a_command_with_too_many_processes_does_not_keep_them(tmp_path: Path, settings: ExecSettings) -> None:
    if settings.may_group:
        _need_groups(tmp_path)
    many = f"for i in 1 2 3 4 5 6 7 8; do sleep 50 & echo $! >> {tmp_path}/pids; done; wait"
    outcome = _ended(tmp_path / "exec", shell(many, limits=ExecLimits(processes=3)), settings)
    assert outcome.verdict is Verdict.FAILED
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert not [pid for pid in pids if _is_alive(pid)]


def a_command_within_its_limits_succeeds_and_leaves_no_group(tmp_path: Path) -> None:
    _need_groups(tmp_path)
    limits = ExecLimits(memory_mb=512, cpu_seconds=5, processes=20)
    found: list[str] = []

    async def work() -> None:
        async with opened(tmp_path / "exec", _SETTINGS) as target:
            order = shell("cat /proc/self/cgroup", limits=limits)
            await target.launch(order)
            assert (await target.watch(order)).verdict is Verdict.SUCCEEDED
            output = await target.output(order.name, order.attempt)
            assert output is not None
            assert "/tocsin-" in output.head.decode()
            found.append(cgroup_home.find(tmp_path / "exec").path)

    run(work)
    assert not Path(found[0]).exists()


def a_process_that_a_command_leaves_behind_goes_on(tmp_path: Path) -> None:
    _need_groups(tmp_path)
    order = shell(f"sleep 50 > /dev/null 2>&1 & echo $! > {tmp_path}/pid", timeout_s=20)
    assert _ended(tmp_path / "exec", order).verdict is Verdict.SUCCEEDED
    pid = int((tmp_path / "pid").read_text())
    assert _is_alive(pid)
    home = cgroup_home.find(tmp_path / "exec")  # as the next start of the service does
    group = next(left for left in Path(home.path).iterdir() if left.is_dir())
    assert pid in Group(str(group)).pids()
    Group(str(group)).signal(9)  # type: ignore[arg-type]  # why: the number will do
    while _is_alive(pid):
        os.sched_yield()
    cgroup_home.leave(cgroup_home.find(tmp_path / "exec"))


# What the kernel is told, as far as this machine's controllers cannot show it


@pytest.mark.parametrize(
    ("left", "spec"),
    [
        ("trap '' TERM; while :; do sleep 0.2; done", {"timeout_s": 2}),
        ("while :; do :; done", {"limits": ExecLimits(cpu_seconds=1)}),
    ],
)
def what_a_command_leaves_behind_keeps_its_time_out_and_its_limits(
    tmp_path: Path, left: str, spec: dict[str, Any]
) -> None:
    _need_groups(tmp_path)
    file = tmp_path / "pid"
    order = shell(f'setsid sh -c "echo \\$\\$ > {file}; {left}" > /dev/null 2>&1 & true', **spec)
    assert _ended(tmp_path / "exec", order).verdict is Verdict.SUCCEEDED
    _until_written(file)
    process = int(file.read_text())

    async def work() -> None:
        await until(lambda: not _is_alive(process))

    run(work)


def limits_are_written_where_the_controllers_are(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max"):
        (tmp_path / name).touch()
    group = Group(str(tmp_path))
    group.limit({"memory_bytes": 5 << 20, "processes": 7})
    assert (group.has_memory, group.has_processes) == (True, True)
    names = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max")
    assert [(tmp_path / name).read_text() for name in names] == [str(5 << 20), "0", "1", "7"]
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
    assert not group.is_out_of_memory()
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.is_out_of_memory()


def without_controllers_the_limits_are_left_to_others(tmp_path: Path) -> None:
    group = Group(str(tmp_path))
    group.limit({"memory_bytes": 5 << 20, "processes": 7})
    assert (group.has_memory, group.has_processes) == (False, False)


# Where groups are made


def _machine(tmp_path: Path, own: str, *, above: str = "") -> Path:
    """A /proc/self whose process is in that group of a file system at ``tmp_path``/cg."""
    proc, mount = tmp_path / "proc", tmp_path / "cg"
    proc.mkdir()
    base = mount / own.lstrip("/")
    base.mkdir(parents=True, exist_ok=True)
    for group in {mount, base, base.parent}:
        (group / "cgroup.procs").write_text("1\n")
        (group / "cgroup.subtree_control").write_text("")
    if own != "/":
        (base.parent / "cgroup.procs").write_text(above)
    (proc / "mountinfo").write_text(f"30 23 0:26 / {mount} rw,nosuid - cgroup2 cgroup2 rw\n")
    (proc / "cgroup").write_text(f"5:pids:/\n0::{own}\n")
    return proc


@pytest.mark.parametrize(
    ("own", "above", "inside"),
    [
        ("/", "", ""),
        ("/system.slice/tocsin.service", "1\n2\n", "system.slice/tocsin.service"),
        ("/system.slice/tocsin.service/service", "", "system.slice/tocsin.service"),
    ],
    ids=["root", "own group", "delegated subgroup"],
)
def groups_are_made_beside_the_own_one_or_below_it(
    tmp_path: Path, own: str, above: str, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = _machine(tmp_path, own, above=above)
    make = Path.mkdir

    def as_the_kernel_does(path: Path, *args: object, **more: object) -> None:
        make(path, *args, **more)  # type: ignore[arg-type]  # why: passed on
        (path / "cgroup.procs").touch()

    monkeypatch.setattr(Path, "mkdir", as_the_kernel_does)
    found = cgroup_home.find(tmp_path / "exec", proc)
    assert Path(found.path).parent == tmp_path / "cg" / inside


def a_machine_without_cgroup_v2_says_so(tmp_path: Path) -> None:
    proc = _machine(tmp_path, "/")
    (proc / "mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n")
    assert cgroup_home.find(tmp_path / "exec", proc).why_none == "there is no cgroup v2 here"
    assert "cannot be read" in cgroup_home.find(tmp_path / "exec", tmp_path / "nowhere").why_none


def a_file_system_that_may_not_be_written_to_says_so(tmp_path: Path) -> None:
    proc = _machine(tmp_path, "/")
    (proc / "mountinfo").write_text("30 23 0:26 / /proc rw - cgroup2 cgroup2 rw\n")
    assert "no group can be made" in cgroup_home.find(tmp_path / "exec", proc).why_none
