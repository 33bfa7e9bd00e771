"""The wall clock, as long as it is believed.

This is the clock that every part of a replica is given. Its ``wall_ms`` is the system's wall clock while that goes on
evenly. When the system's clock steps by more than a bound, ``wall_ms`` goes on as it did before, counted by the clock
that never steps (CLOCK_BOOTTIME), and ``is_believed`` is false: whoever decides something that depends on time stops.
No entry can be stamped with a time that a step brought about, because nobody here sees it.

All that is known of the clock is kept on disk together with the id of the boot: a restart of the process alone hides no
step, ends no doubt, and proves nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Literal

import msgspec
import structlog
from msgspec.structs import replace

from tocsin.clock import Clock
from tocsin.decide.clock import AGREE_MS, Bounds, Expected, step_of
from tocsin.model.cluster import ClockState

log = structlog.get_logger()

FOLLOWED_EVERY_S = 10.0
"""So often the expectation follows the wall clock: many small steps are not one large one, but take their time."""
LATEST_MS = 7_258_118_400_000
"""The year 2200."""
UNCOUNTED_MS = 30_000
"""A clock that is followed over a larger step, because it may step that far, may be ahead, or may have been slow
before. Those of two machines differ by no more (``CLOCKS_APART_MS``)."""
KEPT_WITHIN_MS = 1_000
"""The offset is written anew when it has changed by more than this."""


Basis = Literal["clock", "entry", "leader", "others"]
"""Where the time that is expected is from: the clock here, which went on evenly from there; the last entry, after a
start of the machine; the clock of the last leader; the time that other replicas believe."""
_NOT_BELIEVED: dict[Basis, ClockState] = {
    "clock": "stepped",
    "entry": "unknown",
    "leader": "doubted",
    "others": "stepped",
}

_COMPARED: dict[Basis, str] = {
    "clock": "itself before",
    "entry": "the last entry",
    "leader": "the clock of the last leader",
    "others": "the time that other replicas believe",
}


class _Known(msgspec.Struct, frozen=True):
    """The facts about the clock within one boot. The file holds all of it. A field that is missing there makes the
    file void: a clock of which less is known is no witness."""

    boot: str
    offset_ms: int
    """Of the time that is expected, from the clock that never steps."""
    basis: Basis
    is_proven: bool
    """Is the clock known to have gone on evenly since a person or other replicas believed it? The same boot alone
    proves nothing: the machine may have started with a wrong clock."""
    leader_offset_ms: int | None
    """Of the clock of the last other leader, if that was believed and did not agree with the clock here."""
    counted_since_ms: int | None
    """From this moment on the clock that never steps has counted all the time. None: it has not counted all of it since
    the journal last heard of a time that agrees with the clock here, as after a start of the machine."""


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
        self._kept = self._read()
        """The content of the file; None: there is none, or it is void."""
        self._is_same_boot = self._kept is not None and self._kept.boot == boot != ""
        self._known = _Known(boot, self.system_offset_ms(), "clock", False, None, counted_since_ms=None)
        if self._kept is not None and self._is_same_boot:
            self._known = self._kept
        self._is_leap_seen = False
        """Is it known of the step that is followed next that time was not counted?"""
        self._followed_s = clock.elapsed_s()
        self._has_begun = False
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

    def system_offset_ms(self) -> int:
        """How far it is from the clock that never steps."""
        return self._clock.wall_ms() - round(self._clock.elapsed_s() * 1000)

    @property
    def state(self) -> ClockState:
        if self.step_ms():
            return _NOT_BELIEVED[self._known.basis]
        return "steady" if self._known.is_proven else "fresh"

    @property
    def is_believed(self) -> bool:
        return self.step_ms() == 0

    def step_ms(self) -> int:
        """By how much the system's wall clock is ahead of the time that is believed; 0: it is believed."""
        with self._lock:
            return self._look(self._clock.wall_ms(), self._clock.elapsed_s())

    @property
    def basis(self) -> Basis:
        return self._known.basis

    @property
    def is_counted(self) -> bool:
        """Is it known how much time has passed since the journal last heard of the time? What others say of the clock
        here does not count: they may have been started a moment ago, too."""
        return self._known.counted_since_ms is not None

    @property
    def counted_since_ms(self) -> int:
        """How long ago something was is known of what was after this moment."""
        since_ms = self._known.counted_since_ms
        return LATEST_MS if since_ms is None else since_ms

    @property
    def has_stepped_unproven(self) -> bool:
        """Did it step, and nobody else had believed it before? A time service that answers late does that."""
        return self.state == "stepped" and self._known.basis == "clock" and not self._known.is_proven

    def leader_ahead_ms(self) -> int | None:
        """By how much the clock of the last other leader is ahead of ours; None: they agreed, or nobody believed it."""
        offset_ms = self._known.leader_offset_ms
        return None if offset_ms is None else offset_ms - self.system_offset_ms()

    # What changes it

    def begin(self, last_entry_ms: int) -> None:
        """The state is there. ``last_entry_ms``: the time of its last entry; 0: there is none."""
        with self._lock:
            is_behind = self.system_ms() < last_entry_ms - self.bounds.step_ms
            is_cold = self._known.basis == "entry"
            is_later = is_cold and last_entry_ms > self._expected_ms(self._clock.elapsed_s())
            if last_entry_ms and (not self._is_same_boot or is_later or (is_behind and self.is_believed)):
                self._expect(last_entry_ms, "entry")
            self._look(self._clock.wall_ms(), self._clock.elapsed_s())
            self._has_begun = True
            self._keep()

    def believe(self) -> None:
        """The system's clock is right as it is: a person or the other replicas say so."""
        with self._lock:
            since_ms = self._known.counted_since_ms
            self._known = _Known(self._boot, self.system_offset_ms(), "clock", True, None, since_ms)
            self._followed_s = self._clock.elapsed_s()
            self._note(0)
            self._keep()

    def noted(self) -> None:
        """The journal has heard whether the time until now was counted, from here or from a leader whose clock agrees
        with the one here. As long as the clock is not believed, it hears of a time that is counted on from the last
        entry, and more has passed."""
        with self._lock:
            if not self.is_counted and self.is_believed:
                self._known = replace(self._known, counted_since_ms=self.wall_ms())
                self._keep()

    def confirmed_elsewhere(self, now_ms: int) -> None:
        """A person has confirmed the clock of the leader, and it is that time there now."""
        if not self.is_believed and abs(self.system_ms() - now_ms) <= AGREE_MS:
            log.info("the wall clock here agrees with the one that was confirmed", was=self.state)
            self.believe()
            self.noted()

    def passed(self) -> None:
        """A quiet time went by in which the clock went on as it should. Only for worlds in which time can leap."""
        self._known = replace(self._known, offset_ms=self.system_offset_ms())
        self._followed_s = self._clock.elapsed_s()

    def doubt(self, ahead_ms: int, basis: Literal["leader", "others"]) -> None:
        """The clock of those who were believed until now is so much ahead of ours. As far as a clock may step, that is
        no reason for a doubt."""
        if abs(ahead_ms) <= self.bounds.step_ms:
            return
        with self._lock:
            self._expect(self.system_ms() + ahead_ms, basis)
            self._keep()

    def note_leader(self, ahead_ms: int | None) -> None:
        """By how much the clock of another replica that leads is ahead of ours; None: it does not matter any more."""
        with self._lock:
            offset_ms = None if ahead_ms is None else self.system_offset_ms() + ahead_ms
            self._known = replace(self._known, leader_offset_ms=offset_ms)
            self._keep()

    # Small steps

    def _look(self, system_ms: int, elapsed_s: float) -> int:
        """By how much the system's clock is off; 0: not at all, and then it is followed."""
        known = self._known
        expected = Expected(self._expected_ms(elapsed_s), is_cold=known.basis == "entry")
        step_ms = step_of(expected, system_ms, self.bounds)
        is_due = elapsed_s - self._followed_s >= FOLLOWED_EVERY_S
        is_settled = known.basis != "clock" and step_ms == 0
        if step_ms == 0 and not self._is_leap_seen and abs(system_ms - expected.at_ms) > UNCOUNTED_MS:
            # At once: the journal hears of this time long before it is what is expected.
            self._known = known = replace(known, counted_since_ms=None)
            self._is_leap_seen = True
        if step_ms == 0 and (is_settled or is_due):
            self._is_leap_seen = False
            self._known = replace(
                known,
                offset_ms=system_ms - round(elapsed_s * 1000),
                basis="clock",
                is_proven=known.is_proven and known.basis == "clock",
            )
        if is_settled or is_due:
            self._followed_s = elapsed_s
            self._keep()
        self._note(step_ms)
        return step_ms

    def _note(self, step_ms: int) -> None:
        was_ms, self._step_ms = self._step_ms, step_ms
        if step_ms and not was_ms:
            log.error(
                "the wall clock is not believed: nothing that depends on time is decided",
                ahead_s=round(step_ms / 1000),
                compared_with=_COMPARED[self._known.basis],
                remedy="set the clock right, or 'tocsin clock confirm' if it is",
            )
        elif was_ms and not step_ms:
            log.info("the wall clock is believed again")

    def _expect(self, at_ms: int, basis: Basis) -> None:
        offset_ms = at_ms - round(self._clock.elapsed_s() * 1000)
        self._known = replace(self._known, offset_ms=offset_ms, basis=basis)

    def _expected_ms(self, elapsed_s: float) -> int:
        return self._known.offset_ms + round(elapsed_s * 1000)

    def _read(self) -> _Known | None:
        if self._path is None:
            return None
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Known)
        except (OSError, msgspec.DecodeError):
            return None
        # What no clock can have shown was not written by this program.
        return kept if 0 <= kept.offset_ms + round(self._clock.elapsed_s() * 1000) < LATEST_MS else None

    def _keep(self) -> None:
        """A write that fails is repeated with one of the next looks."""
        known = self._known
        if self._path is None or not self._has_begun or (self._kept and _is_near(self._kept, known)):
            return
        try:
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(known))
            os.replace(fresh, self._path)
        except OSError as wrong:
            log.warning("what is known of the clock cannot be kept", reason=str(wrong))
            return
        self._kept = known


def _is_near(kept: _Known, known: _Known) -> bool:
    """Is it as good as the same?"""
    were_ms, are_ms = kept.leader_offset_ms, known.leader_offset_ms
    if were_ms is None or are_ms is None:
        is_leader_near = were_ms is are_ms
    else:
        is_leader_near = abs(were_ms - are_ms) <= KEPT_WITHIN_MS
    is_offset_near = abs(kept.offset_ms - known.offset_ms) <= KEPT_WITHIN_MS
    is_same = replace(known, offset_ms=kept.offset_ms, leader_offset_ms=were_ms) == kept
    return is_leader_near and is_offset_near and is_same


def guarded(clock: Clock, path: Path, boot: str = "") -> ClockGuard:
    """A clock that is guarded already stays as it is."""
    return clock if isinstance(clock, ClockGuard) else ClockGuard(clock, path, boot)
