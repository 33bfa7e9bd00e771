"""A real Postgres with its defaults (fsync on) in a folder of its own, on a free port of loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers import Unavailable

MISSING = "there is no Postgres on this machine (Debian: apt-get install postgresql)"
_PATIENCE_S = 60.0


def programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``; Debian keeps it off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if config := shutil.which("pg_config"):
        told = subprocess.run(
            [config, "--bindir"], capture_output=True, text=True, check=False
        ).stdout.strip()
        if told and (Path(told) / "initdb").exists():
            return Path(told)
    by_version = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return by_version[-1].parent if by_version else None


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Its address. It refuses to be run by root, so root runs it as somebody with fewer rights."""
    place = programs()
    if place is None:
        raise Unavailable(MISSING)
    folder.mkdir(parents=True)
    user = _unprivileged()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
        _let_through(folder)
    who: dict[str, Any] = (
        {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    )
    data, port = folder / "data", _free_port()
    words: list[str | Path] = [
        place / "initdb",
        "-D",
        data,
        "-U",
        "bench",
        "--auth=trust",
        "-E",
        "UTF8",
        "--no-instructions",
    ]
    subprocess.run(words, check=True, capture_output=True, cwd=folder, **who)
    command: list[str | Path] = [place / "postgres", "-D", data, "-p", str(port), "-k", folder]
    with (folder.parent / "postgres.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "-c", "listen_addresses=127.0.0.1"], stdout=log, stderr=log, cwd=folder, **who
        )
    try:
        _until_up(place / "pg_isready", process, port)
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # do not wait for whoever is connected
        process.wait(_PATIENCE_S)


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Unavailable("Postgres does not run as root, and there is no user 'postgres' or 'nobody'")


def _let_through(folder: Path) -> None:
    """The folders above were made for root alone; another user has to be able to pass, not to look."""
    for above in folder.parents:
        mode = above.stat().st_mode
        if above.stat().st_uid == 0 and not mode & 0o001:
            above.chmod(mode | 0o011)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until_up(is_ready: Path, process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while subprocess.run([is_ready, "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unavailable("Postgres did not start")
        time.sleep(0.05)
