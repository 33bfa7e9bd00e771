"""Keeps one etcd running.

It is restarted when it dies, at once the first time and then with growing pauses. When Tocsin itself is killed, etcd
stays: the quorum is better off with it. The next Tocsin finds it among the processes of this machine by the folder of
its data, and takes it over if it answers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.errors import TocsinError
from tocsin.files import make_folder
from tocsin.member.chatter import Chatter
from tocsin.member.program import clean_environment

_log = structlog.get_logger()
_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0
_STEADY_S = 30.0
_STOP_S = 10.0
_ROTATE_EVERY_S = 5.0
_SCARCE_BYTES = 16 << 20
_REMOVED = "data-dir used by this member must be removed"


class _Running(NamedTuple):
    pid: int
    handle: int
    """A descriptor of the process: signals through it reach no other one that got the same number."""
    child: subprocess.Popen[bytes] | None
    """None: another Tocsin started it."""
    since_s: float


class Process:
    """``once`` is asked before each start for what is to be added to the command: how to found or join, as long as
    there is no data yet. ``removed`` is asked when etcd says that the others have removed it: is it true? If not, it is
    started again as after any other end. ``went_back`` is told when etcd has found that its log was longer once; it
    is not started again then."""

    def __init__(
        self,
        command: list[str],
        data: Path,
        clock: Clock,
        *,
        once: Callable[[], Awaitable[list[str]]],
        removed: Callable[[], Awaitable[bool]],
        went_back: Callable[[], None],
    ) -> None:
        self.problem = ""
        self._command = command
        self._data = data
        self._clock = clock
        self._once = once
        self._removed = removed
        self._went_back = went_back
        self._chatter = Chatter(data.with_name("etcd.log"))
        self._running: _Running | None = None
        self._signal = 0
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._running.pid if self._running else None

    async def start(self, answers: Callable[[], Awaitable[bool]], *, afresh: bool = False) -> None:
        """Take over the one that runs, if it is as it should be and answers; else start one. ``afresh``: in any case.
        Returns when it has been started, which does not yet mean that it is of any use."""
        found = find(self._data)
        if found is not None:
            pid, command = found
            self._running = _taken(pid, self._data, self._clock)
            self._chatter.listen_from_here()
            same = command[: len(self._command)] == self._command
            if self._running and same and not afresh and await answers():
                _log.info("an etcd was still running; it goes on", pid=pid)
            else:
                await self._end()
        self._keeping = asyncio.create_task(self._keep(), name="etcd")
        self._keeping.add_done_callback(self._on_kept)

    async def stop(self, *, at_once: bool = False) -> None:
        """SIGTERM, and SIGKILL when that takes too long, or ``at_once``."""
        self._stopping.set()
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        await self._end(at_once=at_once)

    async def _keep(self) -> None:
        failures = 0
        said = ""
        while not self._stopping.is_set():
            if self._running is None:
                if self._pause(failures):
                    await self._clock.wait(self._stopping, self._pause(failures))
                said = await self._begin(said)
            if self._running is None:
                failures += 1
                continue
            lasted_s = await self._outlive(self._running)
            if self._chatter.has_said(_REMOVED) and await self._removed():
                return
            if self._chatter.has_lost_log():
                self._went_back()
                return
            failures = 1 if lasted_s > _STEADY_S else failures + 1
            said = self._complain(said)

    def _on_kept(self, task: asyncio.Task[None]) -> None:
        """Nobody minds etcd any more, and that must not go unseen."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            self.problem = f"etcd is not minded any more: {wrong}"
            _log.error("etcd is not minded any more", reason=str(wrong), exc_info=wrong)

    @staticmethod
    def _pause(failures: int) -> float:
        return 0.0 if failures < 2 else min(_PAUSE_S * 2 ** (failures - 2), _PAUSE_S_MAX)

    async def _begin(self, said: str) -> str:
        try:
            command = [*self._command, *await self._once()]
            self._running = self._spawn(command)
        except (OSError, TocsinError) as wrong:
            if str(wrong) != said:
                _log.error("etcd cannot be started", reason=str(wrong))
            self.problem = f"etcd cannot be started: {wrong}"
            return str(wrong)
        return said

    def _spawn(self, command: list[str]) -> _Running:
        make_folder(self._data.parent)
        with self._chatter.open() as chatter:
            child = subprocess.Popen(
                command,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=chatter,
                stderr=chatter,
                start_new_session=True,  # a Ctrl-C is for Tocsin, which ends it in good order
            )
        return _Running(child.pid, os.pidfd_open(child.pid), child, self._clock.elapsed_s())

    async def _outlive(self, running: _Running) -> float:
        """Wait until it has ended. How long it ran."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(running.handle, ended.set)
        try:
            while not await self._clock.wait(ended, _ROTATE_EVERY_S):
                with suppress(OSError):  # a full disk: there is nothing to be gained there
                    self._chatter.rotate()
        finally:
            loop.remove_reader(running.handle)
        return self._bury(running)

    def _bury(self, running: _Running) -> float:
        os.close(running.handle)
        self._signal = max(0, -running.child.wait()) if running.child is not None else 0
        self._running = None
        return self._clock.elapsed_s() - running.since_s

    def _complain(self, said: str) -> str:
        """The same reason is told once, not every few seconds."""
        reason = self._reason()
        self.problem = f"etcd ended: {reason}"
        if reason != said:
            _log.error("etcd ended; it is started again", reason=reason)
        return reason

    def _reason(self) -> str:
        with suppress(OSError):
            free = shutil.disk_usage(self._data.parent).free
            if free < _SCARCE_BYTES:
                return (
                    f"the disk is full: less than {_SCARCE_BYTES >> 20} MiB are free at {self._data.parent}"
                )
        if self._signal:
            return f"it was killed by signal {self._signal}"
        with suppress(OSError):
            if self._chatter.has_said(_REMOVED):
                return "it says that the others have removed it, and they do not confirm that"
            return self._chatter.last_words() or "it did not say why"
        return "unknown: its log cannot be read"

    async def _end(self, *, at_once: bool = False) -> None:
        running = self._running
        if running is None:
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(running.handle, ended.set)
        try:
            for name in (signal.SIGKILL,) if at_once else (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(running.handle, name)
                if await self._clock.wait(ended, _STOP_S):
                    break
        finally:
            loop.remove_reader(running.handle)
        self._bury(running)


def find(data: Path) -> tuple[int, list[str]] | None:
    """The etcd of this user that uses this folder: its pid and its command. One written down could be another's by
    now, and anybody can give a process of theirs such a command."""
    option = f"--data-dir={data}"
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                command = (
                    Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
                )
                # The same path may be another folder there: in a container, say.
                folder = Path("/proc", name, "root", *data.parent.parts[1:])
                own = Path("/proc", name).stat().st_uid == os.geteuid()
                if own and option in command[1:] and folder.samefile(data.parent):
                    return int(name), command
    return None


def _taken(pid: int, data: Path, clock: Clock) -> _Running | None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    still = find(data)  # now that its number can go to nobody else
    if still is None or still[0] != pid:
        os.close(handle)
        return None
    return _Running(pid, handle, None, clock.elapsed_s())
