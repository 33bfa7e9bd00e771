"""How long the iterations of the leader's loop take, and how large the next portion may be.

Every step of an iteration is bounded in bytes where it reads or writes payloads. What rows cost in time is not known in
advance, so the number of rows follows what the last iterations took: one that was too long halves the portion, quick
ones let it grow again.
"""

from __future__ import annotations

import structlog

from tocsin.clock import Clock
from tocsin.observe.metrics import Metrics

log = structlog.get_logger()

TARGET_S = 0.1
"""A full portion should take no longer."""
LONG_S = 0.2
"""No iteration is to take longer: one that does is logged with what its steps took."""
SHARE_MIN = 1 / 64
SHARE_FIRST = 1 / 4
"""A new leader begins with less: nothing that it reads or writes is in memory yet."""
GROWTH = 1.25


class Iterations:
    """The stopwatch of one term. ``begin``, then ``step`` at the end of each step, then ``end``."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._share = SHARE_FIRST
        self._steps: dict[str, float] = {}
        self._began_s = self._lap_s = clock.elapsed_s()
        self._paused_s = self._appended_s = 0.0

    def portion(self, rows: int) -> int:
        """How many of so many rows are taken in this iteration."""
        return max(1, int(rows * self._share))

    def begin(self) -> None:
        self._steps = {}
        self._paused_s = self._appended_s = 0.0
        self._began_s = self._lap_s = self._clock.elapsed_s()

    def step(self, name: str) -> None:
        """The step of this name is over."""
        now_s = self._clock.elapsed_s()
        self._steps[name] = self._steps.get(name, 0.0) + now_s - self._lap_s
        self._lap_s = now_s

    def appended(self, took_s: float) -> None:
        """So much of this iteration was spent waiting for the journal: smaller portions would not shorten it."""
        self._appended_s += took_s

    def paused(self) -> None:
        """What has passed since the last step was a pause, and no work."""
        now_s = self._clock.elapsed_s()
        self._paused_s += now_s - self._lap_s
        self._lap_s = now_s

    def end(self, *, is_full: bool, is_shared: bool = False) -> None:
        """``is_full``: the portion was used up, so its size is what decided how long it took. ``is_shared``: so did a
        part of an import, and the portion is left as it is: launches must not wait because an import takes its time."""
        took_s = self._clock.elapsed_s() - self._began_s - self._paused_s
        self._metrics.iteration_seconds.observe(took_s)
        self._metrics.longest_iteration.observe(took_s)
        worked_s = took_s - self._appended_s
        self._metrics.longest_work.observe(worked_s)
        if took_s > LONG_S:
            steps = {f"{name}_ms": round(lasted_s * 1000) for name, lasted_s in self._steps.items()}
            append_ms = round(self._appended_s * 1000)
            log.warning(
                "leader loop iteration took long", ms=round(took_s * 1000), append_ms=append_ms, **steps
            )
        if is_shared:
            return
        if worked_s > TARGET_S:
            if is_full:
                self._share = max(SHARE_MIN, self._share * max(0.5, TARGET_S / worked_s))
        elif self._share < 1.0 and (is_full or worked_s < TARGET_S / 2):
            self._share = min(1.0, self._share * GROWTH)
