"""A process that reads blocks, one after another. It ends when nobody talks to it any more.

    python -m tocsin.api.importing.reader

To read, check and settle a line takes most of the time of an import, and is work for the processor alone: on a thread
of the service it would hold up whatever is to be launched. A few lines are not worth a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import struct
import sys
from typing import BinaryIO

from tocsin.api.importing.blocks import Block
from tocsin.api.importing.reading import Read, Rules, read
from tocsin.errors import JournalUnavailable

_SIZE = struct.Struct(">I")
FEW_BYTES = 64 * 1024


class Reader:
    """``async with``: the process, once it is worth it, lives until the end of the block."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def read(self, block: Block, now_s: int) -> list[Read]:
        if self._process is None and len(block.text) <= FEW_BYTES:
            return await asyncio.to_thread(read, block, self._rules, now_s)
        if self._process is None:
            self._process = await _started()
            await self._send(self._rules)
        await self._send((block, now_s))
        found: list[Read] = await self._receive()
        return found

    async def _send(self, what: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        raw = pickle.dumps(what)
        try:
            self._process.stdin.write(_SIZE.pack(len(raw)) + raw)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _gone() from None

    async def _receive(self) -> list[Read]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            (size,) = _SIZE.unpack(await self._process.stdout.readexactly(_SIZE.size))
            raw = await self._process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            raise _gone() from None
        return pickle.loads(raw)  # type: ignore[no-any-return]  # why: our own process, and nobody else, wrote it


async def _started() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=8 << 20,
    )


def _gone() -> JournalUnavailable:
    return JournalUnavailable("the process that reads imports has ended", hint="send the import again")


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    rules: Rules | None = None
    while head := source.read(_SIZE.size):
        told = pickle.loads(source.read(_SIZE.unpack(head)[0]))
        if rules is None:
            rules = told
            continue
        block, now_s = told
        raw = pickle.dumps(read(block, rules, now_s))
        sink.write(_SIZE.pack(len(raw)) + raw)
        sink.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
