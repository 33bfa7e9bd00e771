"""Who leads, and for how long that is certain.

On one machine nobody else can: a lock on the data directory is the office. In a cluster the office is in the journal:
the leader is the author of the last ``TookOffice``, and every entry it writes is heard by all.

- The leader's authority lasts ``LEADER_S`` from the moment *before it sent* its last acknowledged entry.
- A follower may take office ``FOLLOWER_S`` after it *observed* the last entry, or at once after ``Resigned``.

An entry is observed after it was sent, so the follower's time begins later and is longer: the leader's authority has
ended by then, as long as the two clocks do not run apart by more than a tenth. That the clocks show the same time
is not needed. And a follower that has not seen the newest entry cannot take office at all: its own would not fit
behind it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from tocsin.clock import Clock
from tocsin.errors import OfficeTaken

LEADER_S = 1.5
FOLLOWER_S = 1.8
RENEW_S = 0.4
"""A leader that has nothing else to write is heard this often."""
HAND_OVER_S = 0.3
"""How long it takes at the most to hand an order to its target: with less authority left, it is not begun."""
DRIFT_MAX = 0.05
"""How much faster or slower than it should a clock may run."""

assert FOLLOWER_S >= LEADER_S * (1 + DRIFT_MAX) / (1 - DRIFT_MAX) + 0.1


class Office(Protocol):
    """The right to write entries and to call targets."""

    @property
    def renew_s(self) -> float | None:
        """How often the leader has to be heard; None: it is known to be there."""
        ...

    def observed(self, at_s: float, *, is_vacant: bool) -> None:
        """An entry of somebody was seen at that moment; ``is_vacant``: nobody leads after it."""
        ...

    def opens_in_s(self) -> float:
        """How long until this replica may take office."""
        ...

    def renewed(self, sent_s: float) -> None:
        """An entry of ours, sent after that moment, was acknowledged."""
        ...

    def ended(self) -> None:
        """Resigned or deposed."""
        ...

    def until_s(self) -> float | None:
        """When authority ends, on the clock that counts through suspend. None: it does not end by itself."""
        ...

    def holds(self) -> bool:
        """Is this process provably in office, for long enough to hand over an order?"""
        ...


class SoleOffice:
    """Nobody else can be in office: the data directory is locked."""

    renew_s: float | None = None

    def __init__(self) -> None:
        self._in_office = False

    def observed(self, at_s: float, *, is_vacant: bool) -> None:
        return

    def opens_in_s(self) -> float:
        return 0.0

    def renewed(self, sent_s: float) -> None:
        self._in_office = True

    def ended(self) -> None:
        self._in_office = False

    def until_s(self) -> float | None:
        return None

    def holds(self) -> bool:
        return self._in_office


class ElectedOffice:
    """One of several replicas, by the timing rule."""

    renew_s: float | None = RENEW_S

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opens_s = clock.elapsed_s() + FOLLOWER_S
        self._until_s = 0.0

    def observed(self, at_s: float, *, is_vacant: bool) -> None:
        self._opens_s = at_s if is_vacant else at_s + FOLLOWER_S

    def opens_in_s(self) -> float:
        return self._opens_s - self._clock.elapsed_s()

    def renewed(self, sent_s: float) -> None:
        self._until_s = max(self._until_s, sent_s + LEADER_S)

    def ended(self) -> None:
        """It is for the others now: whoever leaves office gives them time to take it."""
        has_led, self._until_s = self._until_s > 0.0, 0.0
        self._opens_s = self._clock.elapsed_s() + (2 * FOLLOWER_S if has_led else RENEW_S)

    def until_s(self) -> float | None:
        return self._until_s

    def holds(self) -> bool:
        return self._clock.elapsed_s() + HAND_OVER_S <= self._until_s


class DataLock:
    """One process a data directory. The kernel lets go of the lock when the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        # Payloads and output are nobody else's business.
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(descriptor, 32, 0).strip()
            holder = found.decode() if found.isdigit() else ""
            os.close(descriptor)
            raise OfficeTaken(
                f"another Tocsin (process {holder or 'unknown'}) is using {self._path.parent}",
                hint="stop it, or choose another --data directory",
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def leave(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
