"""The settings of the producer: what is refused at once, and what only the broker refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.brokers.kafka import PASSWORD, USER, KafkaBroker, Topic, kafka
from tests.targets.kafka_support import running

from tocsin.errors import InvalidInput
from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.kafka.target import KafkaTarget
from tocsin.targets.registry import Brokers, build_targets
from tocsin.testing.targets import order_for

SECRET = "hunter2"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as up:
        up.make_topic("guarded")
        yield up


def _file(folder: Path, *lines: str) -> str:
    path = folder / "kafka.properties"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def _secure(folder: Path, broker: KafkaBroker, password: str = PASSWORD, ca: Path | None = None) -> str:
    return _file(
        folder,
        "# as the broker wants it",
        "security.protocol=SASL_SSL",
        "sasl.mechanism = PLAIN",
        f"sasl.username={USER}",
        f"sasl.password={password}",
        f"ssl.ca.location={ca or broker.certificate}",
        "",
    )


def _tried(address: str, config: str, topic: str = "guarded", timeout_s: float | None = None) -> Outcome:
    async def tried() -> Outcome:
        async with running(address, config) as target, asyncio.timeout(20):
            order = order_for(KafkaSpec(topic=topic), f"suite/{topic}-1", timeout_s=timeout_s)
            return await target.launch(order)

    return asyncio.run(tried())


def tls_and_a_password_let_it_in(tmp_path: Path, broker: KafkaBroker) -> None:
    outcome = _tried(broker.secure, _secure(tmp_path, broker))
    assert outcome.verdict is Verdict.SUCCEEDED, outcome
    reader = Topic(broker, "guarded")
    assert reader.names()["suite/guarded-1"] == 1
    reader.close()


def a_wrong_password_is_told_and_not_shown(tmp_path: Path, broker: KafkaBroker) -> None:
    outcome = _tried(broker.secure, _secure(tmp_path, broker, SECRET))
    assert outcome.verdict is Verdict.NOT_STARTED
    assert "authentication" in outcome.reason.lower()
    assert SECRET not in outcome.reason


def a_broker_that_nobody_vouches_for_is_not_sent_to(tmp_path: Path, broker: KafkaBroker) -> None:
    other = tmp_path / "other.pem"
    line = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout {tmp_path}/key -out {other}"
    subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    outcome = _tried(broker.secure, _secure(tmp_path, broker, ca=other))
    assert outcome.verdict is Verdict.NOT_STARTED
    assert "certificate" in outcome.reason.lower()


def tls_to_a_port_without_it_is_told(tmp_path: Path, broker: KafkaBroker) -> None:
    outcome = _tried(broker.address, _secure(tmp_path, broker), timeout_s=2)
    assert outcome.verdict is Verdict.NOT_STARTED
    assert "ssl" in outcome.reason.lower()


def a_topic_that_one_may_not_write_to_fails_for_good(tmp_path: Path, broker: KafkaBroker) -> None:
    broker.make_topic("forbidden")
    rule = AclBinding(
        ResourceType.TOPIC,
        "forbidden",
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    broker.admin.create_acls([rule])[rule].result(20)
    outcome = _tried(broker.secure, _secure(tmp_path, broker), "forbidden")
    assert (outcome.verdict, outcome.permanent) == (Verdict.FAILED, True)
    assert "authorization" in outcome.reason.lower()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "acks",
            "request.required.acks",
            "enable.idempotence",
            "max.in.flight",
            "retries",
            "message.timeout.ms",
        ),
        *(
            "delivery.timeout.ms",
            "transactional.id",
            "linger.ms",
            "bootstrap.servers",
            "metadata.broker.list",
        ),
        *(
            "plugin.library.paths",
            "queue.buffering.max.messages",
            "delivery.report.only.error",
            "retry.backoff.ms",
        ),
    ],
)
def what_the_guarantees_rest_on_cannot_be_set(name: str, tmp_path: Path) -> None:
    path = _file(tmp_path, "client.id=me", f"{name}={SECRET}")
    with pytest.raises(InvalidInput) as refused:
        KafkaTarget("127.0.0.1:9092", path)
    assert refused.value.field == "kafka_config"
    assert f"{path}, line 2: the property {name}" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("security.protocol=CARRIER_PIGEON", "security.protocol"),
        ("ssl.no.such.thing=1", "ssl.no.such.thing"),
        ("ssl.ca.location=/no/such/file", "ssl.ca.location"),
        (f"sasl.password {SECRET}", "name=value"),
        (f"=={SECRET}", "name=value"),
        ("client.id=a\nclient.id=b", "line 3"),
    ],
)
def a_property_that_makes_no_sense_is_told_with_its_line(line: str, told: str, tmp_path: Path) -> None:
    path = _file(tmp_path, "security.protocol=SSL" if line.startswith("ssl.ca") else "client.rack=r", line)
    with pytest.raises(InvalidInput) as refused:
        KafkaTarget("127.0.0.1:9092", path)
    assert refused.value.field == "kafka_config"
    assert path in str(refused.value)
    assert told in str(refused.value)
    assert "line" in str(refused.value)
    assert SECRET not in str(refused.value)


def a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file") as refused:
        KafkaTarget("127.0.0.1:9092", str(tmp_path / "none"))
    assert refused.value.field == "kafka_config"


@pytest.mark.parametrize(
    "given",
    ["localhost", "host:", ":9092", "host:0", "host:99999", "kafka://host:9092", "a:1,b", "h o:1", ","],
)
def an_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        KafkaTarget(given)
    assert refused.value.field == "kafka"
    assert "HOST:PORT" in str(refused.value)


def properties_without_a_kafka_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none is given"):
        build_targets(tmp_path, brokers=Brokers(kafka_config="/etc/kafka.properties"))


def the_service_tells_of_a_bad_property_without_a_stack_trace(tmp_path: Path) -> None:
    path = _file(tmp_path, f"sasl.password={SECRET}", "acks=1")
    options = ["--data", str(tmp_path / "data"), "--kafka", "127.0.0.1:9092", "--kafka-config", path]
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "serve", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "line 2: the property acks" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
