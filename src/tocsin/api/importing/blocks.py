"""The stream of an import, cut into blocks of whole lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tocsin.api.importing.reading import Block
from tocsin.errors import InvalidInput
from tocsin.model.schedule import SCHEDULE_BYTES_MAX

LINE_BYTES_MAX = 4 * SCHEDULE_BYTES_MAX
BLOCK_BYTES = 256 * 1024
"""What becomes one entry: etcd takes no greater ones than a megabyte and a half."""
QUIET_S = 0.05
"""When nothing more comes for so long, what is there is not kept waiting."""


class Unreadable(Exception):  # why: it never leaves the import
    """A line of which the end is not known: what follows cannot be read either."""

    def __init__(self, line: int, size: int) -> None:
        super().__init__(line)
        self.line = line
        self.error = InvalidInput(
            "the line is too long, so nothing behind it was read",
            field="line",
            value=size,
            allowed=f"up to {LINE_BYTES_MAX} bytes",
        )


async def blocks(stream: AsyncIterator[bytes]) -> AsyncIterator[Block]:
    """A block is full, or nothing more comes for a moment. A line that is too long cannot be passed over: its end is
    not known."""
    cutter = _Cutter()
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(stream))
            await asyncio.wait([coming], timeout=QUIET_S if cutter.has_line else None)
            if coming.done():
                chunk, coming = coming.result(), None
                if chunk is None:
                    break
                cutter.add(chunk)
                if not cutter.is_full:
                    continue
            yield cutter.cut()
            cutter.check()
    finally:
        if coming is not None:
            coming.cancel()
    if cutter.held:
        yield Block(cutter.number, bytes(cutter.held))


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


class _Cutter:
    """What has come and was not given out yet."""

    def __init__(self) -> None:
        self.number = 1
        self.held = bytearray()
        self._end = 0

    @property
    def has_line(self) -> bool:
        return self._end > 0

    @property
    def is_full(self) -> bool:
        return self.has_line and len(self.held) >= BLOCK_BYTES

    def add(self, chunk: bytes) -> None:
        at = chunk.rfind(b"\n") + 1
        if at:
            self._end = len(self.held) + at
        self.held += chunk
        if not self.has_line:
            self.check()

    def cut(self) -> Block:
        text = bytes(self.held[: self._end])
        del self.held[: self._end]
        self._end = 0
        found = Block(self.number, text)
        self.number += text.count(b"\n")
        return found

    def check(self) -> None:
        if len(self.held) > LINE_BYTES_MAX:
            raise Unreadable(self.number, len(self.held))
