"""Processes (``child``) that read blocks, one after another. They end when nobody talks to them any more.

To read, check and settle a line takes most of the time of an import, and is work for the processor alone: on a thread
of the service it would hold up whatever is to be launched. A few lines are not worth a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys

from tocsin.api.importing import child
from tocsin.api.importing.child import SIZE
from tocsin.api.importing.reading import Block, Read, Rules, read
from tocsin.errors import JournalUnavailable

FEW_BYTES = 64 * 1024
READERS = min(2, os.cpu_count() or 1)


class Readers:
    """``async with``: blocks are read by several in turn, each in a process of its own that lives until the end."""

    def __init__(self, rules: Rules) -> None:
        self._readers = [_Reader(rules) for _ in range(READERS)]
        self._reading: dict[asyncio.Task[list[Read]], None] = {}
        self._turn = 0

    async def __aenter__(self) -> Readers:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):  # what came before an error is read all the same
            await asyncio.gather(*self._reading, return_exceptions=True)
        for task in list(self._reading):
            task.cancel()
        for reader in self._readers:
            await reader.end()

    def read(self, block: Block, now_s: int) -> asyncio.Task[list[Read]]:
        """What the block says, as soon as one of them has read it."""
        reader = self._readers[self._turn % READERS]
        self._turn += 1
        task = asyncio.create_task(reader.read(block, now_s))
        self._reading[task] = None
        task.add_done_callback(lambda done: self._reading.pop(done, None))
        return task


class _Reader:
    """One of them. A few lines are read here."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._process: asyncio.subprocess.Process | None = None
        self._free = asyncio.Lock()

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def read(self, block: Block, now_s: int) -> list[Read]:
        async with self._free:
            if self._process is None and len(block.text) <= FEW_BYTES:
                return await asyncio.to_thread(read, block, self._rules, now_s)
            if self._process is None:
                self._process = await _started()
                await self._send(self._rules)
            await self._send((block, now_s))
            return await self._receive()

    async def _send(self, what: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        raw = pickle.dumps(what)
        try:
            self._process.stdin.write(SIZE.pack(len(raw)) + raw)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _gone() from None

    async def _receive(self) -> list[Read]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            (size,) = SIZE.unpack(await self._process.stdout.readexactly(SIZE.size))
            raw = await self._process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            raise _gone() from None
        return pickle.loads(raw)  # type: ignore[no-any-return]  # why: our own process, and nobody else, wrote it


async def _started() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        child.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=8 << 20,
    )


def _gone() -> JournalUnavailable:
    return JournalUnavailable("the process that reads imports has ended", hint="send the import again")
