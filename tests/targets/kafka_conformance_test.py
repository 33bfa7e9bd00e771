from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.brokers.kafka import KafkaBroker, Topic, kafka

from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import Target
from tocsin.targets.kafka.target import KafkaTarget
from tocsin.targets.permissions import Names
from tocsin.testing.targets import CLAIMS, Claim, Harness, claim_name, hold

_numbers = itertools.count()


class _KafkaHarness(Harness):
    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self._topic = Topic(broker, broker.make_topic(f"permitted.{next(_numbers)}", 3))
        self._targets: list[KafkaTarget] = []
        self.succeeds = KafkaSpec(topic=self._topic.name)
        self.fails_for_good = KafkaSpec(topic="permitted.tiny")
        self.cannot_start = KafkaSpec(topic="forbidden")

    async def another(self) -> Target:
        target = KafkaTarget(self._broker.address, topics=Names.parse("permitted.*"))
        await target.start()
        self._targets.append(target)
        return target

    def effects(self, name: str) -> int:
        return self._topic.names()[name]

    async def stop(self) -> None:
        for target in self._targets:
            await target.stop()
        self._topic.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as running:
        running.make_topic("permitted.tiny", config={"max.message.bytes": "100"})
        yield running


@asynccontextmanager
async def _harness(broker: KafkaBroker) -> AsyncIterator[Harness]:
    harness = _KafkaHarness(broker)
    harness.target = await harness.another()
    try:
        yield harness
    finally:
        await harness.stop()


@pytest.mark.parametrize("claim", CLAIMS, ids=claim_name)
def the_kafka_target_conforms(claim: Claim, broker: KafkaBroker) -> None:
    hold(claim, _harness(broker))
