"""What a command prints, bounded: its beginning and its end, and a count of what was let go between."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from tocsin.targets.exec.records import Record


class Capture:
    """Takes bytes as they come and keeps the record's ``head`` and ``tail`` up to date."""

    def __init__(self, record: Record, head_max: int, tail_max: int) -> None:
        self._record = record
        self._head_max = head_max
        self._tail_max = tail_max
        self._head_taken = 0
        self._head_unwritten = b""
        self._tail = bytearray()
        self._tail_changed = False
        self._dropped = 0

    def take(self, data: bytes) -> None:
        room = self._head_max - self._head_taken
        head, rest = data[:room], data[room:]
        self._head_taken += len(head)
        self._head_unwritten += head
        if rest:
            self._tail += rest
            self._tail_changed = True
            surplus = len(self._tail) - self._tail_max
            if surplus > 0:
                del self._tail[:surplus]
                self._dropped += surplus
        self._write_head()

    @property
    def flush_needed(self) -> bool:
        return self._tail_changed or bool(self._head_unwritten)

    def flush(self) -> None:
        """Bring the files up to date. On a full disk the next flush tries again: output is worth no more."""
        self._write_head()
        if not self._tail_changed:
            return
        try:
            self._record.replace("tail", b"%d\n%b" % (self._dropped, bytes(self._tail)))
        except OSError:
            return
        self._tail_changed = False

    def _write_head(self) -> None:
        if not self._head_unwritten:
            return
        try:
            written = self._record.append("head", self._head_unwritten)
        except OSError:
            return
        self._head_unwritten = self._head_unwritten[written:]


def read_available(fd: int, capture: Capture) -> bool:
    """Take what is there now. False when the last writer has closed."""
    for _ in range(
        16
    ):  # bounded, so that a command that prints without end cannot keep its keeper from its clock
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        capture.take(data)
    return True
