"""Processes (``child``) that read blocks, one after another. They end when nobody talks to them any more.

To read, check and settle a line takes most of the time of an import, and is work for the processor alone: on a thread
of the service it would hold up whatever is to be launched. A few lines are not worth a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tocsin.api.importing import child
from tocsin.api.importing.child import SIZE
from tocsin.api.importing.reading import Block, Read, Rules, read
from tocsin.errors import JournalUnavailable

FEW_BYTES = 64 * 1024
READERS = min(2, os.cpu_count() or 1)


class Readers:
    """``async with``: blocks are read by several in turn, each in a process of its own that lives until the end."""

    def __init__(self, rules: Rules) -> None:
        self._threads = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="import")
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
            reader.end()
        await asyncio.to_thread(self._bury)

    def read(self, block: Block, now_s: int) -> asyncio.Task[list[Read]]:
        """What the block says, as soon as one of them has read it."""
        reader = self._readers[self._turn % READERS]
        self._turn += 1
        task = asyncio.create_task(self._read(reader, block, now_s))
        self._reading[task] = None
        task.add_done_callback(lambda done: self._reading.pop(done, None))
        return task

    def _bury(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.bury()

    async def _read(self, reader: _Reader, block: Block, now_s: int) -> list[Read]:
        """On a thread, which mostly waits: to start a process, and to hand it its work, would hold up the loop."""
        async with reader.free:
            return await asyncio.get_running_loop().run_in_executor(self._threads, reader.read, block, now_s)


class _Reader:
    """One of them. A few lines are read here."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self.free = asyncio.Lock()

    def end(self) -> None:
        """Whoever waits for it hears that it is gone."""
        self._is_over = True
        if self._process is not None:
            self._process.kill()

    def bury(self) -> None:
        """When nobody talks to it any more."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError), self._process:  # waits for it, and closes the pipes
                pass

    def read(self, block: Block, now_s: int) -> list[Read]:
        if self._process is None and len(block.text) <= FEW_BYTES:
            return read(block, self._rules, now_s)
        if self._process is None:
            self._start()
            self._send(self._rules)
        self._send((block, now_s))
        return self._receive()

    def _start(self) -> None:
        words = [sys.executable, "-P", "-m", child.__name__]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._is_over:  # whoever ended it meanwhile did not see it yet
            self._process.kill()

    def _send(self, what: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        raw = pickle.dumps(what)
        try:
            self._process.stdin.write(SIZE.pack(len(raw)) + raw)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _gone() from None

    def _receive(self) -> list[Read]:
        assert self._process is not None
        assert self._process.stdout is not None
        head = self._process.stdout.read(SIZE.size)
        if len(head) < SIZE.size:
            raise _gone()
        (size,) = SIZE.unpack(head)
        raw = self._process.stdout.read(size)
        if len(raw) < size:
            raise _gone()
        return pickle.loads(raw)  # type: ignore[no-any-return]  # why: our own process, and nobody else, wrote it


def _gone() -> JournalUnavailable:
    return JournalUnavailable("the process that reads imports has ended", hint="send the import again")
