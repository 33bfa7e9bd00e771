"""A consumer of events on NATS that acts once a launch, however often it hears of it.

tocsin serve --nats nats://127.0.0.1:4222 &
tocsin add reminders/tea '*/5 * * * *' --nats reminders.tea --payload '{"text": "tea is ready"}'
python examples/nats_consumer.py nats://127.0.0.1:4222

The stream drops repeats for as long as it remembers message ids, and that is a couple of minutes by default. What must
not happen twice is therefore remembered here too, under the same id and together with what was done: one transaction.

Needs: pip install nats-py
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys

import nats
from nats.errors import TimeoutError as NothingCame

STREAM, SUBJECTS = "REMINDERS", "reminders.>"


def remember(done: sqlite3.Connection, id: str, text: str) -> bool:
    """Do the work. False: it was done before."""
    with done:
        found = done.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (id, text))
    return found.rowcount == 1


async def main(url: str, wanted: int | None) -> None:
    """``wanted``: how many to wait for. None: for ever."""
    done = sqlite3.connect("reminders.db" if wanted is None else ":memory:")
    done.execute("CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY, text TEXT)")
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name=STREAM, subjects=[SUBJECTS])
    inbox = await stream.pull_subscribe(SUBJECTS, durable="reader")
    print("listening", flush=True)
    count = 0
    while wanted is None or count < wanted:
        try:
            messages = await inbox.fetch(100, timeout=5)
        except NothingCame:
            continue
        for message in messages:
            event = json.loads(message.data)
            is_new = remember(done, event["id"], event["payload"]["text"])
            print(event["id"], event["payload"]["text"] if is_new else "(known already)", flush=True)
            await message.ack()  # only now: what is not acknowledged comes again
            count += is_new
    await client.close()


if __name__ == "__main__":
    asyncio.run(
        main(
            sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222",
            int(sys.argv[2]) if len(sys.argv) > 2 else None,
        )
    )
