"""What is on a topic after a launch, and what is said of that which is not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brokers.kafka import KafkaBroker, Topic, headers_of, kafka
from tests.targets.kafka_support import boot_s, named, orders_for, running

from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.permissions import Names, Permissions
from tocsin.targets.registry import Brokers, build_targets
from tocsin.testing.targets import order_for


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as up:
        yield up


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[Topic]:
    found = Topic(broker, broker.make_topic(request.node.name[:200], 3))
    yield found
    found.close()


async def _launched(address: str, spec: KafkaSpec, **changes: object) -> Outcome:
    async with running(address) as target:
        return await target.launch(order_for(spec, **changes))


def an_event_has_its_id_key_and_headers(broker: KafkaBroker, topic: Topic) -> None:
    spec = KafkaSpec(
        topic=topic.name, headers={"tenant": "blue", "tocsin-term": "99", "Tocsin-Launch": "forged"}
    )
    outcome = asyncio.run(_launched(broker.address, spec))
    assert outcome.verdict is Verdict.SUCCEEDED
    (message,) = topic.read()
    assert message.key() == b"suite/one"
    assert json.loads(message.value() or b"") == {
        "id": "suite/one-1700000000",
        "generated_at": "2023-11-14T22:13:20.123Z",
        "schedule_id": "suite/one",
        "payload": {"n": 1},
    }
    assert headers_of(message) == {
        "tenant": "blue",
        "Tocsin-Launch": "suite/one-1700000000",
        "Tocsin-Schedule": "suite/one",
        "Tocsin-Scheduled-At": "2023-11-14T22:13:20Z",
        "Tocsin-Attempt": "1",
        "Tocsin-Term": "7",
    }


def the_key_is_the_owners_if_he_gives_one(broker: KafkaBroker, topic: Topic) -> None:
    asyncio.run(_launched(broker.address, KafkaSpec(topic=topic.name, key="customer 7")))
    assert [message.key() for message in topic.read()] == [b"customer 7"]


def a_repeat_has_the_same_id_and_another_attempt(broker: KafkaBroker, topic: Topic) -> None:
    spec = KafkaSpec(topic=topic.name)
    for attempt in (1, 2):
        asyncio.run(_launched(broker.address, spec, attempt=attempt))
    messages = topic.read()
    assert {json.loads(message.value() or b"")["id"] for message in messages} == {"suite/one-1700000000"}
    assert [headers_of(message)["Tocsin-Attempt"] for message in messages] == ["1", "2"]


def the_events_of_one_schedule_stay_in_order(broker: KafkaBroker, topic: Topic) -> None:
    orders = [order_for(KafkaSpec(topic=topic.name), f"suite/one-{n}") for n in range(5_000)]

    async def sent() -> set[str]:
        async with running(broker.address) as target:
            return named(orders, await target.launch_batch(orders), Verdict.SUCCEEDED)

    assert len(asyncio.run(sent())) == len(orders)
    assert [headers_of(message)["Tocsin-Launch"] for message in topic.read()] == [
        order.name for order in orders
    ]


def an_unknown_topic_fails_and_another_try_may_help(broker: KafkaBroker) -> None:
    outcome = asyncio.run(_launched(broker.address, KafkaSpec(topic="nobody-made-it")))
    assert (outcome.verdict, outcome.permanent) == (Verdict.FAILED, False)
    assert "no such topic" in outcome.reason


def a_topic_that_is_made_after_it_failed_is_found(broker: KafkaBroker) -> None:
    async def tried() -> list[Verdict]:
        async with running(broker.address) as target:
            order = order_for(KafkaSpec(topic="made-later"))
            first = await target.launch(order)
            await asyncio.to_thread(broker.make_topic, "made-later")
            return [first.verdict, (await target.launch(order)).verdict]

    assert asyncio.run(tried()) == [Verdict.FAILED, Verdict.SUCCEEDED]


def what_is_too_large_fails_for_good_and_takes_nobody_with_it(broker: KafkaBroker, topic: Topic) -> None:
    orders = orders_for(topic.name, 20)
    orders[7] = order_for(orders[7].target, orders[7].name, payload=b'"%b"' % (b"x" * 1_100_000))

    async def sent() -> list[Outcome]:
        async with running(broker.address) as target:
            return list(await target.launch_batch(orders))

    outcomes = asyncio.run(sent())
    assert (outcomes[7].verdict, outcomes[7].permanent) == (Verdict.FAILED, True)
    assert "large" in outcomes[7].reason.lower()
    assert set(topic.names()) == named(orders, outcomes, Verdict.SUCCEEDED)
    assert len(topic.names()) == len(orders) - 1


def a_herd_whose_batches_are_too_large_for_the_topic_still_arrives(broker: KafkaBroker) -> None:
    """The broker refuses a batch as a whole: none of its events is too large by itself."""
    name = broker.make_topic("narrow", config={"max.message.bytes": "4000"})
    orders = orders_for(name, 1_000)
    orders[500] = order_for(orders[500].target, orders[500].name, payload=b'"%b"' % (b"x" * 5_000))

    async def sent() -> list[Outcome]:
        async with running(broker.address) as target:
            return list(await target.launch_batch(orders))

    outcomes = asyncio.run(sent())
    assert named(orders, outcomes, Verdict.SUCCEEDED) == {o.name for o in orders} - {orders[500].name}
    assert (outcomes[500].verdict, outcomes[500].permanent) == (Verdict.FAILED, True)
    topic = Topic(broker, name)
    assert set(topic.names().values()) == {1}
    topic.close()


def a_topic_that_is_not_permitted_is_not_sent_to(broker: KafkaBroker, topic: Topic) -> None:
    async def tried() -> Outcome:
        async with running(broker.address, topics=Names.parse("reminders.*")) as target:
            return await target.launch(order_for(KafkaSpec(topic=topic.name)))

    outcome = asyncio.run(tried())
    assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
    assert "kafka_topics" in outcome.reason
    assert not topic.read()


def after_stop_whoever_comes_is_turned_away(broker: KafkaBroker, topic: Topic) -> None:
    async def came_late() -> Outcome:
        async with running(broker.address) as target:
            pass
        return await target.launch(order_for(KafkaSpec(topic=topic.name), until_s=boot_s() + 1000))

    assert asyncio.run(came_late()).verdict is Verdict.NOT_STARTED
    assert not topic.read()


def without_the_client_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    brokers = Brokers(kafka="127.0.0.1:9092")
    target = build_targets(tmp_path, permissions=Permissions(topics=Names()), brokers=brokers)["kafka"]
    outcome = asyncio.run(target.launch(order_for(KafkaSpec(topic="any"))))
    assert outcome.verdict is Verdict.NOT_STARTED
    assert "pip install 'tocsin[kafka]'" in outcome.reason
