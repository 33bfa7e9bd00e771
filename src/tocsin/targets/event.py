"""What a launch says to whoever receives it as an event: its body, and the names beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from tocsin.targets.contract import Order


def event_of(order: Order) -> bytes:
    """``{id, generated_at, schedule_id, payload}`` as JSON."""
    event = {
        "id": order.name,
        "generated_at": rfc3339(order.generated_at_ms, "milliseconds"),
        "schedule_id": order.schedule,
        "payload": msgspec.Raw(order.payload),
    }
    return msgspec.json.encode(event)


def names_of(order: Order) -> dict[str, str]:
    """Headers that tell which attempt of which launch it is."""
    return {
        "Tocsin-Launch": order.name,
        "Tocsin-Schedule": order.schedule,
        "Tocsin-Scheduled-At": rfc3339(order.scheduled_at_s * 1000, "seconds"),
        "Tocsin-Attempt": str(order.attempt),
        "Tocsin-Term": str(order.term),
    }


@lru_cache(maxsize=1_000)
def rfc3339(ms: int, precision: str) -> str:
    """Remembered, because the events of a herd share their moments."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
