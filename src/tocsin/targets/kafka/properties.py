"""The settings of the producer. What the guarantees rest on is not to be set.

The file has lines ``name=value``, as librdkafka knows them; ``#`` begins a comment. Values are never shown: one of
them is likely to be a password.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import InvalidInput

ACKNOWLEDGED_S_MAX = 30.0
"""How long the client library goes on trying to have an event acknowledged."""
RETRY_BACKOFF_MS = 250
"""Longer than it takes the courier to notice, so that what comes back after authority has ended can be thrown away."""

_FILE_BYTES_MAX = 1024 * 1024
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PREFIXES = ("ssl.", "sasl.", "https.", "socket.")
_NAMES = frozenset(
    {
        "security.protocol",
        "enable.ssl.certificate.verification",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "broker.address.family",
        "broker.address.ttl",
        "compression.type",
        "compression.codec",
        "compression.level",
        "message.max.bytes",
        "metadata.max.age.ms",
        "partitioner",
    }
)
_TOLD = (
    "security.protocol, ssl.*, sasl.*, socket.*, compression.*, client.id, message.max.bytes, partitioner ..."
)


class Property(NamedTuple):
    """A line of the file."""

    line: int
    value: str


def brokers_of(text: str) -> str:
    """The setting ``kafka``, checked: addresses with ports, separated by commas."""
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    for address in addresses:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 1 <= int(found[2]) <= 65535:
            raise InvalidInput(
                f"{address[:200]!r} is not the address of a Kafka broker",
                field="kafka",
                value=address,
                allowed="HOST:PORT, several with commas",
                hint="TLS and SASL are set in the file that kafka_config names",
            )
    if not addresses:
        raise InvalidInput(
            f"{text[:200]!r} names no broker",
            field="kafka",
            value=text,
            allowed="HOST:PORT, several with commas",
        )
    return ",".join(addresses)


def read_properties(path: str) -> dict[str, Property]:
    """The file that ``kafka_config`` names."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX)
        text = data.decode()
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else "it is not text"
        raise InvalidInput(
            f"{path[:200]!r} cannot be read: {why}",
            field="kafka_config",
            value=path,
            allowed="a file of name=value lines",
        ) from None
    found: dict[str, Property] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!")):
            continue
        name, equals, value = (part.strip() for part in stripped.partition("="))
        if not equals or not re.fullmatch(r"[a-z0-9._-]+", name):
            raise refused(path, number, "this is not name=value", "name=value, or # and a comment")
        if name not in _NAMES and not name.startswith(_PREFIXES):
            raise refused(path, number, f"the property {name} is not to be set", _TOLD)
        if name in found:
            raise refused(
                path, number, f"the property {name} is set in line {found[name].line} too", "each once"
            )
        found[name] = Property(number, value)
    return found


def refused(path: str, line: int | None, why: str, allowed: str = "") -> InvalidInput:
    """Names the file and the line, and no value."""
    where = path if line is None else f"{path}, line {line}"
    return InvalidInput(f"{where}: {why}", field="kafka_config", value=path, allowed=allowed)


def config_of(brokers: str, properties: dict[str, Property]) -> dict[str, str | int | bool]:
    """All of a producer's settings. Ours come last."""
    return {
        "client.id": "tocsin",
        **{name: each.value for name, each in properties.items()},
        "bootstrap.servers": brokers,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.size": 256 * 1024,
        "message.timeout.ms": int(ACKNOWLEDGED_S_MAX * 1000),
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": 1_000,
        "reconnect.backoff.ms": RETRY_BACKOFF_MS,
        "reconnect.backoff.max.ms": 2_000,
        # Lanes keep it far from full; this is for the case that they do not.
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 128 * 1024,
        "topic.metadata.propagation.max.ms": 5_000,
        # Told at once, so that a broker is asked for before anything more is sent.
        "log.connection.close": True,
    }
