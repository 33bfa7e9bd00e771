"""Nothing waits for ever. Work on another machine's files is done by a thread of its own, which is given up when it
says nothing for too long: a mount or a connection that hangs cannot be woken, but nobody need wait for it.

A copy may take hours, so it is not its length that counts but that it goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_STUCK_MAX = 4
Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class GivenUp(Exception):
    """Nobody waits for this work any more."""


class Pulse:
    """What working threads report to."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self.beats = 0
        self.is_given_up = False

    def beat(self) -> None:
        """It goes on. Raises if nobody waits any more: what was given up must not go on to write."""
        if self.is_given_up:
            raise GivenUp
        self.beats += 1

    def done(self, bytes: int, of: int) -> None:
        self.beat()
        if self._progress is not None:
            self._progress(bytes, of)


class _Work(Generic[_T]):
    """Something to be done, and what came of it."""

    def __init__(self, work: Callable[[], _T], on_end: Callable[[], None]) -> None:
        self._work = work
        self._on_end = on_end
        self.has_ended = False
        self.result: _T | None = None
        self.error: BaseException | None = None

    def start(self, name: str) -> None:
        # A daemon: a thread that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as wrong:  # noqa: BLE001  # why: it is raised again, where it is waited for
            self.error = wrong
        self.has_ended = True
        self._on_end()

    def outcome(self) -> _T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # why: without an error there is a result


class Patience:
    """Does work and waits for it, but not for ever."""

    def __init__(self, silence_max_s: float) -> None:
        self._silence_max_s = silence_max_s
        self._stuck: list[_Work[Any]] = []

    def spend(self, work: Callable[[Pulse], _T], progress: Progress | None = None) -> _T:
        """The result of the work. Raises ``GivenUp`` when it says nothing for that long, up to twice that, and at once
        while several that were given up are still stuck: they would become more and more."""
        self._stuck = [each for each in self._stuck if not each.has_ended]
        if len(self._stuck) >= _STUCK_MAX:
            raise GivenUp
        pulse, ended = Pulse(progress), threading.Event()
        running = _Work(lambda: work(pulse), ended.set)
        running.start("backup")
        heard = -1
        try:
            while not ended.wait(self._silence_max_s):
                if pulse.beats == heard:
                    self._stuck.append(running)
                    raise GivenUp
                heard = pulse.beats
        finally:
            pulse.is_given_up = True
        return running.outcome()


class _Daemons(Executor):
    """A thread for each piece of work, for which a process that ends does not wait."""

    def submit(self, work: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()  # it runs whether or not anybody waits

        def run() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as wrong:  # noqa: BLE001  # why: it is raised again, where it is waited for
                future.set_exception(wrong)

        threading.Thread(target=run, name="backups", daemon=True).start()
        return future


_DAEMONS = _Daemons()


async def in_thread(work: Callable[[], _T]) -> _T:
    """Like ``asyncio.to_thread``, but a process that ends does not wait for it."""
    return await asyncio.get_running_loop().run_in_executor(_DAEMONS, work)
