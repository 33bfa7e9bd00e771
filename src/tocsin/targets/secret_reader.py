"""Reads the secrets of calls without making others wait: a file may be on a file system that does not answer.

A file is read by one thread at a time, for all calls that need it. A thread that gets no answer for some seconds is
left alone, and the calls fail: the next call after a while tries anew, because the path may lead elsewhere by then.
Threads are daemons: one that hangs keeps neither the service from ending nor anybody else from a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NamedTuple

from tocsin.model.target import HttpTarget
from tocsin.targets.secrets import (
    SecretMissingError,
    SecretRules,
    Secrets,
    Use,
    as_text,
    read_secret,
    uses_of,
)

FILES_AT_ONCE = 32
"""So many files are read at one time; more wait for their turn."""
ANSWER_WITHIN_S = 2.0
"""A file that does not answer for so long hangs."""
TRIED_AGAIN_S = (10.0, 60.0, 600.0)
"""A file that hangs is tried again so long after each attempt, and then no more until one of these is answered."""
HANGING_MAX = 128
"""So many threads may hang."""


class _Hangs(NamedTuple):
    """A file that does not answer."""

    threads: int
    again_s: float
    """Not tried before, by the loop's clock."""


class SecretReader:
    """For one service."""

    def __init__(self, rules: SecretRules) -> None:
        self._rules = rules
        self._reading: dict[str, asyncio.Future[bytes]] = {}
        self._hanging: dict[str, _Hangs] = {}
        self._turns = asyncio.Semaphore(FILES_AT_ONCE)

    async def read(self, spec: HttpTarget) -> Secrets:
        """All that a call needs. Raises SecretMissingError."""
        uses = uses_of(spec)
        if not uses:
            return _NONE
        keys = [await self._read(use) for use in uses if not use.is_sent]
        sent = {use.reference: as_text(use, await self._read(use)) for use in uses if use.is_sent}
        return Secrets(keys, sent)

    async def _read(self, use: Use) -> bytes:
        if refusal := self._rules.refusal(use):
            raise SecretMissingError(refusal, permanent=True)
        if not use.reference.startswith("file:"):
            return read_secret(use, self._rules)
        reading = self._reading.get(use.reference)
        if reading is None:
            self._check_answers(use)
            reading = asyncio.ensure_future(self._read_file(use))
            reading.add_done_callback(_look_at)
            self._reading[use.reference] = reading
        return await asyncio.shield(reading)

    def _check_answers(self, use: Use) -> None:
        """Raise if this file hangs and is not to be tried yet, or if there is no thread left to try with."""
        hangs = self._hanging.get(use.reference)
        if hangs is not None and asyncio.get_running_loop().time() < hangs.again_s:
            raise SecretMissingError(f"the secret {use.reference} cannot be read: the file does not answer")
        if sum(each.threads for each in self._hanging.values()) >= HANGING_MAX:
            raise SecretMissingError(
                f"the secret {use.reference} cannot be read: too many other files do not answer"
            )

    async def _read_file(self, use: Use) -> bytes:
        """What the file holds. Whoever asks from now on begins anew: only what is read later is new."""
        loop = asyncio.get_running_loop()
        try:
            async with self._turns:
                reading = self._begin(use)
                done, _ = await asyncio.wait({reading}, timeout=ANSWER_WITHIN_S)
        finally:
            self._reading.pop(use.reference, None)
        if done:
            return reading.result()
        threads = self._hanging.get(use.reference, _NOT_YET).threads + 1
        waits_s = TRIED_AGAIN_S[threads - 1] if threads <= len(TRIED_AGAIN_S) else float("inf")
        self._hanging[use.reference] = _Hangs(threads, loop.time() + waits_s)
        reading.add_done_callback(lambda _: self._answered(use.reference))
        raise SecretMissingError(
            f"the secret {use.reference} cannot be read: the file did not answer within {ANSWER_WITHIN_S:g}s"
        )

    def _answered(self, reference: str) -> None:
        """One of the threads that hung has ended: the file system answers again."""
        threads = self._hanging.pop(reference, _NOT_YET).threads - 1
        if threads > 0:
            self._hanging[reference] = _Hangs(threads, 0.0)

    def _begin(self, use: Use) -> asyncio.Future[bytes]:
        """Start a thread that reads it."""
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[bytes] = loop.create_future()
        reading.add_done_callback(_look_at)

        def done(value: bytes | SecretMissingError) -> None:
            if isinstance(value, bytes):
                reading.set_result(value)
            else:
                reading.set_exception(value)

        def work() -> None:
            try:
                value: bytes | SecretMissingError = read_secret(use, self._rules)
            except SecretMissingError as missing:
                value = missing
            with contextlib.suppress(RuntimeError):  # the service has ended
                loop.call_soon_threadsafe(done, value)

        try:
            threading.Thread(target=work, name="secret", daemon=True).start()
        except RuntimeError as wrong:  # there is no thread left
            raise SecretMissingError(f"the secret {use.reference} cannot be read now: {wrong}") from wrong
        return reading


_NONE = Secrets()
_NOT_YET = _Hangs(0, 0.0)


def _look_at(reading: asyncio.Future[bytes]) -> None:
    """The call that waited for it may be gone, and asyncio would log an exception that nobody retrieved."""
    if not reading.cancelled():
        reading.exception()
