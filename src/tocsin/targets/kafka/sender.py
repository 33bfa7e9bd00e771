"""One producer of the client library. Owned by the courier's thread: nobody else calls it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from tocsin.errors import InvalidInput
from tocsin.targets.kafka.parcel import Message
from tocsin.targets.kafka.properties import Property, refused
from tocsin.targets.kafka.verdicts import shown

_silent = logging.Logger("kafka")
"""What there is to say the courier says, once: the library repeats itself every few seconds."""
_silent.addHandler(logging.NullHandler())
_SECRETS = ("password", "secret", "pem", "username", "token")

Config = dict[str, str | int | bool]


class Answer(NamedTuple):
    """What a broker says of a topic."""

    error: KafkaError | None
    partitions: int
    leaders: int
    """Partitions that somebody takes events for at this moment."""


class Sender:
    """A producer and what it is good for."""

    def __init__(self, config: Config, on_error: Callable[[Sender, KafkaError], None]) -> None:
        self._producer: Producer | None = Producer(
            {**config, "error_cb": lambda error: on_error(self, error), "logger": _silent}
        )
        self.count = 0
        """Events that it was given and has not reported yet."""
        self.is_broken = False
        """The library says that it is good for nothing any more."""
        self.retired_s: float | None = None
        """Since when it gets no more of them."""

    def send(self, message: Message, report: Callable[..., None]) -> None:
        """Give it an event. Raises BufferError if it has too many, KafkaException if it does not take it."""
        assert self._producer is not None
        topic, key, value, headers = message
        self._producer.produce(topic, value, key, on_delivery=report, headers=headers)
        self.count += 1

    def listen(self, wait_s: float) -> None:
        """Serve its reports, and wait for one if there is none."""
        assert self._producer is not None
        self._producer.poll(wait_s)

    def ask(self, topic: str, wait_s: float) -> Answer:
        """Does a broker answer, and is there that topic? Raises KafkaException if nobody answers."""
        assert self._producer is not None
        found = self._producer.list_topics(topic, wait_s).topics[topic]
        leaders = [partition.leader >= 0 for partition in found.partitions.values()]
        return Answer(found.error, len(leaders), sum(leaders))

    def throw_away(self) -> None:
        """All that has not left yet, and what left in part. Returns at once; reports come later.

        What is asked for as blocking does not block and the other way round, in the versions of today: nothing here
        rests on either.
        """
        assert self._producer is not None
        self._producer.purge(in_queue=True, in_flight=False)

    def flush(self, wait_s: float) -> None:
        assert self._producer is not None
        self._producer.flush(wait_s)

    def close(self, *, wait: bool = False) -> None:
        """Let go of it, with all that is in it. On another thread: it may be in the middle of a look-up of a name."""
        if self._producer is None:
            return
        held: list[Any] = [self._producer]
        self._producer = None
        thread = threading.Thread(target=held.clear, name="kafka-close", daemon=True)
        thread.start()
        if wait:
            thread.join(2.0)


def check(config: Config, path: str, properties: dict[str, Property]) -> None:
    """Raise InvalidInput for what the client library makes nothing of."""
    try:
        Sender(config, lambda *_: None).close()
    except KafkaException as wrong:
        text = shown(wrong.args[0])
    except (TypeError, ValueError) as wrong:
        text = " ".join(str(wrong).split())
    else:
        return
    for name, each in properties.items():
        if each.value and any(word in name for word in _SECRETS):
            text = text.replace(each.value, "***")
    # The name that stands in it as a whole: "ssl.ca" is the beginning of others.
    line = next(
        (properties[name].line for name in sorted(properties, key=len, reverse=True) if name in text), None
    )
    if not properties:
        raise InvalidInput(text, field="kafka", value=config["bootstrap.servers"])
    raise refused(path, line, text)
