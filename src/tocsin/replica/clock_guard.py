"""The wall clock, as long as it is believed.

This is the clock that every part of a replica is given. Its ``wall_ms`` is the system's wall clock while that goes on
evenly. When the system's clock steps by more than a bound, ``wall_ms`` goes on as it did before, counted by the clock
that never steps (CLOCK_BOOTTIME), and ``is_believed`` is false: whoever decides something that depends on time stops.
No entry can be stamped with a time that a step brought about, because nobody here sees it.

The offset between the two clocks is kept on disk together with the id of the boot: a restart of the process alone does
not hide a step.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.decide.clock import Bounds, Expected, step_of
from tocsin.model.cluster import ClockState

log = structlog.get_logger()

FOLLOWED_EVERY_S = 10.0
"""So often the expectation follows the wall clock: many small steps are not one large one, but take their time."""
LATEST_MS = 7_258_118_400_000
"""The year 2200."""
KEPT_WITHIN_MS = 1_000
"""The offset is written anew when it has changed by more than this."""


class _Kept(msgspec.Struct, frozen=True):
    """What the file holds."""

    boot: str
    offset_ms: int


class ClockGuard:
    """The port ``Clock``, with a wall clock that does not step."""

    def __init__(
        self, clock: Clock, path: Path | None = None, boot: str = "", bounds: Bounds | None = None
    ) -> None:
        self._clock = clock
        self._lock = threading.RLock()  # the thread of presence asks as well
        self._path = path
        self._boot = boot
        self.bounds = bounds or Bounds()
        kept = self._read()
        self._kept_ms = None if kept is None else kept.offset_ms
        self._is_same_boot = kept is not None and kept.boot == boot != ""
        self._offset_ms = self._system_offset() if kept is None or not self._is_same_boot else kept.offset_ms
        self._followed_s = clock.elapsed_s()
        self._is_cold = self._has_begun = False
        self._is_proven = self._is_same_boot
        """Is it known to have gone on evenly since somebody believed it?"""
        self._step_ms = 0

    # The port

    def wall_ms(self) -> int:
        """The time that is believed."""
        with self._lock:
            system_ms, elapsed_s = self._clock.wall_ms(), self._clock.elapsed_s()
            return system_ms if self._look(system_ms, elapsed_s) == 0 else self._expected_ms(elapsed_s)

    def elapsed_s(self) -> float:
        return self._clock.elapsed_s()

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        return await self._clock.wait(event, timeout_s)

    # What is known of it

    def system_ms(self) -> int:
        """What the system's wall clock shows, believed or not."""
        return self._clock.wall_ms()

    @property
    def state(self) -> ClockState:
        if self.step_ms():
            return "unknown" if self._is_cold else "stepped"
        return "steady" if self._is_proven else "fresh"

    @property
    def is_believed(self) -> bool:
        return self.step_ms() == 0

    def step_ms(self) -> int:
        """By how much the system's wall clock is ahead of the time that is believed; 0: it is believed."""
        with self._lock:
            return self._look(self._clock.wall_ms(), self._clock.elapsed_s())

    # What changes it

    def begin(self, last_entry_ms: int) -> None:
        """The state is there. ``last_entry_ms``: the time of its last entry; 0: there is none."""
        self._has_begun = True
        is_behind = self.system_ms() < last_entry_ms - self.bounds.step_ms
        if last_entry_ms and (not self._is_same_boot or (is_behind and self.is_believed)):
            self._expect(last_entry_ms, is_cold=True)
        if self.is_believed:
            self._keep()

    def believe(self) -> None:
        """The system's clock is right as it is: a person or the other replicas say so."""
        with self._lock:
            self._offset_ms, self._is_cold, self._is_proven = self._system_offset(), False, True
            self._followed_s = self._clock.elapsed_s()
            self._note(0)
            self._keep()

    def passed(self) -> None:
        """A quiet time went by in which the clock went on as it should. Only for worlds in which time can leap."""
        self._offset_ms, self._followed_s = self._system_offset(), self._clock.elapsed_s()

    def doubt(self, ahead_ms: int) -> None:
        """The clock of those who were believed until now is so much ahead of ours."""
        self._expect(self.system_ms() + ahead_ms, is_cold=False)

    # Small steps

    def _look(self, system_ms: int, elapsed_s: float) -> int:
        """By how much the system's clock is off; 0: not at all, and then it is followed."""
        expected = Expected(self._expected_ms(elapsed_s), self._is_cold)
        step_ms = step_of(expected, system_ms, self.bounds)
        is_followed = self._is_cold or elapsed_s - self._followed_s >= FOLLOWED_EVERY_S
        if step_ms == 0 and is_followed:
            self._offset_ms, self._followed_s = system_ms - round(elapsed_s * 1000), elapsed_s
            self._is_proven &= not self._is_cold
            self._is_cold = False
            self._keep()
        self._note(step_ms)
        return step_ms

    def _note(self, step_ms: int) -> None:
        was_ms, self._step_ms = self._step_ms, step_ms
        if step_ms and not was_ms:
            log.error(
                "the wall clock is not believed: nothing that depends on time is decided",
                ahead_s=round(step_ms / 1000),
                since="the start" if self._is_cold else "a step",
                remedy="set the clock right, or 'tocsin clock confirm' if it is",
            )
        elif was_ms and not step_ms:
            log.info("the wall clock is believed again")

    def _expect(self, at_ms: int, *, is_cold: bool) -> None:
        with self._lock:
            self._offset_ms = at_ms - round(self._clock.elapsed_s() * 1000)
            self._is_cold = is_cold

    def _expected_ms(self, elapsed_s: float) -> int:
        return self._offset_ms + round(elapsed_s * 1000)

    def _system_offset(self) -> int:
        return self._clock.wall_ms() - round(self._clock.elapsed_s() * 1000)

    def _read(self) -> _Kept | None:
        if self._path is None:
            return None
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return None
        # What no clock can have shown was not written by this program.
        return kept if 0 <= kept.offset_ms + round(self._clock.elapsed_s() * 1000) < LATEST_MS else None

    def _keep(self) -> None:
        is_near = self._kept_ms is not None and abs(self._kept_ms - self._offset_ms) <= KEPT_WITHIN_MS
        if self._path is None or not self._has_begun or (is_near and self._is_same_boot):
            return
        try:
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(_Kept(self._boot, self._offset_ms)))
            os.replace(fresh, self._path)
        except OSError as wrong:
            log.warning("the clock's offset cannot be kept", reason=str(wrong))
            return
        self._kept_ms, self._is_same_boot = self._offset_ms, True


def guarded(clock: Clock, path: Path, boot: str = "") -> ClockGuard:
    """A clock that is guarded already stays as it is."""
    return clock if isinstance(clock, ClockGuard) else ClockGuard(clock, path, boot)
