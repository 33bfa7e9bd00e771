"""Processes (``child``) that read blocks, one after another, for all imports. They end with the last one.

To read, check and settle a line takes most of the time of an import, and is work for the processor alone: on a thread
of the service it would hold up whatever is to be launched. A few lines are not worth a process. However many imports
there are, and however long they are held open, there are no more than ``READERS`` processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tocsin.api.importing import child
from tocsin.api.importing.child import SIZE
from tocsin.api.importing.reading import Block, Read, Rules, read
from tocsin.api.problems import HttpRefusal
from tocsin.errors import JournalUnavailable

FEW_BYTES = 64 * 1024
READERS = min(2, os.cpu_count() or 1)
IMPORTS_MAX = 16
"""Imports at one time. Each keeps some blocks in memory."""
IMPORTS_OF_ONE_MAX = 8
"""Of one token: the others find room."""


class ReaderPool:
    """The processes of one service."""

    def __init__(self) -> None:
        self._readers: list[_Reader] = []
        self._callers: Counter[str] = Counter()
        """How many imports of each are under way."""
        self._turn = 0

    def check_room(self, who: str) -> None:
        """Raise where one more import is too many, of all or of this caller."""
        if who and self._callers[who] >= IMPORTS_OF_ONE_MAX:
            raise HttpRefusal(
                503,
                f"{IMPORTS_OF_ONE_MAX} imports of this token are under way already",
                hint="wait until one of them has ended",
            )
        if self._callers.total() >= IMPORTS_MAX:
            raise HttpRefusal(
                503, f"{IMPORTS_MAX} imports are under way already", hint="wait until one of them has ended"
            )

    def enter(self, who: str) -> None:
        """An import begins."""
        self.check_room(who)
        if not self._callers.total():
            self._readers = [_Reader() for _ in range(READERS)]
        self._callers[who] += 1

    async def leave(self, who: str) -> None:
        """It is over."""
        self._callers[who] -= 1
        if not self._callers[who]:
            del self._callers[who]
        if not self._callers:
            readers, self._readers = self._readers, []
            for reader in readers:
                reader.end()
            await asyncio.to_thread(_bury, readers)

    async def read(self, block: Block, rules: Rules, now_s: int) -> list[Read]:
        """Have one of the processes read the block."""
        reader = self._readers[self._turn % READERS]
        self._turn += 1
        return await reader.read(block, rules, now_s)


class Readers:
    """``async with``: the pool, as one import sees it."""

    def __init__(self, pool: ReaderPool, rules: Rules, who: str = "") -> None:
        """``who``: the id of the caller's token; empty: none was needed."""
        self._pool = pool
        self._who = who
        self._rules = rules
        self._reading: dict[asyncio.Task[list[Read]], None] = {}

    async def __aenter__(self) -> Readers:
        self._pool.enter(self._who)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):  # what came before an error is read all the same
            await asyncio.gather(*self._reading, return_exceptions=True)
        for task in list(self._reading):
            task.cancel()
        await self._pool.leave(self._who)

    def read(self, block: Block, now_s: int) -> asyncio.Task[list[Read]]:
        task = asyncio.create_task(self._pool.read(block, self._rules, now_s))
        self._reading[task] = None
        task.add_done_callback(lambda done: self._reading.pop(done, None))
        return task


class _Reader:
    """One of them, with a thread that mostly waits: to start a process, and to hand it its work, would hold up the
    loop. A few lines are read on that thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="import")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def end(self) -> None:
        """Whoever waits for it hears that it is gone."""
        self._is_over = True
        if self._process is not None:
            self._process.kill()

    def bury(self) -> None:
        """When nobody talks to it any more."""
        self._thread.shutdown(cancel_futures=True)
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError), self._process:  # waits for it, and closes the pipes
                pass

    async def read(self, block: Block, rules: Rules, now_s: int) -> list[Read]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, block, rules, now_s)

    def _read(self, block: Block, rules: Rules, now_s: int) -> list[Read]:
        if self._process is None and len(block.text) <= FEW_BYTES:
            return read(block, rules, now_s)
        if self._process is None:
            self._start()
        try:
            self._send((block, rules, now_s))
            return self._receive()
        except JournalUnavailable:
            self._replace()
            raise

    def _start(self) -> None:
        words = [sys.executable, "-P", "-m", child.__name__]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._is_over:  # whoever ended it meanwhile did not see it yet
            self._process.kill()

    def _replace(self) -> None:
        """It is dead: the next block has a new one, which may be of another import."""
        dead, self._process = self._process, None
        if dead is not None:
            dead.kill()
            with contextlib.suppress(BrokenPipeError), dead:
                pass

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


def _bury(readers: list[_Reader]) -> None:
    for reader in readers:
        reader.bury()
