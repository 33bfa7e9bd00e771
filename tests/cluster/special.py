"""What can be done with one replica of a cluster only if it was started for it."""

from __future__ import annotations

from pathlib import Path

from tests.cluster import stopping
from tests.cluster.clockshift import ClockShift
from tests.cluster.cluster import Replica


class Special:
    """One replica whose clock can be stepped, and that stops itself before a call when a trap is set."""

    def __init__(self, replica: Replica, folder: Path) -> None:
        self.replica = replica
        self.trap = folder / "trap"
        self.clock = ClockShift(folder)
        replica.module = stopping.__name__
        replica.environment = {stopping.VARIABLE: str(self.trap)}
        if self.clock.is_there:
            replica.environment.update(self.clock.environment)
