"""The processes that read an import: real ones, which can be killed and left alone."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.api.conftest import schedule

from tocsin.api.importing.child import LESS_URGENT
from tocsin.api.importing.reader import (
    FEW_BYTES,
    IMPORTS_MAX,
    IMPORTS_OF_ONE_MAX,
    READERS,
    ReaderPool,
    Readers,
)
from tocsin.api.importing.reading import REPLACED_MAX, Block, Read, Rules, read
from tocsin.api.problems import HttpRefusal
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
        rules = Rules(EVERYBODY, permissions_of(Settings()))
        async with asyncio.timeout(30), Readers(ReaderPool(), rules) as readers:
            await work(readers)

    asyncio.run(whole())


def _counted(blocks: list[Read]) -> tuple[int, int]:
    """Lines that were taken, and refused."""
    return sum(len(some.lines) for some in blocks), sum(len(some.refused) for some in blocks)


def schedules_that_may_be_there_already_are_written_few_at_once() -> None:
    rules = Rules(EVERYBODY, permissions_of(Settings()), rows_max=REPLACED_MAX)
    found = read(_block(2 * REPLACED_MAX + 1), rules, 0)
    assert [len(some.lines) for some in found] == [REPLACED_MAX, REPLACED_MAX, 1]


def _pids(readers: Readers) -> list[int]:
    return [each._process.pid for each in readers._pool._readers if each._process is not None]


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
    seen: list[int] = []

    async def work(readers: Readers) -> None:
        for number in range(6):
            readers.read(_block(MANY * 4, number), 0)
        while len(_pids(readers)) < READERS:
            await SystemClock().wait(asyncio.Event(), 0.001)
        seen.extend(_pids(readers))
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        _with_readers(work)
    assert len(seen) == READERS
    assert not any(map(_is_there, seen))


def nor_does_one_that_is_broken_off_while_they_are_started() -> None:
    seen: list[Any] = []

    async def work(readers: Readers) -> None:
        seen.extend(readers._pool._readers)
        for number in range(4):
            readers.read(_block(MANY, number), 0)
        await asyncio.sleep(0)  # their threads have begun, and no more
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        _with_readers(work)
    assert len(seen) == READERS
    assert not any(_is_there(each._process.pid) for each in seen if each._process is not None)


def many_imports_share_the_processes_and_the_last_one_ends_them() -> None:
    async def whole() -> None:
        rules = Rules(EVERYBODY, permissions_of(Settings()))
        pool = ReaderPool()
        async with asyncio.timeout(30), AsyncExitStack() as held:
            imports = [await held.enter_async_context(Readers(pool, rules)) for _ in range(IMPORTS_MAX)]
            await asyncio.gather(*(each.read(_block(MANY), 0) for each in imports))
            pids = _pids(imports[0])
            assert len(pids) == READERS
            with pytest.raises(HttpRefusal, match="under way already"):
                await Readers(pool, rules).__aenter__()
        assert not any(map(_is_there, pids))
        async with Readers(pool, rules) as one:
            assert (await one.read(_block(MANY), 0))[0].new.ids[0] == "read/1"

    asyncio.run(whole())


def the_imports_of_one_token_leave_room_for_others() -> None:
    async def whole() -> None:
        rules = Rules(EVERYBODY, permissions_of(Settings()))
        pool = ReaderPool()
        async with asyncio.timeout(30), AsyncExitStack() as held:
            for _ in range(IMPORTS_OF_ONE_MAX):
                await held.enter_async_context(Readers(pool, rules, "one"))
            with pytest.raises(HttpRefusal, match="of this token"):
                await Readers(pool, rules, "one").__aenter__()
            await held.enter_async_context(Readers(pool, rules, "another"))
        async with Readers(pool, rules, "one"):
            pool.check_room("one")

    asyncio.run(whole())


def each_import_is_judged_by_its_own_rights() -> None:
    async def whole() -> None:
        pool = ReaderPool()
        permissions = permissions_of(Settings())
        confined = EVERYBODY._replace(prefixes=("elsewhere/",))
        async with (
            asyncio.timeout(30),
            Readers(pool, Rules(EVERYBODY, permissions)) as all_may,
            Readers(pool, Rules(confined, permissions)) as may_not,
        ):
            for _ in range(2 * READERS):
                read, refused = await asyncio.gather(
                    all_may.read(_block(MANY), 0), may_not.read(_block(MANY), 0)
                )
                assert _counted(read) == (MANY, 0)
                assert _counted(refused) == (0, MANY)

    asyncio.run(whole())


def a_process_that_was_killed_is_replaced() -> None:
    async def work(readers: Readers) -> None:
        await asyncio.gather(*(readers.read(_block(MANY), 0) for _ in range(READERS)))
        for pid in _pids(readers):
            os.kill(pid, 9)
        for _ in range(READERS):
            with pytest.raises(JournalUnavailable, match="has ended"):
                await readers.read(_block(MANY), 0)
        for _ in range(READERS):
            assert (await readers.read(_block(MANY), 0))[0].lines

    _with_readers(work)
