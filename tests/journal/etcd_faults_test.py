"""What happens to appends and readers when etcd's servers hang, die or are cut off, on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.etcd import EtcdCluster, EtcdServer, etcd
from tests.journal.proxy import Proxy, proxy
from tests.ports import own_port, own_ports

from tocsin.errors import Conflict, JournalFull, JournalUnavailable, Unknown
from tocsin.journal.contract import Journal, Record, settle
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.model.entry import Position

_PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd(tmp_path_factory.mktemp("one")) as cluster:
        yield cluster


@pytest.fixture
def three(tmp_path: Path) -> Iterator[EtcdCluster]:
    with etcd(tmp_path / "three", count=3) as cluster:
        yield cluster


def _run(claim: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(claim, _PATIENCE_S))


@contextlib.asynccontextmanager
async def _journal(endpoints: list[Endpoint], prefix: str) -> AsyncIterator[EtcdJournal]:
    journal = EtcdJournal(EtcdClient(endpoints), prefix)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()


@contextlib.asynccontextmanager
async def _behind_proxy(
    cluster: EtcdCluster, prefix: str
) -> AsyncIterator[tuple[Proxy, EtcdJournal, EtcdJournal]]:
    """A journal behind a proxy, and the same one without."""
    async with (
        proxy(cluster.servers[0].endpoint) as between,
        _journal([between.endpoint], prefix) as journal,
        _journal(cluster.endpoints, prefix) as direct,
    ):
        yield between, journal, direct


async def _commit(journal: Journal, id: bytes, raw: bytes, after: Position) -> None:
    """As a leader does: until it is certain."""
    try:
        await journal.append(id, raw, after)
        return
    except (Unknown, JournalUnavailable):
        pass
    while True:
        try:
            await settle(journal, id, raw, after)
            return
        except (Unknown, JournalFull, JournalUnavailable):
            await asyncio.sleep(0.1)


def an_append_whose_answer_was_lost_is_unknown_and_settled_as_landed(
    one: EtcdCluster, tmp_path: Path
) -> None:
    async def claim() -> None:
        async with _behind_proxy(one, str(tmp_path)) as (between, journal, direct):
            between.answers.clear()
            with pytest.raises(Unknown):
                await journal.append(b"i" * 16, b"raw", journal.birth.start)
            between.open()
            await settle(journal, b"i" * 16, b"raw", journal.birth.start)
            assert (await direct.bounds())[:2] == (1, 1)

    _run(claim())


def an_append_on_a_connection_that_breaks_is_unknown(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        async with _behind_proxy(one, str(tmp_path)) as (between, journal, _):
            between.answers.clear()
            appending = asyncio.create_task(journal.append(b"i" * 16, b"raw", journal.birth.start))
            await between.held.wait()
            started = time.monotonic()
            between.cut()
            with pytest.raises(Unknown):
                await appending
            assert time.monotonic() - started < 0.5

    _run(claim())


def an_append_that_lands_late_is_settled_as_landed(one: EtcdCluster, tmp_path: Path) -> None:
    """The request hangs on the way until after it was given up and asked after."""

    async def claim() -> None:
        async with _behind_proxy(one, str(tmp_path)) as (between, journal, direct):
            between.requests.clear()
            with pytest.raises(Unknown):
                await journal.append(b"i" * 16, b"raw", journal.birth.start)
            assert await direct.get(1) is None
            between.open()  # the held request goes its way now
            await settle(direct, b"i" * 16, b"raw", direct.birth.start)
            assert (await direct.bounds())[:2] == (1, 1)
            await _commit(journal, b"j" * 16, b"next", Position(1, b"i" * 16))
            assert (await direct.bounds())[:2] == (1, 2)

    _run(claim())


def an_append_that_lands_too_late_is_nothing(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        async with _behind_proxy(one, str(tmp_path)) as (between, journal, direct):
            between.requests.clear()
            with pytest.raises(Unknown):
                await journal.append(b"i" * 16, b"raw", journal.birth.start)
            await direct.append(b"o" * 16, b"other", direct.birth.start)
            between.open()
            with pytest.raises(Conflict):
                await settle(journal, b"i" * 16, b"raw", journal.birth.start)
            assert await direct.get(1) == Record(1, b"o" * 16, b"other")
            assert (await direct.bounds())[:2] == (1, 1)

    _run(claim())


def where_nobody_listens_nothing_has_landed(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        nobody = [Endpoint("127.0.0.1", port) for port in own_ports(2)]
        journal = EtcdJournal(EtcdClient(nobody), str(tmp_path))
        started = time.monotonic()
        with pytest.raises(JournalUnavailable, match=str(nobody[0].port)):
            await journal.append(b"i" * 16, b"raw", journal.birth.start)
        assert time.monotonic() - started < 1
        await journal.close()

    _run(claim())


def an_address_that_refuses_is_passed_over_at_once(one: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        nobody = Endpoint("127.0.0.1", own_port())
        async with _journal([nobody, *one.endpoints], str(tmp_path)) as journal:
            started = time.monotonic()
            for _ in range(50):
                await journal.append(os.urandom(16), b"raw", (await journal.bounds()).end)
            assert time.monotonic() - started < 2

    _run(claim())


def a_reader_leaves_a_server_that_falls_silent(three: EtcdCluster, tmp_path: Path) -> None:
    """Its connection stays open and nothing comes any more."""

    async def claim() -> None:
        async with (
            proxy(three.servers[0].endpoint) as between,
            _journal([between.endpoint, three.servers[1].endpoint], str(tmp_path)) as reading,
            _journal([three.servers[2].endpoint], str(tmp_path)) as writing,
            contextlib.aclosing(reading.read(0)) as records,  # type: ignore[type-var]  # why: it is a generator
        ):
            await writing.append(b"i" * 16, b"raw", writing.birth.start)
            assert (await anext(records)).seq == 1
            arriving = asyncio.ensure_future(anext(records))
            between.answers.clear()
            started = time.monotonic()
            await writing.append(b"j" * 16, b"raw", Position(1, b"i" * 16))
            assert (await arriving).seq == 2
            assert time.monotonic() - started < 2.5

    _run(claim())


def _leader(cluster: EtcdCluster, is_leader: bool) -> EtcdServer:
    async def find() -> EtcdServer:
        client = cluster.client()
        for server in cluster.servers:
            status = await client.status(server.endpoint)
            if (status.leader == status.member) is is_leader:
                await client.close()
                return server
        raise AssertionError("no such server")

    return asyncio.run(find())


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("is_leader", [True, False])
def no_entry_is_lost_or_doubled_when_a_server_goes(
    three: EtcdCluster, tmp_path: Path, blow: signal.Signals, is_leader: bool
) -> None:
    victim = _leader(three, is_leader)
    others = [server for server in three.servers if server is not victim]
    order = [victim.endpoint, *(server.endpoint for server in others)]
    ids = [os.urandom(16) for _ in range(400)]

    async def follow(journal: Journal) -> list[bytes]:
        """As a follower does: it asks again when there is nobody to answer."""
        seen: list[bytes] = []
        while True:
            with contextlib.suppress(JournalUnavailable):
                async for record in journal.read(len(seen)):
                    assert record.seq == len(seen) + 1
                    seen.append(record.id)
                    if len(seen) == len(ids):
                        return seen

    async def claim() -> None:
        async with _journal(order, str(tmp_path)) as writing, _journal(order, str(tmp_path)) as reading:
            following = asyncio.create_task(follow(reading))
            longest_s = 0.0
            before = writing.birth.start
            for after, id in enumerate(ids):
                if after == 150:
                    victim.signal(blow)
                started = time.monotonic()
                await _commit(writing, id, b"x" * 200, before)
                before = Position(after + 1, id)
                longest_s = max(longest_s, time.monotonic() - started)
            assert await following == ids
            assert (await writing.bounds())[:2] == (1, len(ids))
            assert longest_s < 6

    _run(claim())


async def _until_first(journal: EtcdJournal, endpoint: Endpoint) -> None:
    while journal._client._endpoints.in_order()[0] != endpoint:  # noqa: ASYNC110  # why: nobody but this test waits for it
        await asyncio.sleep(0.05)


def a_server_that_returns_is_preferred_again(three: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        async with _journal(three.endpoints, str(tmp_path)) as journal:
            three.servers[0].signal(signal.SIGKILL)
            await _commit(journal, b"i" * 16, b"x", journal.birth.start)
            three.servers[0].start()
            await _until_first(journal, three.endpoints[0])
            await _commit(journal, b"j" * 16, b"x", Position(1, b"i" * 16))

    _run(claim())


def without_a_majority_nothing_is_acknowledged(three: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        async with _journal(three.endpoints, str(tmp_path)) as journal:
            await journal.append(b"a" * 16, b"x", journal.birth.start)
            for server in three.servers[1:]:
                server.signal(signal.SIGKILL)
            with pytest.raises((Unknown, JournalUnavailable)):
                await journal.append(b"b" * 16, b"x", Position(1, b"a" * 16))
            with pytest.raises(JournalUnavailable):
                await journal.bounds()
            for server in three.servers[1:]:
                server.start()
            await _commit(journal, b"b" * 16, b"x", Position(1, b"a" * 16))
            assert (await journal.bounds())[:2] == (1, 2)

    _run(claim())
