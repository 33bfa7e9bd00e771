"""Since when are the records whole? Only then does a missing claim prove that an attempt never started.

They are not whole for what was ordered before a power cut (claims are not flushed one by one), before the
directory was made (or made again after it was lost), before it was put back from a copy, and before the day up to which
old records were pruned.

A copy is recognised by the file ``.original``, which is never written again.
"""

from __future__ import annotations

import json
from pathlib import Path

from tocsin.file_identity import identity
from tocsin.files import write_whole
from tocsin.targets.exec.processes import boot_id


class Epoch:
    """The file ``.epoch`` of an ``exec_dir``."""

    def __init__(self, exec_dir: Path) -> None:
        self._path = exec_dir / ".epoch"
        self._original = exec_dir / ".original"
        self._boot = boot_id()
        self._whole = False
        self._whole_since_ms = 0

    def begin(self, now_ms: int) -> None:
        """Called once at the start: compare with what the last process left here. ``now_ms`` is later than every order
        before: the clock of this boot may be behind that of the last one."""
        found = self._read()
        self._whole = found is not None and found[:2] == (self._boot, identity(self._original))
        if found is not None and self._whole:
            self._whole_since_ms = found[2]
        else:
            self._whole_since_ms = now_ms
            self._original.touch(mode=0o600)
            self._write()

    def is_whole_for(self, ordered_ms: int) -> bool:
        """Would an attempt ordered then have left its claim here?"""
        # The first start after a power cut trusts no missing claim at all: the clock may have been wrong.
        return self._whole and ordered_ms >= self._whole_since_ms and self._read() is not None

    def forget_until(self, ms: int) -> None:
        """Records of what ended before that moment are about to be removed."""
        if ms > self._whole_since_ms:
            self._whole_since_ms = ms
            self._write()

    def _read(self) -> tuple[str, str, int] | None:
        try:
            found = json.loads(self._path.read_bytes())
            return str(found["boot_id"]), str(found["original"]), int(found["whole_since_ms"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _write(self) -> None:
        told = {
            "boot_id": self._boot,
            "original": identity(self._original),
            "whole_since_ms": self._whole_since_ms,
        }
        write_whole(self._path, json.dumps(told).encode())
