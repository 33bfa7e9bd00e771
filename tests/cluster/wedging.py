"""The service, with a part of it that stands still for as long as a test wants: ``python -m tests.cluster.wedging``.

While the folder that ``TOCSIN_TEST_WEDGES`` names holds a file of one of these names, that part of it hangs:

``loop``   the thread of the event loop
``state``  the thread that writes the state
``disk``   every fsync and fdatasync of this process that Python makes, and the thread that writes the state
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster import armed

from tocsin.replica.career import Career
from tocsin.replica.replica import Replica

VARIABLE = "TOCSIN_TEST_WEDGES"
WEDGES = ("loop", "state", "disk")
_EVERY_S = 0.02


def _hang(folder: Path, *names: str) -> None:
    while any((folder / name).exists() for name in names):
        time.sleep(_EVERY_S)


def _arm(folder: Path) -> None:
    _arm_loop(folder)
    _arm_state(folder)
    for name in ("fsync", "fdatasync"):
        setattr(os, name, _hanging(getattr(os, name), folder))


def _hanging(sound: Callable[[int], None], folder: Path) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        _hang(folder, "disk")
        sound(descriptor)

    return sync


def _arm_loop(folder: Path) -> None:
    sound = Career.run

    async def run(self: Career) -> None:
        loop = asyncio.get_running_loop()

        def look() -> None:
            while True:
                time.sleep(_EVERY_S)
                if (folder / "loop").exists():
                    loop.call_soon_threadsafe(_hang, folder, "loop")
                    _hang(folder, "loop")

        threading.Thread(target=look, daemon=True).start()
        await sound(self)

    Career.run = run  # type: ignore[method-assign]  # why: armed for one test


def _arm_state(folder: Path) -> None:
    sound = Replica._on_state

    async def on_state(self: Replica, work: Callable[..., Any], *args: Any) -> Any:
        def hanging() -> Any:
            _hang(folder, "state", "disk")
            return work(*args)

        return await sound(self, hanging)

    Replica._on_state = on_state  # type: ignore[method-assign]  # why: armed for one test


if __name__ == "__main__":
    _arm(Path(os.environ[VARIABLE]))
    armed.run()
