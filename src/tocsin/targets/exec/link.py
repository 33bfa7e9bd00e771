"""Tocsin's end of the nursery: starts it, hands it orders, hears its keepers."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tocsin

_START = """
import sys
sys.path.append(sys.argv[1])
from tocsin.targets.exec.nursery import main
main(int(sys.argv[2]))
"""
_LIMIT_AT_BIRTH = resource.getrlimit(resource.RLIMIT_NOFILE)
"""The service may raise its own limit of open files; its commands are to have what an administrator gave it."""
_PACKAGES = str(Path(tocsin.__file__).parent.parent)
_STOP_S = 5.0
_MESSAGES_MAX = 256

Hear = Callable[[dict[str, Any]], None]


class Link:
    """One nursery process. ``mourn`` is called when it dies by itself; its keepers may speak even then."""

    def __init__(self, log: Path, hear: Hear, mourn: Callable[[], None]) -> None:
        self.dead = False
        self._hear = hear
        self._mourn = mourn
        self._loop = asyncio.get_running_loop()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("ab") as errors:
            # Isolated and without site: only the standard library and this package, to keep forks cheap.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, _PACKAGES, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={"PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, _LIMIT_AT_BIRTH)
        self._channel.setblocking(False)
        self._loop.add_reader(self._channel.fileno(), self._listen)
        # The socket does not tell: keepers hold its other end open too.
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._note_death)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, key: str, order: bytes, payload: bytes) -> None:
        """Hand over one order. An OSError: nothing went out. A ConnectionError: the nursery is gone."""
        files = []
        try:
            for name, content in (("order", order), ("payload", payload)):
                files.append(_file_in_memory(name, content))
            socket.send_fds(self._channel, [key.encode()], files)
        except ConnectionError:
            self._note_death()
            raise
        finally:
            for fd in files:
                os.close(fd)

    async def close(self) -> None:
        """Let the nursery go, and its keepers alone."""
        self._stop_listening()
        if self.dead:
            return
        self._mourn = _not_mourned
        try:
            await self._loop.run_in_executor(None, self._process.wait, _STOP_S)
        except subprocess.TimeoutExpired:  # it was stopped (SIGSTOP) or the machine is stuck
            self._process.kill()
        self._note_death()

    def _listen(self) -> None:
        for _ in range(_MESSAGES_MAX):
            try:
                message = self._channel.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:  # the nursery and all of its keepers are gone
                self._stop_listening()
                return
            self._hear(json.loads(message))

    def _stop_listening(self) -> None:
        if self._channel.fileno() != -1:
            self._loop.remove_reader(self._channel.fileno())
            self._channel.close()

    def _note_death(self) -> None:
        if self.dead:
            return
        self.dead = True
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._mourn()


def _not_mourned() -> None:
    """Nobody needs to know: its end was asked for."""


def _file_in_memory(name: str, content: bytes) -> int:
    fd = os.memfd_create(name)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd
