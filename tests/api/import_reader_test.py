"""The processes that read an import: real ones, which can be killed and left alone."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable

import pytest
from tests.api.conftest import schedule

from tocsin.api.importing.child import LESS_URGENT
from tocsin.api.importing.reader import FEW_BYTES, READERS, Readers
from tocsin.api.importing.reading import Block, Rules
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.errors import JournalUnavailable
from tocsin.model.token import EVERYBODY
from tocsin.targets.permissions import permissions_of


def _block(count: int, first: int = 1) -> Block:
    lines = [json.dumps(schedule(f"read/{number}")) for number in range(first, first + count)]
    return Block(first, "\n".join(lines).encode())


MANY = FEW_BYTES // 50


def _with_readers(work: Callable[[Readers], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30), Readers(Rules(EVERYBODY, permissions_of(Settings()))) as readers:
            await work(readers)

    asyncio.run(whole())


def _pids(readers: Readers) -> list[int]:
    return [each._process.pid for each in readers._readers if each._process is not None]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def a_few_lines_are_read_without_a_process() -> None:
    async def work(readers: Readers) -> None:
        (read,) = await readers.read(_block(3), 0)
        assert read.new.ids == ["read/1", "read/2", "read/3"]
        assert _pids(readers) == []

    _with_readers(work)


def many_are_read_by_processes_that_let_others_go_first_and_end_with_the_import() -> None:
    pids: list[int] = []

    async def work(readers: Readers) -> None:
        read = await asyncio.gather(*(readers.read(_block(MANY, 1 + MANY * n), 0) for n in range(4)))
        found = [id for blocks in read for some in blocks for id in some.new.ids]
        assert found == [f"read/{number}" for number in range(1, 4 * MANY + 1)]
        pids.extend(_pids(readers))
        urgent = os.getpriority(os.PRIO_PROCESS, 0)
        assert [os.getpriority(os.PRIO_PROCESS, pid) - urgent for pid in pids] == [LESS_URGENT] * READERS

    _with_readers(work)
    assert len(pids) == READERS
    assert not any(map(_is_there, pids))


def when_one_of_them_is_killed_whoever_waits_for_it_is_told() -> None:
    async def work(readers: Readers) -> None:
        await readers.read(_block(MANY), 0)
        (pid,) = _pids(readers)
        os.kill(pid, 9)
        await readers.read(_block(3), 0)  # the other one
        with pytest.raises(JournalUnavailable, match="has ended"):
            await readers.read(_block(MANY), 0)

    _with_readers(work)


def an_import_that_is_broken_off_leaves_no_process_behind() -> None:
    seen: list[Readers] = []

    async def work(readers: Readers) -> None:
        seen.append(readers)
        for number in range(6):
            readers.read(_block(MANY * 4, number), 0)
        while len(_pids(readers)) < READERS:
            await SystemClock().wait(asyncio.Event(), 0.001)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        _with_readers(work)
    assert not any(map(_is_there, _pids(seen[0])))


def nor_does_one_that_is_broken_off_while_they_are_started() -> None:
    seen: list[Readers] = []

    async def work(readers: Readers) -> None:
        seen.append(readers)
        for number in range(4):
            readers.read(_block(MANY, number), 0)
        await asyncio.sleep(0)  # their threads have begun, and no more
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        _with_readers(work)
    assert not any(map(_is_there, _pids(seen[0])))
