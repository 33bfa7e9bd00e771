"""Is the leader loop alive, and the disk? A leader that is wedged must not renew its lease for ever.

The thread that renews the lease does not depend on the loop: that is what it is for. So it has to be told that the loop
still finishes iterations, and it sees by itself that a small file still reaches the disk.
"""

from __future__ import annotations

import os
from pathlib import Path

from tocsin.clock import Clock

WEDGED_S = 5.0
"""A loop that finished no iteration for so long, or a disk that took no write, is taken for dead."""
JUDGE_S = 1.0
"""The thread that renews the lease judges at least this often, and with each renewal."""
PAUSED_S = 2.0
"""Where that thread itself stood still for longer than this, everything did."""
PROBE_S = 2.0
"""A small file is written this often."""
DISK_TAKES_NO_WRITES = "the disk takes no writes"


class Liveness:
    """Each moment is one number that one thread writes and others read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.iterated_s = self.wrote_s = self.judged_s = self._resumed_s = clock.elapsed_s()

    def iterated(self) -> None:
        """The leader loop finished an iteration, or has just begun to run."""
        self.iterated_s = self._clock.elapsed_s()

    def wrote(self, began_s: float) -> None:
        """A write that began then has reached the disk."""
        self.wrote_s = began_s

    def judge(self) -> None:
        """By the thread that renews the lease. That a process was paused says nothing of its loop or its disk: both
        have their time from the moment at which it went on."""
        now_s = self._clock.elapsed_s()
        if now_s - self.judged_s > PAUSED_S:
            self._resumed_s = now_s
        self.judged_s = now_s

    @property
    def is_loop_alive(self) -> bool:
        return self.judged_s - max(self.iterated_s, self._resumed_s) <= WEDGED_S

    @property
    def is_disk_alive(self) -> bool:
        return self.judged_s - max(self.wrote_s, self._resumed_s) <= WEDGED_S

    @property
    def wedged(self) -> str:
        """What is dead; empty: nothing."""
        if not self.is_disk_alive:
            return DISK_TAKES_NO_WRITES
        return "" if self.is_loop_alive else "the leader loop does not finish an iteration"


class DiskProbe:
    """A file that is overwritten with the time, in place."""

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        """``is_synced``: a write is over when it is on the disk, and not only in memory."""
        self._path = path
        self._is_synced = is_synced

    def write(self, wall_ms: int) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, b"%015d\n" % wall_ms, 0)
            if self._is_synced:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> int:
        """What was last written; 0: nothing that can be read."""
        try:
            found = self._path.read_bytes().strip()
        except OSError:
            return 0
        return int(found) if found.isdigit() and len(found) <= 15 else 0
