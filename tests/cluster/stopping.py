"""``python -m tests.cluster.stopping serve``: Tocsin with a trap between the first synchronisation point and the call.

When the file that ``STOP_BEFORE_THE_CALL`` names is there and launches are about to be handed to their targets, the
process stops itself (SIGSTOP) at that very point, and the file is gone. Whoever set the trap wakes it up again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "STOP_BEFORE_THE_CALL"


def _set_trap(trap: Path) -> None:
    from tocsin.replica.launcher import Launcher

    original = Launcher.hand_over

    def hand_over(self: Launcher, flights: Sequence[Any], **options: Any) -> None:
        if flights and trap.exists():
            trap.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        original(self, flights, **options)

    Launcher.hand_over = hand_over


if __name__ == "__main__":
    from tests.cluster import armed

    _set_trap(Path(os.environ[VARIABLE]))
    armed.run()
