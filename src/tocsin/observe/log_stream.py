"""Where log lines go: whoever reads them can neither stop the service nor make it wait.

The reader may be slow, full or gone: a pipe that nobody empties, a full disk, a terminal that was closed. So a thread
of its own writes the lines. Some wait for it; those beyond are left out, and their number is told later.
"""

from __future__ import annotations

import atexit
import collections
import os
import threading
from collections.abc import Callable
from typing import TextIO

WAITING_MAX = 4 * 1024 * 1024
"""Characters that wait to be written."""
LAST_S = 1.0
"""The process waits this long at its end for the last lines to be written."""


class LogStream:
    """A file to write whole lines to. ``on_lost`` is told how many were left out."""

    def __init__(self, stream: TextIO, on_lost: Callable[[int], None]) -> None:
        self._stream = stream
        self._on_lost = on_lost
        self._lines: collections.deque[str] = collections.deque()
        self._changed = threading.Condition()
        self._waiting = self._lost = 0
        self._is_writing = False
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> int:
        with self._changed:
            # The line that tells how many were left out always finds room, or their number would be lost too.
            is_full = self._waiting + len(text) > WAITING_MAX
            if is_full and threading.current_thread() is not self._thread:
                self._lost += 1
                return len(text)
            self._lines.append(text)
            self._waiting += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
                atexit.register(self.finish)
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Lines are written as soon as they can be."""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def finish(self) -> None:
        """Wait a moment for what is still to be written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._is_writing, LAST_S)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines))
                self._is_writing = True
                text = "".join(self._lines)
                count = len(self._lines)
                self._lines.clear()
            is_written = self._is_written(text)
            with self._changed:
                self._waiting -= len(text)
                self._is_writing = False
                self._lost += 0 if is_written else count
                lost, self._lost = (self._lost, 0) if is_written else (0, self._lost)
                self._changed.notify_all()
            if lost:
                self._on_lost(lost)

    def _is_written(self, text: str) -> bool:
        try:
            try:
                fd = self._stream.fileno()
            except (OSError, ValueError):  # a stream in memory, or closed
                self._stream.write(text)
                self._stream.flush()
                return True
            left = memoryview(text.encode(errors="backslashreplace"))
            while left:
                left = left[os.write(fd, left) :]
        except (OSError, ValueError):
            return False
        return True
