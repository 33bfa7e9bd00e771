"""A whole service that sends to a real Kafka."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Service, eventually
from tests.api.conftest import start as start  # a fixture
from tests.brokers.kafka import KafkaBroker, Topic, headers_of, kafka
from tests.etcd import etcd
from tests.targets.kafka_support import running

from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.testing.targets import order_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_consumer.py"
TOPICS = ("reminders", "events")


@pytest.fixture(scope="module")
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as up:
        for topic in TOPICS:
            up.make_topic(topic)
        yield up


@pytest.fixture
def broker(_started: KafkaBroker) -> KafkaBroker:
    """Up, whatever the test before did to it."""
    assert _started.process is not None
    if _started.process.poll() is not None:
        _started.restart()
    return _started


@pytest.fixture
def service(tmp_path: Path, broker: KafkaBroker) -> Iterator[Service]:
    running = Service(tmp_path / "data", "--kafka", broker.address, "--kafka-topics", "reminders,events*")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def _run(service: Service, id: str) -> str:
    answer = service.ask("POST", f"/v1/schedules/{id}:run")
    assert answer.status in (200, 201, 202), answer
    return str(answer.json["name"])


def _in_state(service: Service, name: str, *states: str, within_s: float = 40) -> Any:
    def look() -> Any:
        found = service.ask("GET", f"/v1/launches/{name}").json
        return found if found["state"] in states else None

    return eventually(look, within_s=within_s)


def _on_topic(broker: KafkaBroker, topic: str, name: str) -> list[Any]:
    reader = Topic(broker, topic)
    found = [each for each in reader.read() if headers_of(each)["Tocsin-Launch"] == name]
    reader.close()
    return found


def an_event_arrives_and_its_launch_succeeds(broker: KafkaBroker, service: Service) -> None:
    target = {"kind": "kafka", "topic": "events", "headers": {"tenant": "blue"}}
    service.create("bill", target=target, payload={"company": 7})
    ended = _in_state(service, _run(service, "bill"), "succeeded")
    (message,) = _on_topic(broker, "events", ended["name"])
    assert message.key() == b"bill"
    assert headers_of(message)["tenant"] == "blue"
    event = json.loads(message.value())
    assert (event["id"], event["schedule_id"], event["payload"]) == (ended["name"], "bill", {"company": 7})


def a_herd_of_schedules_that_are_due_together_arrives_whole(broker: KafkaBroker, service: Service) -> None:
    target = {"kind": "kafka", "topic": "events"}
    for number in range(200):
        service.create(f"herd/{number}", cron="@at 2024-01-01T00:00:00Z", target=target, missed="last")
    names = {f"herd/{number}-1704067200" for number in range(200)}
    for name in sorted(names):
        _in_state(service, name, "succeeded")
    reader = Topic(broker, "events")
    found = {name: count for name, count in reader.names().items() if name.startswith("herd/")}
    reader.close()
    assert found == dict.fromkeys(names, 1)


def an_outage_is_retried_by_its_policy_until_the_event_arrives(broker: KafkaBroker, service: Service) -> None:
    broker.signal(signal.SIGKILL)
    target = {"kind": "kafka", "topic": "events"}
    retry = {"limit": 60, "backoff": "1s", "max_backoff": "1s"}
    service.create("again", target=target, retry=retry, timeout="1s")
    service.create("once", target=target, timeout="1s")
    service.create("patient", target=target)
    name, once, patient = (_run(service, id) for id in ("again", "once", "patient"))
    given_up = _in_state(service, once, "failed", "skipped")
    assert "kafka did not take it within 1s" in given_up["reason"]
    _in_state(service, name, "retrying")
    assert _in_state(service, patient, "started")
    broker.restart()
    # Each attempt has a second, which a busy machine may need for more than the event itself.
    assert _in_state(service, name, "succeeded", within_s=100)["attempt"] > 1
    assert _in_state(service, patient, "succeeded")["attempt"] == 1
    for arrived in (name, patient):
        assert len(_on_topic(broker, "events", arrived)) == 1
    assert not _on_topic(broker, "events", once)


def an_elected_leader_makes_the_same_attempt_again_until_a_broker_is_there(
    tmp_path: Path, broker: KafkaBroker, start: Callable[..., Service]
) -> None:
    """The lease that it was sent with ends while the event waits; that is certain, and so no attempt is used up."""
    with etcd(tmp_path / "etcd") as journal:
        service = start(tmp_path / "data", "--kafka", broker.address, "--journal", journal.url)
        target = {"kind": "kafka", "topic": "events"}
        service.create("before", target=target)
        _in_state(service, _run(service, "before"), "succeeded")
        broker.signal(signal.SIGKILL)
        service.create("elected", target=target)
        name = _run(service, "elected")
        # The lease that the event was sent with lasts 1.5 s at the most.
        begun_s = time.monotonic()
        eventually(lambda: time.monotonic() > begun_s + 4, within_s=30)
        assert service.ask("GET", f"/v1/launches/{name}").json["state"] in ("started", "retrying")
        broker.restart()
        assert _in_state(service, name, "succeeded")["attempt"] == 1
        assert len(_on_topic(broker, "events", name)) == 1
        assert service.stop() == 0


def what_a_killed_service_left_open_is_sent_again_if_its_owner_says_so(
    tmp_path: Path, broker: KafkaBroker, start: Callable[..., Service]
) -> None:
    first = start(tmp_path / "data", "--kafka", broker.address)
    target = {"kind": "kafka", "topic": "events"}
    first.create("skipped", target=target)
    first.create("repeated", target=target, on_doubt="relaunch")
    _in_state(first, _run(first, "skipped"), "succeeded")
    broker.signal(signal.SIGSTOP)
    try:
        first.create("skipped2", target=target)
        names = [_run(first, id) for id in ("skipped2", "repeated")]
        first.stop(signal.SIGKILL)
    finally:
        broker.signal(signal.SIGCONT)
    second = start(tmp_path / "data", "--kafka", broker.address)
    _in_state(second, names[0], "in_doubt")
    _in_state(second, names[1], "succeeded")
    assert _on_topic(broker, "events", names[1])
    assert second.stop() == 0


def what_the_operator_has_not_named_is_refused_when_it_is_written(service: Service) -> None:
    target = {"kind": "kafka", "topic": "secrets"}
    answer = service.ask("POST", "/v1/schedules", {"id": "x", "cron": "@daily", "target": target})
    assert answer.status == 403
    assert "kafka_topics" in answer.body.decode()


def a_schedule_for_a_topic_is_added_on_the_command_line(service: Service) -> None:
    words = ["reminders/tea", "*/5 * * * *", "--kafka", "reminders", "--key", "k", "--header", "tenant: blue"]
    command = [sys.executable, "-m", "tocsin", "add", *words, "--url", service.url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    expected = {"kind": "kafka", "topic": "reminders", "key": "k", "headers": {"tenant": "blue"}}
    assert json.loads(done.stdout)["target"] == expected


def the_example_consumer_acts_once_a_launch(broker: KafkaBroker, service: Service) -> None:
    target = {"kind": "kafka", "topic": "reminders"}
    for number in (1, 2):
        service.create(f"tea{number}", target=target, payload={"text": f"tea {number} is ready"})
    name = _run(service, "tea1")
    _in_state(service, name, "succeeded")

    async def repeat() -> None:
        async with running(broker.address) as twin:
            await twin.launch(
                order_for(KafkaSpec(topic="reminders"), name, payload=b'{"text": "tea 1 is ready"}')
            )

    asyncio.run(repeat())
    other = _run(service, "tea2")
    _in_state(service, other, "succeeded")
    command = [sys.executable, str(EXAMPLE), broker.address, "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "listening",
        f"{name} tea 1 is ready",
        f"{name} (known already)",
        f"{other} tea 2 is ready",
    ]
