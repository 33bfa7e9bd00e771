"""How fast a caller may ask. One bucket a caller, filled again at a steady rate."""

from __future__ import annotations

import math

from tocsin.clock import Clock
from tocsin.errors import TooMany

CALLERS_REMEMBERED = 10_000
BURST_S = 2.0
"""A caller who was quiet may ask for so many seconds' worth at once."""
GUESSES_PER_S = 10
"""Wrong tokens from one address."""
PAGES_PER_S = 20
"""Pages that anybody may read, for one address: each is long."""


class Pace:
    """Raises ``TooMany`` for whoever asks faster than ``per_second``. Zero: nobody is held back."""

    def __init__(self, clock: Clock, per_second: float) -> None:
        self._clock = clock
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """One request of this caller."""
        if self._per_second <= 0:
            return
        now_s = self._clock.elapsed_s()
        level = self._level(caller, now_s)
        if level < 1:
            wait_s = math.ceil((1 - level) / self._per_second)
            raise TooMany(
                f"more than {self._per_second:g} requests a second",
                hint=f"wait {wait_s} s; for many schedules use an import, which is one request",
                wait_s=wait_s,
            )
        if caller not in self._buckets and len(self._buckets) >= CALLERS_REMEMBERED:
            self._forget(now_s)
        self._buckets[caller] = (level - 1, now_s)

    def _level(self, caller: str, now_s: float) -> float:
        full = max(1.0, self._per_second * BURST_S)
        level, then_s = self._buckets.get(caller, (full, now_s))
        return min(full, level + (now_s - then_s) * self._per_second)

    def _forget(self, now_s: float) -> None:
        """Whoever has been quiet long enough to have a full bucket need not be remembered."""
        kept = {who: bucket for who, bucket in self._buckets.items() if now_s - bucket[1] < BURST_S}
        self._buckets = kept if len(kept) < CALLERS_REMEMBERED else {}
