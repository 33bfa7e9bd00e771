"""The leader's watch over time: is its clock still the one it was, how long may it sleep?"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.clock import Clock
from tocsin.replica.office import Office
from tocsin.state.store import Meta

HEARTBEAT_S = 1.0
"""A leader that has nothing to do takes a turn this often."""
STEP_MS = 2_000
"""A wall clock that has moved by so much against the other one was put forward or back."""


DECIDED_BETWEEN_MS = 60_000
"""What passed while an absence was written down, up to so long, does not put off decisions again: where every write
takes seconds, nothing but absences would be written."""


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
        self._offset_ms = self._offset()
        self._has_noted_absence = False

    def clock_moved_ms(self) -> int:
        """By how much the wall clock was put forward or back since the last look. 0: not at all, or by very little."""
        former, self._offset_ms = self._offset_ms, self._offset()
        moved_ms = self._offset_ms - former
        return moved_ms if abs(moved_ms) >= STEP_MS else 0

    def absent_since_ms(self, now_ms: int, meta: Meta) -> int | None:
        """Since when nobody was able to act, if that was for too long. A turn that is late is none of it."""
        if now_ms < meta.present_since_ms:
            # The clock was put back to before the beginning of this presence: it begins now.
            return now_ms
        since_ms = self._office.absent_since_ms(now_ms)
        has_noted, self._has_noted_absence = self._has_noted_absence, False
        if has_noted and since_ms is not None and now_ms - since_ms <= DECIDED_BETWEEN_MS:
            return None
        return since_ms

    def absence_noted(self, at_ms: int) -> None:
        """It stands in the journal, up to that moment."""
        self._office.absence_noted(at_ms)
        self._has_noted_absence = True

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

    def rest_s(self, next_ms: int | None, *, is_lease_told: bool) -> float:
        """How long the leader may sleep. ``is_lease_told``: somebody has to hear how long the lease lasts."""
        renew_s = self._office.renew_s
        seconds = HEARTBEAT_S if renew_s is None or not is_lease_told else renew_s
        if next_ms is not None:
            seconds = min(seconds, max(0.0, (next_ms - self._clock.wall_ms()) / 1000))
        return seconds

    def _offset(self) -> int:
        return self._clock.wall_ms() - round(self._clock.elapsed_s() * 1000)
