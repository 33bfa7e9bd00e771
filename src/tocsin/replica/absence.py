"""How long nobody was there, measured by what was acknowledged and not by turns of a loop.

A leader that is busy is late; it is not absent. What counts is the time between two acknowledged signs of life:
presence or an entry in a cluster, ticks of a thread of its own on one machine.
"""

from __future__ import annotations

import threading

ABSENCE_MS = 6_000
"""A longer time between two signs of life is an absence: suspend, a stopped process, no majority, a clock's step."""


class AbsenceMeter:
    """Used by two threads: one acknowledges, the leader loop asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms: int | None = None
        self._since_ms: int | None = None

    def restart(self, at_ms: int) -> None:
        """Whatever was before that moment is written down."""
        with self._lock:
            self._last_ms, self._since_ms = at_ms, None

    def acknowledged(self, at_ms: int) -> None:
        """A sign of life at that moment, by the wall clock."""
        with self._lock:
            last_ms, self._last_ms = self._last_ms, at_ms
            if last_ms is not None and at_ms - last_ms >= ABSENCE_MS and self._since_ms is None:
                self._since_ms = last_ms

    def since_ms(self, now_ms: int) -> int | None:
        """Since when nobody was there, if that lasted too long and is not written down yet."""
        with self._lock:
            if self._since_ms is not None:
                return self._since_ms
            is_absent = self._last_ms is not None and now_ms - self._last_ms >= ABSENCE_MS
            return self._last_ms if is_absent else None

    def passed(self, by_ms: int) -> None:
        """A quiet time went by in which all was acknowledged as it should be."""
        with self._lock:
            if self._last_ms is not None:
                self._last_ms += by_ms
