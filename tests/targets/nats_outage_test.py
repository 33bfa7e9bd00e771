"""The server dies, stalls and comes back: what was reported is what is in the stream, and nothing goes out late."""

from __future__ import annotations

import asyncio
import os
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.brokers.nats import NatsServer, arrived, make_stream
from tests.journal.proxy import proxy
from tests.replica.lone import LeapClock
from tests.targets.nats_support import (
    SPEC,
    connected,
    launch,
    numbered,
    target_for,
    until_connected,
    until_told,
)

from tocsin.clock import SystemClock
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.nats.target import NatsTarget
from tocsin.testing.targets import order_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    running = NatsServer(tmp_path / "nats")
    yield running
    running.stop()


def _names(told: list[tuple[Order, Outcome]], verdict: Verdict) -> set[str]:
    return {order.name for order, outcome in told if outcome.verdict is verdict}


class _Producers:
    """Several that send batch after batch, until something goes wrong."""

    def __init__(self, target: NatsTarget) -> None:
        self._target = target
        self._started = 0
        self.told: list[tuple[Order, Outcome]] = []
        self.is_under_way = asyncio.Event()

    async def run(self) -> None:
        await asyncio.gather(*(self._produce() for _ in range(4)))

    async def _produce(self) -> None:
        while True:
            orders = numbered(1_000, start=self._started)
            self._started += len(orders)
            outcomes = await self._target.launch_batch(orders)
            self.told += zip(orders, outcomes, strict=True)
            if any(outcome.verdict is not Verdict.SUCCEEDED for outcome in outcomes):
                return
            if len(self.told) >= 6_000:
                self.is_under_way.set()


def what_is_reported_when_the_server_is_killed_amid_a_batch_is_true(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(server.url)
        producers = _Producers(target)
        async with asyncio.timeout(60):
            producing = asyncio.create_task(producers.run())
            await producers.is_under_way.wait()
            server.kill()
            await producing
        told = producers.told
        server.start()
        await until_connected(target)
        there = set(await arrived(server.url))
        assert {outcome.verdict for _, outcome in told} >= {Verdict.SUCCEEDED, Verdict.UNKNOWN}
        assert _names(told, Verdict.SUCCEEDED) <= there
        assert not _names(told, Verdict.NOT_STARTED) & there

        # To repeat what is unknown, and what was not started, ends with each exactly once.
        left = [order for order, outcome in told if outcome.verdict is not Verdict.SUCCEEDED]
        again = await target.launch_batch(left)
        await target.stop()
        assert {outcome.verdict for outcome in again} == {Verdict.SUCCEEDED}
        assert await arrived(server.url) == {order.name: 1 for order, _ in told}

    asyncio.run(tried())


def a_server_that_is_down_at_the_start_is_waited_for(tmp_path: Path) -> None:
    async def tried() -> None:
        target = target_for(server.url)
        await target.start()
        outcomes = await target.launch_batch(numbered(1_000))
        assert {outcome.verdict for outcome in outcomes} == {Verdict.NOT_STARTED}
        outcome = await until_told(target, "refused")
        assert f"127.0.0.1:{server.port}" in outcome.reason
        server.start()
        await make_stream(server.url, "events.>")
        await until_connected(target)
        assert (await launch(target, order_for(SPEC))).verdict is Verdict.SUCCEEDED
        await target.stop()
        assert await arrived(server.url) == {"suite/one-1700000000": 1}

    server = NatsServer(tmp_path / "nats", start=False)
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def of_several_servers_one_that_lives_is_found(server: NatsServer, tmp_path: Path) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(f"{dead.url},{server.url}")
        assert (await launch(target, order_for(SPEC))).verdict is Verdict.SUCCEEDED
        await target.stop()

    dead = NatsServer(tmp_path / "dead", start=False)
    asyncio.run(tried())


def nothing_goes_out_when_the_server_is_back_after_authority_has_ended(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(server.url)
        server.kill()
        until_s = SystemClock().elapsed_s() + 0.2
        orders = numbered(500, until_s=until_s)
        told = [await target.launch_batch(orders)]
        while SystemClock().elapsed_s() < until_s:
            told.append(await target.launch_batch(numbered(500, start=500, until_s=until_s)))
            await asyncio.sleep(0.01)  # only spares the processor between two looks
        server.start()
        await until_connected(target)
        late = await target.launch_batch(orders)
        assert {outcome.is_too_late for outcome in late} == {True}
        unknown = {
            o.name for o, outcome in zip(orders, told[0], strict=True) if outcome.verdict is Verdict.UNKNOWN
        }
        # A flush of our own: what a client had kept for later would come before it.
        assert (await launch(target, order_for(SPEC))).verdict is Verdict.SUCCEEDED
        await target.stop()
        assert not unknown, "the connection's end was known"
        assert await arrived(server.url) == {"suite/one-1700000000": 1}

    asyncio.run(tried())


def a_server_that_stalls_gets_nothing_after_authority_has_ended(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(server.url)
        assert (await launch(target, order_for(SPEC))).verdict is Verdict.SUCCEEDED
        server.send(signal.SIGSTOP)
        orders = numbered(10_000, until_s=SystemClock().elapsed_s() + 0.5, payload=b'"%b"' % (b"x" * 4_000))
        async with asyncio.timeout(8):
            outcomes = await target.launch_batch(orders)
        told = list(zip(orders, outcomes, strict=True))
        assert {outcome.verdict for outcome in outcomes} == {Verdict.UNKNOWN, Verdict.NOT_STARTED}
        assert len(_names(told, Verdict.NOT_STARTED)) > 1_000
        server.send(signal.SIGCONT)
        await until_connected(target)
        again = [msgspec.structs.replace(order, until_s=None) for order in numbered(10)]
        assert {o.verdict for o in await target.launch_batch(again)} == {Verdict.SUCCEEDED}
        await target.stop()
        there = await arrived(server.url)
        assert not _names(told[10:], Verdict.NOT_STARTED) & set(there)

    asyncio.run(tried())


def a_server_that_stalls_does_not_fill_the_memory(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(server.url)
        assert (await launch(target, order_for(SPEC))).verdict is Verdict.SUCCEEDED
        payload = b'"%b"' % (b"x" * 20_000)
        batches = [
            numbered(1_000, start=start, payload=payload, timeout_s=1.0) for start in range(0, 20_000, 1_000)
        ]
        server.send(signal.SIGSTOP)
        tracemalloc.start()
        async with asyncio.timeout(60):
            told = await asyncio.gather(*(target.launch_batch(batch) for batch in batches))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        server.send(signal.SIGCONT)
        await target.stop()
        verdicts = {outcome.verdict for outcomes in told for outcome in outcomes}
        assert verdicts <= {Verdict.UNKNOWN, Verdict.NOT_STARTED}
        assert peak < 150_000_000, f"{peak:,} bytes, where 400,000,000 were ordered"

    asyncio.run(tried())


def to_stop_lets_go_of_the_connection_and_of_what_waits(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        before = len(os.listdir("/proc/self/fd"))
        target = await connected(server.url)
        server.send(signal.SIGSTOP)
        waiting = asyncio.create_task(target.launch_batch(numbered(10)))
        await asyncio.sleep(0)
        await target.stop()
        outcomes = await waiting
        server.send(signal.SIGCONT)
        assert {outcome.verdict for outcome in outcomes} <= {Verdict.UNKNOWN, Verdict.NOT_STARTED}
        assert (await target.launch(order_for(SPEC))).verdict is Verdict.NOT_STARTED
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(tried())


def the_time_until_the_server_is_asked_for_the_stream_is_not_that_of_the_call(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        clock = LeapClock()
        async with proxy(Endpoint("127.0.0.1", server.port)) as between:
            target = await connected(f"nats://127.0.0.1:{between.endpoint.port}", clock=clock)
            between.requests.clear()
            since_ms = clock.wall_ms()
            sending = asyncio.create_task(target.launch_batch(numbered(300)))
            await between.held.wait()  # the question for the stream, and no event
            clock.ahead_s += 5.0
            between.requests.set()
            outcomes = await sending
            refused = await target.launch(order_for(NatsSpec(subject="nobody.listens.to.this")))
            await target.stop()
        assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
        for outcome in outcomes:
            assert outcome.called_ms is not None
            assert since_ms + 5_000 <= outcome.called_ms <= clock.wall_ms()
        assert (refused.verdict, refused.called_ms) == (Verdict.NOT_STARTED, None)

    asyncio.run(tried())
