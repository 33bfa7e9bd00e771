"""The only place that asks the system for time.

``wall_ms`` is what schedules are about and may step either way. ``elapsed_s`` counts on through suspend
(CLOCK_BOOTTIME) and never steps: durations and authority are measured with it.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Time as a port, so that tests and the simulation bring their own."""

    def wall_ms(self) -> int:
        """Unix milliseconds."""
        ...

    def elapsed_s(self) -> float:
        """Seconds since some fixed moment, suspend included."""
        ...

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait for the event at most that long. True if it was set."""
        ...


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which start of this machine it is: moments of ``elapsed_s`` can be compared within one. Empty: unknown."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class SystemClock:
    """This machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes in the moment the event is set.
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return False
        return True
