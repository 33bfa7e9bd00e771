"""The terms in which this disk led, written on the disk itself before anything is called in them.

What a target has recorded is on the same disk. So of a term that is not in this list nothing can be concluded from
there being no record: the calls were made by a replica of the same name with another disk, before this one was
replaced or put back from a copy.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import structlog

from tocsin.errors import JournalFull

log = structlog.get_logger()
KEPT = 10_000


class OwnTerms:
    """A line a term, with its checksum."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._terms: set[int] = set()

    def __contains__(self, term: int) -> bool:
        return term in self._terms

    def load(self) -> None:
        try:
            lines = [line for line in self._path.read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return
        found = [_read(line) for line in lines[-KEPT:]]
        self._terms = {term for term in found if term is not None}
        # A power cut may leave half a line, the last one: then that term had not begun. To have forgotten a term is
        # safe, it only means doubt; to take one for ours that was another disk's is not.
        if None in found[:-1]:
            log.warning(
                "terms are forgotten", reason=f"{self._path} is damaged", lines=found[:-1].count(None)
            )

    def begin(self, term: int) -> None:
        """Durable when it returns. Raises JournalFull where there is no room for it: then the term cannot begin."""
        if term in self._terms:
            return
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, b"\n%b\n" % _line(term))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as wrong:
            raise JournalFull(f"{self._path} cannot be written: {wrong.strerror}") from wrong
        self._terms.add(term)


def _line(term: int) -> bytes:
    number = b"%d" % term
    return b"%b %08x" % (number, zlib.crc32(number))


def _read(line: bytes) -> int | None:
    found = re.fullmatch(rb"([0-9]{1,18}) [0-9a-f]{8}", line)
    return int(found[1]) if found and line == _line(int(found[1])) else None
