"""The one place that names every target. To add one: its file, its spec in ``model.target``, a line here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import msgspec

from tocsin.clock import Clock
from tocsin.errors import InvalidInput
from tocsin.targets.absent import AbsentTarget
from tocsin.targets.contract import Target
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.target import ExecTarget
from tocsin.targets.http import HttpTarget
from tocsin.targets.nats.settings import access_of
from tocsin.targets.nats.target import NatsTarget
from tocsin.targets.null import NullTarget
from tocsin.targets.permissions import Names, Permissions


class Brokers(msgspec.Struct, frozen=True):
    """Where events are sent to: settings of the same names."""

    kafka: str = ""
    kafka_config: str = ""
    nats: str = ""
    nats_creds: str = ""
    nats_ca: str = ""


def build_targets(
    exec_dir: Path,
    exec_settings: ExecSettings | None = None,
    *,
    clock: Clock | None = None,
    permissions: Permissions | None = None,
    brokers: Brokers | None = None,
) -> dict[str, Target]:
    """Every target by its kind, not yet started. Each keeps to what is permitted."""
    permissions, brokers = permissions or Permissions(), brokers or Brokers()
    targets: tuple[Target, ...] = (
        ExecTarget(exec_dir, exec_settings, clock=clock, permissions=permissions),
        HttpTarget(clock=clock, fence=permissions.fence, secrets=permissions.secrets),
        _kafka(brokers, permissions, clock),
        _nats(brokers, clock, permissions.subjects),
        NullTarget(clock=clock),
    )
    return {target.kind: target for target in targets}


def _kafka(brokers: Brokers, permissions: Permissions, clock: Clock | None) -> Target:
    if not brokers.kafka:
        if brokers.kafka_config:
            raise InvalidInput(
                "kafka_config is for a Kafka, and none is given",
                field="kafka",
                value="",
                allowed="HOST:PORT, several with commas",
            )
        return AbsentTarget("kafka", "there is no kafka to send to: the setting kafka is not given")
    if find_spec("confluent_kafka") is None:
        return AbsentTarget("kafka", "the client of kafka is not installed: pip install 'tocsin[kafka]'")
    from tocsin.targets.kafka.target import KafkaTarget

    return KafkaTarget(brokers.kafka, brokers.kafka_config, topics=permissions.topics, clock=clock)


def _nats(brokers: Brokers, clock: Clock | None, subjects: Names | None) -> Target:
    if not brokers.nats:
        if brokers.nats_creds or brokers.nats_ca:
            raise InvalidInput(
                "nats_creds and nats_ca are for a NATS, and none is given",
                field="nats",
                value="",
                allowed="nats://HOST:PORT or tls://HOST:PORT, several with commas",
            )
        return AbsentTarget("nats", "there is no nats to send to: the setting nats is not given")
    access = access_of(brokers.nats, brokers.nats_creds, brokers.nats_ca)
    return NatsTarget(access, clock=clock, subjects=subjects)
