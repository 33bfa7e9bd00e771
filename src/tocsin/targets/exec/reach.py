"""Waiting for and signalling processes that are not our children: by identity, never by a bare pid."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from tocsin.targets.exec.processes import lives, pid_of


async def until_gone(process: str, boot: str, told: asyncio.Future[Any]) -> None:
    """Until that process has ended, or its end was told."""
    pidfd = _open(process, boot)
    if pidfd is None:
        return
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[Any] = loop.create_future()

    def note() -> None:
        loop.remove_reader(pidfd)
        if not gone.done():
            gone.set_result(None)

    try:
        loop.add_reader(pidfd, note)
        await asyncio.wait([gone, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def send_signal(process: str, boot: str, number: signal.Signals, *, group: bool = False) -> None:
    """Signal that process (or its whole group) if it still lives."""
    pidfd = _open(process, boot)
    if pidfd is None:
        return
    try:
        if group:
            os.killpg(pid_of(process), number)
        else:
            signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):  # gone, or it has become another user
        return
    finally:
        os.close(pidfd)


def _open(process: str, boot: str) -> int | None:
    try:
        pidfd = os.pidfd_open(pid_of(process))
    except ProcessLookupError:
        return None
    is_alive = False
    try:
        is_alive = lives(
            process, boot
        )  # asked after the open: the pid may have gone to another one in between
    finally:  # also where there is no descriptor left to ask with
        if not is_alive:
            os.close(pidfd)
    return pidfd if is_alive else None
