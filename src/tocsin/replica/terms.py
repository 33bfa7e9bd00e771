"""The terms in which this disk led, written on the disk itself before anything is called in them.

What a target has recorded is on the same disk. So of a term that is not in this list nothing can be concluded from
there being no record: the calls were made by a replica of the same name with another disk, before this one was
replaced or put back from a copy.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tocsin.errors import JournalFull

KEPT = 10_000


class OwnTerms:
    """A line a term."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._terms: set[int] = set()

    def __contains__(self, term: int) -> bool:
        return term in self._terms

    def load(self) -> None:
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return
        # A power cut may leave half a line, without its full stop: then that term had not begun.
        self._terms = {int(line[:-1]) for line in lines[-KEPT:] if re.fullmatch(r"[0-9]+\.", line)}

    def begin(self, term: int) -> None:
        """Durable when it returns. Raises JournalFull where there is no room for it: then the term cannot begin."""
        if term in self._terms:
            return
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"\n{term}.\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as wrong:
            raise JournalFull(f"{self._path} cannot be written: {wrong.strerror}") from wrong
        self._terms.add(term)
