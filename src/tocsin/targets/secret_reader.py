"""Reads the secrets of calls without making others wait: a file may be on a file system that does not answer.

A file is read by one thread at a time, for all calls that need it, and there are few such threads. They are daemons:
one that hangs keeps neither the service from ending nor anybody else from a thread.
"""

from __future__ import annotations

import asyncio
import threading

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

FILES_AT_ONCE = 16


class SecretReader:
    """For one service."""

    def __init__(self, rules: SecretRules) -> None:
        self._rules = rules
        self._reading: dict[str, asyncio.Future[bytes]] = {}

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
            reading = self._begin(use)
        return await asyncio.shield(reading)

    def _begin(self, use: Use) -> asyncio.Future[bytes]:
        if len(self._reading) >= FILES_AT_ONCE:
            raise SecretMissingError(
                f"the secret {use.reference} cannot be read: too many others do not answer"
            )
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[bytes] = loop.create_future()
        reading.add_done_callback(_looked_at)

        def done(value: bytes | SecretMissingError) -> None:
            self._reading.pop(use.reference, None)
            if isinstance(value, bytes):
                reading.set_result(value)
            else:
                reading.set_exception(value)

        def work() -> None:
            try:
                value: bytes | SecretMissingError = read_secret(use, self._rules)
            except SecretMissingError as missing:
                value = missing
            if not loop.is_closed():
                loop.call_soon_threadsafe(done, value)

        try:
            threading.Thread(target=work, name="secret", daemon=True).start()
        except RuntimeError as wrong:  # there is no thread left
            raise SecretMissingError(f"the secret {use.reference} cannot be read now: {wrong}") from wrong
        self._reading[use.reference] = reading
        return reading


_NONE = Secrets()


def _looked_at(reading: asyncio.Future[bytes]) -> None:
    """The call that waited for it may be gone, and asyncio would log an exception that nobody retrieved."""
    if not reading.cancelled():
        reading.exception()
