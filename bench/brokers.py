"""Real brokers on this machine, the same that the tests use, and their bare producers: what an event costs at least."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

MISSING = (
    "the broker or its client is missing (pip install -e '.[bench]'; Kafka also needs java and its jars)"
)
PARTITIONS = 4
_EVENT = b'{"id":"herd/0/00000000-1760000000","generated_at":"2026-01-01T00:00:00Z","schedule_id":"herd/0/00000000"}'


class Broker(NamedTuple):
    """How a service is told of it, what a schedule's target is, and messages a second of its own producer."""

    options: tuple[str, ...]
    target: str
    bare: Callable[[int], float]


class Lacking(Exception):
    """It cannot be had here."""


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[Broker]:
    with _explained():
        from tests.brokers.kafka import kafka as started
    with contextlib.ExitStack() as stack:
        with _explained():
            broker = stack.enter_context(started(folder))
            broker.make_topic("bench", PARTITIONS)
            broker.make_topic("bare", PARTITIONS)
        yield Broker(
            ("--kafka", broker.address),
            '{"kind":"kafka","topic":"bench"}',
            lambda count: _bare_kafka(broker.address, count),
        )


@contextlib.contextmanager
def nats(folder: Path) -> Iterator[Broker]:
    with _explained():
        from tests.brokers.nats import NatsServer, make_stream

        server = NatsServer(folder)
    try:
        asyncio.run(make_stream(server.url, "bench.>"))
        yield Broker(
            ("--nats", server.url),
            '{"kind":"nats","subject":"bench.event"}',
            lambda count: asyncio.run(_bare_nats(server.url, count)),
        )
    finally:
        server.kill()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """What a test would be skipped for is a remark here."""
    try:
        yield
    except ImportError as wrong:
        raise Lacking(f"{wrong}: {MISSING}") from wrong
    except BaseException as wrong:
        if type(wrong).__name__ in ("Skipped", "Failed"):  # how the tests' own helpers say it
            raise Lacking(f"{wrong}: {MISSING}") from wrong
        raise


def _bare_kafka(address: str, count: int) -> float:
    """Acknowledged messages a second of the official producer, durable as Tocsin asks for it."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("bare", _EVENT, key=b"%08d" % number)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1_000 == 0:
            producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} messages were not acknowledged")
    return count / (time.perf_counter() - began)


async def _bare_nats(url: str, count: int) -> float:
    """Acknowledged messages a second of the official client, many under way at once."""
    import nats as official

    client = await official.connect(url)
    stream = client.jetstream(publish_async_max_pending=4_000)
    began = time.perf_counter()
    for number in range(count):
        await stream.publish_async(
            "bench.bare", _EVENT, wait_stall=30, headers={"Nats-Msg-Id": f"bare-{number}"}
        )
    await stream.publish_async_completed()
    rate = count / (time.perf_counter() - began)
    await client.close()
    return rate
