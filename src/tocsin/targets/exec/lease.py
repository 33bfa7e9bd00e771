"""How long the leader's authority lasts by now, for keepers that were given an order before it was renewed.

One line in the file ``.lease`` of an ``exec_dir``, written by Tocsin and read by keepers: the term, and when authority
under it ends. A line that was read while it was written does not match its sum, and tells nothing.
"""

from __future__ import annotations

import os
import zlib


def line_of(term: int, until_s: float) -> bytes:
    text = b"%020d %020.6f" % (term, until_s)
    return b"%b %010d\n" % (text, zlib.crc32(text))


def read(lease: int | None, term: int) -> float | None:
    """When authority under that term ends, as the file says. None: it does not say."""
    if lease is None:
        return None
    try:
        line = os.pread(lease, 100, 0)
        told, until_s, _ = line.split(b" ")
        is_whole = line == line_of(int(told), float(until_s))
        return float(until_s) if is_whole and int(told) == term else None
    except (OSError, ValueError):
        return None


def opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
