"""As little HTTP as will do. A client that costs more than the service would be what is measured."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    status: int
    body: bytes


class Connection:
    """One connection, kept open, one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: bytes = b"") -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        reader, writer = self._streams
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        told = await reader.readuntil(b"\r\n\r\n")
        status = int(told[9:12])
        lower = told.lower()
        size = int(_header(lower, b"content-length") or 0)
        if _header(lower, b"transfer-encoding") == b"chunked":
            found = await _chunks(reader)
        else:
            found = await reader.readexactly(size) if size else b""
        if _header(lower, b"connection") == b"close":
            self.close()
        return Answer(status, found)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _header(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(parts)
