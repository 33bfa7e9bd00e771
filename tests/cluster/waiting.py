"""Waiting for something to be so, and letting the time of a fault pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def until(look: Callable[[], T], what: str, patience_s: float = PATIENCE_S, *, every_s: float = 0.05) -> T:
    """The first true answer. The pause between two looks only spares the processor, of which there is little."""
    deadline = boot_s() + patience_s
    while True:
        found = look()
        if found:
            return found
        if boot_s() > deadline:
            raise AssertionError(
                f"waited {patience_s:.0f} s in vain for {what}; the last answer was {found!r}"
            )
        threading.Event().wait(every_s)


def let_pass(seconds: float) -> None:
    """How long a fault lasts is the input of a test, not a wait for something."""
    threading.Event().wait(seconds)


def boot_s() -> float:
    """The one clock that no test steps, and that receivers stamp their records with."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_of(boot: float) -> float:
    """The wall time of this machine at that moment of its boot clock."""
    return time.time() - boot_s() + boot
