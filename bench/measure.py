"""Small things that every scenario needs: percentiles, the memory of a process, a patient wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
MEBIBYTE = 1 << 20


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed. Not a number if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def resident_bytes(pid: int) -> int:
    """What this process holds in memory now; pages of files that it mapped are the system's and not counted."""
    return _status(pid, "RssAnon")


def peak_bytes(pid: int) -> int:
    """The most that it ever held, mapped files among it."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def files_bytes(*paths: Path) -> int:
    """What these files, and SQLite's beside them, take up."""
    found = [Path(str(path) + suffix) for path in paths for suffix in ("", "-wal")]
    return sum(path.stat().st_size for path in found if path.exists())


def until(look: Callable[[], T], what: str, patience_s: float, every_s: float = 0.1) -> T:
    """The first true answer."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:.0f} s in vain for {what}")
        time.sleep(every_s)
    return found
