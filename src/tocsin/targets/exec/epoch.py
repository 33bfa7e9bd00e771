"""Since when are the records whole? Only then does a missing claim prove that an attempt never started.

They are not whole for what was ordered before a power cut (claims are not flushed one by one), before the
directory was made (or made again after it was lost), before it was put back from a copy, and before the day up to which
old records were pruned.

A copy is recognised by a mark, which is made anew at each start and at each end: a program that puts back what differs
from a copy would leave an older one alone, and take away the claims that were made since.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from tocsin.file_identity import is_marked, new_mark
from tocsin.files import write_whole
from tocsin.targets.exec.processes import boot_id

log = structlog.get_logger()


class _Told(msgspec.Struct, frozen=True):
    boot_id: str
    mark: str
    whole_since_ms: int


class Epoch:
    """The file ``.epoch`` of an ``exec_dir``."""

    def __init__(self, exec_dir: Path) -> None:
        self._folder = exec_dir
        self._path = exec_dir / ".epoch"
        self._boot = boot_id()
        self._mark = ""
        self._whole = False
        self._whole_since_ms = 0

    def begin(self, now_ms: int) -> None:
        """Called once at the start: compare with what the last process left here. ``now_ms`` is later than every order
        before: the clock of this boot may be behind that of the last one."""
        found = self._read()
        self._whole = (
            found is not None and found.boot_id == self._boot and is_marked(self._folder, found.mark)
        )
        if found is not None and self._whole:
            self._mark, self._whole_since_ms = found.mark, found.whole_since_ms
            self.sign()
        else:
            self._whole_since_ms = now_ms
            self._sign()

    def sign(self) -> None:
        """Make the mark anew, if it can be done."""
        try:
            self._sign()
        except OSError as wrong:  # a full disk: the former mark is as good
            log.warning("the mark of the records of commands cannot be made anew", reason=str(wrong))

    def _sign(self) -> None:
        former = self._mark
        mark = new_mark(self._folder)
        self._write(mark)
        self._mark = mark
        if former:
            with suppress(OSError):
                (self._folder / former.partition(" ")[0]).unlink()

    def is_whole_for(self, ordered_ms: int) -> bool:
        """Would an attempt ordered then have left its claim here?"""
        # The first start after a power cut trusts no missing claim at all: the clock may have been wrong.
        return self._whole and ordered_ms >= self._whole_since_ms and self._read() is not None

    def forget_until(self, ms: int) -> None:
        """Records of what ended before that moment are about to be removed."""
        if ms > self._whole_since_ms:
            self._whole_since_ms = ms
            self._write(self._mark)

    def _read(self) -> _Told | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Told)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _write(self, mark: str) -> None:
        write_whole(self._path, msgspec.json.encode(_Told(self._boot, mark, self._whole_since_ms)))
