"""A consumer of events on Kafka that acts once a launch, however often it hears of it.

tocsin serve --kafka 127.0.0.1:9092 &
tocsin add reminders/tea '*/5 * * * *' --kafka reminders --payload '{"text": "tea is ready"}' --on-doubt relaunch
python examples/kafka_consumer.py 127.0.0.1:9092

With ``on_doubt: relaunch`` an event whose acknowledgement was lost is sent again, under the same id, so that none is
missing and some may be there twice. What was done is therefore remembered here together with its id: one transaction.
Offsets are committed only after it, so that a consumer that dies in between hears of the event again.

Needs: pip install confluent-kafka
"""

from __future__ import annotations

import json
import sqlite3
import sys

from confluent_kafka import Consumer, KafkaException

TOPIC = "reminders"


def remember(done: sqlite3.Connection, id: str, text: str) -> bool:
    """Do the work. False: it was done before."""
    with done:
        found = done.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (id, text))
    return found.rowcount == 1


def main(brokers: str, wanted: int | None) -> None:
    """``wanted``: how many to wait for. None: for ever."""
    done = sqlite3.connect("reminders.db" if wanted is None else ":memory:")
    done.execute("CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY, text TEXT)")
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "reminders",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    print("listening", flush=True)
    count = 0
    while wanted is None or count < wanted:
        messages = consumer.consume(100, timeout=1.0)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            event = json.loads(message.value() or b"")
            is_new = remember(done, event["id"], event["payload"]["text"])
            print(event["id"], event["payload"]["text"] if is_new else "(known already)", flush=True)
            count += is_new
        if messages:
            consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092",
        int(sys.argv[2]) if len(sys.argv) > 2 else None,
    )
