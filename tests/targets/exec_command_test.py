"""What a command is given, what is kept of it, and how it is made to stop."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.targets.exec_support import fifo, gone, line_from, need_root, opened, run, shell, until

from tocsin.model.target import ExecLimits
from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Order, Outcome, Output, Verdict
from tocsin.targets.exec import command
from tocsin.targets.exec.archive import Archive, directory_name
from tocsin.targets.exec.orders import ExecSettings
from tocsin.testing.targets import order_for, see_through


def _end_of(place: Path, order: Order) -> tuple[Outcome, Output]:
    """Launch it, wait for its end, and read what it printed."""
    ends: list[tuple[Outcome, Output]] = []

    async def test() -> None:
        async with opened(place) as target:
            outcome = await see_through(target, order)
            output = await target.output(order.name, order.attempt)
            assert output is not None
            ends.append((outcome, output))

    run(test)
    return ends[0]


def the_environment_is_clean_and_names_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_SECRET", "do not leak")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("PATH", f"/somewhere/of/the/operator:{os.environ['PATH']}")
    order = order_for(ExecSpec(argv=("env",), env={"OWN": "1", "TOCSIN_TERM": "forged"}))
    _, output = _end_of(tmp_path, order)
    env = dict(line.split("=", 1) for line in output.head.decode().splitlines())
    me = pwd.getpwuid(os.geteuid())
    assert env.pop("PATH") == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env.pop("LANG", None)
    env.pop("LC_ALL", None)
    assert env == {
        "HOME": me.pw_dir,
        "USER": me.pw_name,
        "LOGNAME": me.pw_name,
        "SHELL": "/bin/sh",
        "TZ": "Europe/Berlin",
        "OWN": "1",
        "TOCSIN_LAUNCH": "suite/one-1700000000",
        "TOCSIN_SCHEDULE": "suite/one",
        "TOCSIN_SCHEDULED_AT": "2023-11-14T22:13:20Z",
        "TOCSIN_ATTEMPT": "1",
        "TOCSIN_TERM": "7",
    }


def the_payload_comes_on_standard_input(tmp_path: Path) -> None:
    _, output = _end_of(tmp_path, shell("cat", payload=b'{"company":7}'))
    assert output.head == b'{"company":7}'


def a_command_without_a_payload_finds_its_input_empty(tmp_path: Path) -> None:
    _, output = _end_of(tmp_path, shell("wc -c", payload=b"null"))
    assert int(output.head) == 0


def a_large_payload_that_nobody_reads_blocks_nothing(tmp_path: Path) -> None:
    outcome, _ = _end_of(tmp_path, shell("exit 0", payload=b'"' + b"x" * (1 << 20) + b'"'))
    assert outcome.verdict is Verdict.SUCCEEDED


def a_large_payload_arrives_whole(tmp_path: Path) -> None:
    _, output = _end_of(tmp_path, shell("wc -c", payload=b"1" * (3 << 20)))
    assert int(output.head) == 3 << 20


def a_large_order_arrives_whole(tmp_path: Path) -> None:
    words = tuple(str(number) for number in range(60_000))
    _, output = _end_of(tmp_path, order_for(ExecSpec(argv=("/bin/sh", "-c", "echo $#", *words))))
    assert int(output.head) == len(words) - 1


_OF_THE_C_LIBRARY = (
    1 << 31 | 1 << 32
)  # signals 32 and 33: its posix_spawn ignores them, no program can use them


def no_stray_file_is_open_and_no_signal_is_ignored(tmp_path: Path) -> None:
    look = "ls -l /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    _, output = _end_of(tmp_path, shell(look))
    text = output.head.decode()
    files = [line.split(" -> ")[0].split()[-1] for line in text.splitlines() if " -> " in line]
    assert sorted(files) in (["0", "1", "2"], ["0", "1", "2", "3"])  # the last one is ls at its own work
    for line in text.splitlines():
        if line.startswith("Sig"):
            assert int(line.split()[1], 16) & ~_OF_THE_C_LIBRARY == 0, line


@pytest.mark.parametrize(
    ("line", "reason", "exit_code"),
    [
        ("exit 3", "exit status 3", 3),
        ("kill -SEGV $$", "killed by SIGSEGV", 139),
        ("kill -KILL $$", "killed by SIGKILL", 137),
    ],
)
def a_bad_end_says_how(tmp_path: Path, line: str, reason: str, exit_code: int) -> None:
    outcome, _ = _end_of(tmp_path, shell(line))
    assert (outcome.verdict, outcome.reason, outcome.exit_code) == (Verdict.FAILED, reason, exit_code)
    assert not outcome.permanent


def _not_executable(place: Path) -> dict[str, Any]:
    (place / "plain").write_text("echo no")
    return {"argv": (str(place / "plain"),)}


def _no_interpreter_line(place: Path) -> dict[str, Any]:
    (place / "script").write_text("echo no")
    (place / "script").chmod(0o755)
    return {"argv": (str(place / "script"),)}


@pytest.mark.parametrize(
    ("make", "reason", "permanent"),
    [
        (lambda _: {"argv": ("no-such-command",)}, "No such file or directory in PATH=", True),
        (lambda _: {"argv": ("/no/such/command",)}, "No such file or directory", True),
        (_not_executable, "Permission denied", True),
        (_no_interpreter_line, "needs a first line such as #!/bin/sh", True),
        (lambda _: {"argv": ("true",), "cwd": "/no/such/place"}, "working directory '/no/such/place'", False),
        (lambda _: {"argv": ("true",), "user": "no-such-user"}, "no user 'no-such-user'", True),
        (lambda _: {"argv": ("/no/such",), "limits": ExecLimits(cpu_seconds=9)}, "No such file", True),
    ],
    ids=["no command", "no file", "not executable", "no interpreter", "no cwd", "no user", "with limits"],
)
def what_cannot_be_started_says_why(tmp_path: Path, make: Any, reason: str, permanent: bool) -> None:
    order = order_for(ExecSpec(**make(tmp_path)))
    outcome, _ = _end_of(tmp_path / "exec", order)
    assert outcome.verdict is Verdict.NOT_STARTED
    assert reason in outcome.reason
    assert outcome.permanent is permanent


def a_command_whose_name_is_too_long_is_refused_in_a_few_words(tmp_path: Path) -> None:
    outcome, _ = _end_of(tmp_path / "exec", order_for(ExecSpec(argv=("/" + "x" * 70_000,))))
    assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, False)
    assert len(outcome.reason) <= 2000


def a_copy_that_is_killed_before_it_becomes_the_command_has_not_started_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the kernel does where the copy alone needs more memory than the command may."""
    monkeypatch.setattr(command, "_become", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(command.NotStartedError, match="ended before it did"):
        command._fork({}, {}, None, 0, 1, None)


def the_working_directory_is_the_one_asked_for(tmp_path: Path) -> None:
    _, output = _end_of(tmp_path, shell("pwd", cwd=str(tmp_path)))
    assert output.head.decode().strip() == str(tmp_path)
    _, output = _end_of(tmp_path, shell("pwd", name="suite/two-1"))
    assert output.head.decode().strip() == "/"


def limits_reach_the_command_and_bind(tmp_path: Path) -> None:
    limits = ExecLimits(memory_mb=512, cpu_seconds=30)
    _, output = _end_of(tmp_path, shell("ulimit -v; ulimit -t", limits=limits))
    assert output.head.decode().split() == [str(512 * 1024), "30"]
    busy = shell("while :; do :; done", limits=ExecLimits(cpu_seconds=1), name="suite/busy-1")
    outcome, _ = _end_of(tmp_path, busy)
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "killed by SIGXCPU")


def a_command_can_run_as_another_user(tmp_path: Path) -> None:
    need_root()
    outcome, output = _end_of(tmp_path, shell("id -un; id -Gn; echo $USER $LOGNAME $HOME", user="nobody"))
    nobody = pwd.getpwnam("nobody")
    assert outcome.verdict is Verdict.SUCCEEDED
    user, groups, env = output.head.decode().splitlines()
    assert user == "nobody"
    assert "root" not in groups.split()
    assert env == f"nobody nobody {nobody.pw_dir}"


def only_root_can_run_a_command_as_another_user(tmp_path: Path) -> None:
    """Asked of a keeper's own code, in a process that has given up being root."""
    need_root()
    script = (
        "import os; os.setuid(65534)\n"
        "from tocsin.targets.exec import command\n"
        "try: command.start({'user': 'root', 'base_env': {}, 'env': {}}, 0, 1, None)\n"
        "except command.NotStartedError as error: print(error.permanent, error)\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    code = f"import sys; sys.path.append({source!r}); from tocsin.targets.exec import command\n" + script
    printed = subprocess.run(
        ["/usr/bin/env", "python3", "-c", code], capture_output=True, check=True, text=True
    )
    assert printed.stdout.startswith("True only root can run a command as 'root'")


def huge_output_is_kept_at_both_ends(tmp_path: Path) -> None:
    order = shell("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    _, output = _end_of(tmp_path, order)
    assert output.head.startswith(b"first\n")
    assert output.tail.endswith(b"x\nlast\n")
    assert (len(output.head), len(output.tail)) == (65536, 65536)
    assert output.dropped == len("first\n\nlast\n") + 3_000_000 - 2 * 65536
    assert output.complete


def output_and_errors_come_in_the_order_they_were_printed(tmp_path: Path) -> None:
    _, output = _end_of(tmp_path, shell("echo one; echo two >&2; echo three"))
    assert output == Output(b"one\ntwo\nthree\n")


def output_can_be_read_while_it_is_printed(tmp_path: Path) -> None:
    async def test() -> None:
        gate, place = fifo(tmp_path / "gate"), tmp_path / "exec"
        async with opened(place, ExecSettings(head_bytes=4, tail_bytes=8, grace_s=1)) as target:
            order = shell(f"echo 0123456789abcdef; read line < {gate}")
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            record = Path(Archive(place).record(order.name, 1).path)
            await until((record / "tail").exists)
            assert await target.output(order.name, 1) == Output(b"0123", b"9abcdef\n", 5, complete=False)
            await asyncio.to_thread(gate.write_text, "\n")
            assert (await target.watch(order)).verdict is Verdict.SUCCEEDED
            assert await target.output(order.name, 1) == Output(b"0123", b"9abcdef\n", 5)

    run(test)


def a_child_left_behind_that_holds_the_output_open_delays_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        ready = fifo(tmp_path / "ready")
        async with opened(tmp_path / "exec") as target:
            order = shell(f"sleep 1000 & echo $! > {ready}; echo done")
            end = asyncio.create_task(see_through(target, order))
            child = int(await line_from(ready))
            try:
                assert (await end).verdict is Verdict.SUCCEEDED
                assert not gone(child)
                assert await target.output(order.name, 1) == Output(b"done\n")
            finally:
                os.kill(child, signal.SIGKILL)

    run(test)


def a_command_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    outcome, _ = _end_of(tmp_path, shell("exec >&- 2>&-; sleep 0.2; exit 4"))
    assert outcome.exit_code == 4


def a_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    async def test() -> None:
        ready = fifo(tmp_path / "ready")
        async with opened(tmp_path / "exec") as target:
            order = shell(f"(sleep 1000 & echo $! $$ > {ready}; wait) & wait", timeout_s=1.0)
            end = asyncio.create_task(see_through(target, order))
            family = [int(pid) for pid in (await line_from(ready)).split()]
            outcome = await end
            assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "timed out after 1s (SIGTERM)")
            assert not outcome.permanent
            await until(lambda: all(gone(pid) for pid in family))

    run(test)


def what_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def test() -> None:
        ready = fifo(tmp_path / "ready")
        async with opened(tmp_path / "exec", ExecSettings(grace_s=0.2)) as target:
            # The shell itself gives in; its child does not, and must not be left behind.
            stubborn = f"trap '' TERM; echo $$ > {ready}; while :; do sleep 0.05; done"
            order = shell(f'sh -c "{stubborn.replace("$", chr(92) + "$")}" & wait', timeout_s=1.0)
            end = asyncio.create_task(see_through(target, order))
            child = int(await line_from(ready))
            outcome = await end
            assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "timed out after 1s (SIGKILL)")
            await until(lambda: gone(child))

    run(test)


def a_child_may_use_the_grace_after_its_shell_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        ready, tidied = fifo(tmp_path / "ready"), tmp_path / "tidied"
        async with opened(tmp_path / "exec", ExecSettings(grace_s=10)) as target:
            tidy = f"sleep 0.2; echo yes > {tidied}; exit"
            child = f"trap '{tidy}' TERM; echo > {ready}; while :; do sleep 0.05; done"
            (tmp_path / "child").write_text(child)
            order = shell(f"sh {tmp_path}/child & wait")
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            await line_from(ready)
            await target.cancel(order)
            outcome = await target.watch(order)
            assert (outcome.verdict, outcome.reason) == (Verdict.CANCELLED, "cancelled (SIGTERM)")
            assert tidied.read_text() == "yes\n"

    run(test)


def an_order_cancelled_on_its_way_never_starts(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done > {tmp_path}/effect")
            os.kill(target._connect().pid, signal.SIGSTOP)
            end = asyncio.create_task(see_through(target, order))
            await until(lambda: bool(target._charges))
            await target.cancel(order)
            os.kill(target._connect().pid, signal.SIGCONT)
            outcome = await end
            assert (outcome.verdict, outcome.is_uncalled) == (Verdict.CANCELLED, True)
        assert not (tmp_path / "effect").exists()

    run(test)


def an_order_that_waits_to_be_handed_over_can_be_cancelled(tmp_path: Path) -> None:
    """Its cancellation is not taken for one of an earlier order."""

    async def test() -> None:
        async with opened(tmp_path / "exec") as target:
            order = shell(f"echo done > {tmp_path}/effect")
            target._slots = asyncio.Semaphore(0)
            end = asyncio.create_task(see_through(target, order))
            await until(lambda: bool(target._charges))
            await target.cancel(order)
            target._slots.release()
            outcome = await end
            assert (outcome.verdict, outcome.is_uncalled) == (Verdict.CANCELLED, True)
        assert not (tmp_path / "effect").exists()

    run(test)


def a_keeper_that_is_used_again_is_not_hit_by_an_old_cancellation(tmp_path: Path) -> None:
    async def test() -> None:
        gate = fifo(tmp_path / "gate")
        async with opened(tmp_path / "exec") as target:
            assert (await see_through(target, shell("true"))).verdict is Verdict.SUCCEEDED
            second = shell(f"read line < {gate}", name="suite/second-1")
            assert (await target.launch(second)).verdict is Verdict.ACCEPTED
            claims = [Archive(tmp_path / "exec").record(name, 1).claimed_by() for name in (second.name,)]
            assert claims[0] is not None
            os.kill(int(claims[0].split()[1]), signal.SIGUSR1)
            await asyncio.to_thread(gate.write_text, "\n")
            assert (await target.watch(second)).verdict is Verdict.SUCCEEDED

    run(test)


@contextmanager
def _small_disk(path: Path) -> Iterator[Path]:
    need_root()
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=40", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def _fill(disk: Path) -> list[Path]:
    filler = []
    try:
        for number in range(1000):
            filler.append(disk / f".filler{number}")
            filler[-1].touch()
    except OSError:
        return filler[:-1]
    raise AssertionError("the disk is larger than it should be")


def on_a_full_disk_nothing_starts_and_that_is_certain(tmp_path: Path) -> None:
    async def test() -> None:
        order = shell(f"echo done > {tmp_path}/effect")
        with _small_disk(tmp_path / "disk") as disk:
            async with opened(disk) as target:
                filler = _fill(disk)
                outcome = await see_through(target, order)
                assert outcome.verdict is Verdict.NOT_STARTED
                assert "No space left on device" in outcome.reason
                assert not (tmp_path / "effect").exists()
                assert not [path for path in disk.iterdir() if not path.name.startswith(".")]
                for path in filler:
                    path.unlink()
                assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED

    run(test)


def a_disk_that_fills_up_meanwhile_delays_the_record_but_loses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        gate = fifo(tmp_path / "gate")
        with _small_disk(tmp_path / "disk") as disk:
            async with opened(disk) as target:
                order = shell(f"read line < {gate}; echo printed; exit 5")
                assert (await target.launch(order)).verdict is Verdict.ACCEPTED
                filler = _fill(disk)
                end = asyncio.create_task(target.watch(order))
                await asyncio.to_thread(gate.write_text, "\n")
                assert (await end).exit_code == 5  # told at once, though it could not be written yet
                record = Archive(disk).record(order.name, 1)
                assert record.ended() is None
                for path in filler:
                    path.unlink()
                await until(lambda: record.ended() is not None)
                found = await target.lookup(order)
                assert found is not None
                assert found.exit_code == 5

    run(test)


def any_name_becomes_one_short_directory_of_its_own() -> None:
    names = [
        "a/b-1",
        "a%2Fb-1",
        "..-1",
        "a" * 200 + "-1700000000-manual",
        "/" * 220,
        "/" * 219 + "x",
        "a=b-1",
    ]
    directories = [directory_name(name) for name in names]
    assert len(set(directories)) == len(names)
    for directory in directories:
        assert len(directory.encode()) <= 255
        assert "/" not in directory
        assert not directory.startswith(".")


def the_record_of_an_end_is_plain_json(tmp_path: Path) -> None:
    order = shell("exit 2")
    _end_of(tmp_path, order)
    ended = json.loads((tmp_path / "suite%2Fone-1700000000" / "1" / "ended").read_text())
    assert (ended["verdict"], ended["exit_code"], ended["reason"]) == ("failed", 2, "exit status 2")
