"""A receiver of HTTP calls in a process of its own, which keeps the names of all that reached it.

``python -m bench.receiver`` prints its port; ``GET /`` tells how many calls and how many different names it has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import uvloop

from bench.service import ROOT, get


class Received(NamedTuple):
    """What a receiver has seen."""

    calls: int
    names: int


class Receiver(NamedTuple):
    """Where it is."""

    url: str

    def seen(self) -> Received:
        return Received(**json.loads(get(self.url, "/")))


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.receiver"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            yield Receiver(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


async def _serve() -> None:
    seen: Counter[bytes] = Counter()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(_header(head, b"content-length") or 0))
                if head.startswith(b"get "):
                    told = json.dumps({"calls": seen.total(), "names": len(seen)}).encode()
                    size = len(told)
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (size, told))
                else:
                    seen[_header(head, b"idempotency-key")] += 1
                    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _header(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


if __name__ == "__main__":
    uvloop.run(_serve())
