"""Reminders: one schedule each, created from Python, and every launch seen as it happens.

tocsin serve &
python examples/reminders.py
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tocsin.client import Client
from tocsin.model.schedule import Schedule
from tocsin.model.target import NullTarget


def reminder(number: int, at: datetime) -> Schedule:
    """Due once. A real one would go to an ``HttpTarget``; its payload comes with the event."""
    return Schedule(
        id=f"reminders/{number}",
        cron=f"@at {at:%Y-%m-%dT%H:%M:%SZ}",
        target=NullTarget(),
        payload={"text": f"reminder {number}"},
        labels={"app": "reminders"},
    )


async def main() -> None:
    async with Client() as client:
        now = datetime.now(UTC)
        for number in range(3):
            # The same create again changes nothing, so a program that is not sure simply asks once more.
            view, is_new = await client.create(reminder(number, now + timedelta(seconds=2 + number)))
            print(view.id, "due at", view.next, "" if is_new else "(known already)")

        seen = 0
        async for event in client.events(prefix="reminders/", kinds=["launch.succeeded"], after="0"):
            print(event.at, event.name, event.state)
            seen += 1
            if seen == 3:
                break


if __name__ == "__main__":
    asyncio.run(main())
