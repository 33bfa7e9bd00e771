"""The leader's watch over time: was it away, is its clock still the one it was, when does it have to be heard again?"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.clock import Clock
from tocsin.replica.office import Office
from tocsin.state.store import Meta

HEARTBEAT_S = 1.0
ABSENCE_MS = 5_000
"""A turn that comes so much later than planned means that nobody was able to act: suspend, stall, a clock's step."""
STEP_MS = 2_000
"""A wall clock that has moved by so much against the other one was put forward or back."""
RENEWED_EVERY_MS = 60_000
"""The journal hears this often that somebody is in office, so that an absence is not taken for longer than it was."""


class Vigil:
    """Kept by one leader during its term."""

    def __init__(
        self, clock: Clock, office: Office, checkpoint_every_s: Callable[[], float], last_s: float
    ) -> None:
        """``last_s``: when the last checkpoint was seen. A change of leaders does not put off the next."""
        self._clock = clock
        self._office = office
        self._checkpoint_every_s = checkpoint_every_s
        self._checkpointed_s = last_s
        self._alive_ms = clock.wall_ms()
        self._offset_ms = self._offset()

    def acted(self, now_ms: int) -> None:
        """A turn was taken at that moment."""
        self._alive_ms = now_ms

    def clock_moved_ms(self) -> int:
        """By how much the wall clock was put forward or back since the last look. 0: not at all, or by very little."""
        former, self._offset_ms = self._offset_ms, self._offset()
        moved_ms = self._offset_ms - former
        return moved_ms if abs(moved_ms) >= STEP_MS else 0

    def absent_since_ms(self, now_ms: int, meta: Meta) -> int | None:
        """Since when nobody acted, if that was for too long."""
        if now_ms < meta.present_since_ms:
            # The clock was put back to before the beginning of this presence: it begins now.
            return now_ms
        is_late = now_ms - self._alive_ms >= ABSENCE_MS + HEARTBEAT_S * 1000
        return self._alive_ms if is_late else None

    def is_to_be_heard(self, now_ms: int, meta: Meta, sent_s: float) -> bool:
        """Is it time to say that somebody is in office, where nothing else was said since ``sent_s``?"""
        if self._office.renew_s is None:
            return now_ms - meta.time_ms > RENEWED_EVERY_MS
        return self._clock.elapsed_s() - sent_s >= self._office.renew_s

    def is_checkpoint_due(self) -> bool:
        """True once in a while."""
        now_s = self._clock.elapsed_s()
        if now_s < self.checkpoint_due_s:
            return False
        self._checkpointed_s = now_s
        return True

    @property
    def checkpoint_due_s(self) -> float:
        return self._checkpointed_s + self._checkpoint_every_s()

    def rest_s(self, next_ms: int | None, sent_s: float) -> float:
        """How long the leader may sleep."""
        seconds = HEARTBEAT_S
        if self._office.renew_s is not None:
            seconds = min(seconds, max(0.0, self._office.renew_s - (self._clock.elapsed_s() - sent_s)))
        if next_ms is not None:
            seconds = min(seconds, max(0.0, (next_ms - self._clock.wall_ms()) / 1000))
        return seconds

    def _offset(self) -> int:
        return self._clock.wall_ms() - round(self._clock.elapsed_s() * 1000)
