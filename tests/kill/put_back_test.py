"""A data directory that was put back from a copy: what was launched since stands in no record."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.kill.receiver import ExecReceiver
from tests.kill.service import Service, wait_for
from tests.needs import program
from tests.ports import own_ports

from tocsin.member.secret_file import new_secret


def _anew(copy: Path, data: Path) -> None:
    shutil.rmtree(data)
    shutil.copytree(copy, data, symlinks=True)


def _over(copy: Path, data: Path) -> None:
    """As rsync does: what looks the same is left alone."""
    for path in copy.rglob("*"):
        there = data / path.relative_to(copy)
        if path.is_dir():
            there.mkdir(exist_ok=True)
        elif path.is_symlink():
            if not there.is_symlink():
                shutil.copy2(path, there, follow_symlinks=False)
        elif not there.exists() or _look(there) != _look(path):
            shutil.copy2(path, there)


def _only_databases(copy: Path, data: Path) -> None:
    """As somebody does who looks for what matters. Commands without a record are another matter."""
    for path in [*data.glob("*.db*"), *data.glob("snapshots/*")]:
        if not path.name.endswith(".original"):
            path.unlink()
    for path in copy.glob("*.db"):
        shutil.copy2(path, data)
    shutil.rmtree(data / "exec")


def _only_databases_on_a_new_disk(copy: Path, data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()
    for path in copy.glob("*.db"):
        shutil.copy2(path, data)


def _look(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@pytest.mark.parametrize(
    ("put_back", "is_killed", "is_cluster"),
    [
        (_anew, True, False),
        (_over, False, False),
        (_only_databases, True, False),
        (_only_databases_on_a_new_disk, False, False),
        (_anew, False, True),
        (_over, False, True),
    ],
)
def what_was_launched_since_the_copy_is_not_launched_again(
    put_back: Callable[[Path, Path], None], is_killed: bool, is_cluster: bool, tmp_path: Path
) -> None:
    commands = ExecReceiver(tmp_path / "commands.log")
    service = Service(tmp_path / "data", *(_alone(tmp_path) if is_cluster else ()))
    target = {"kind": "exec", "shell": commands.shell()}
    once_s = int(time.time()) + 12
    at = datetime.fromtimestamp(once_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        service.start()
        service.wait_ready()
        service.put({"id": "all", "cron": "* * * * * *", "target": target, "missed": "all"})
        service.put({"id": "once", "cron": f"@at {at}", "target": target})
        assert service.stop() == 0
        shutil.copytree(service.data, tmp_path / "copy", symlinks=True)  # a claim is a link to nowhere
        service.start()
        wait_for(lambda: any(found.name == f"once-{once_s}" for found in commands.seen), "the one launch")
        if is_killed:
            service.kill()
        else:
            assert service.stop() == 0
        put_back(tmp_path / "copy", service.data)
        service.start()
        service.wait_ready()
        assert "was lost" in service.why("once", once_s)
        again_s = time.time()
        wait_for(lambda: _newest_s(commands) > again_s, "launches to go on after the lost time")
        doubled = {
            name: count for name, count in Counter(found.name for found in commands.seen).items() if count > 1
        }
        assert doubled == {}
        assert service.stop() == 0
    finally:
        service.close()


def _alone(folder: Path) -> list[str]:
    """The options of a cluster of one."""
    program("etcd", "etcd-server")
    (folder / "secret").write_text(new_secret())
    (folder / "secret").chmod(0o600)
    address = f"127.0.0.1:{own_ports(3)[0]}"
    return ["--name", "a", "--cluster", f"a={address}", "--cluster-secret", str(folder / "secret")]


def _newest_s(commands: ExecReceiver) -> int:
    return max(int(found.name.rpartition("-")[2]) for found in commands.seen)


def a_restart_or_a_new_owner_of_the_files_makes_no_copy_of_them(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    try:
        for _ in range(2):
            service.start()
            service.wait_ready()
            assert not any("lost" in issue for issue in service.status()["issues"])
            service.kill()
        for path in service.data.rglob("*"):
            os.chown(path, os.getuid(), os.getgid())
        service.start()
        service.wait_ready()
        assert not any("lost" in issue for issue in service.status()["issues"])
        assert service.stop() == 0
        assert len(list(service.data.glob(".original-*"))) == 1
    finally:
        service.close()
