"""Time zones as integer tables.

A zone is cut into segments: stretches of UTC time under one offset. They are found by asking ``zoneinfo``
for the offset every few days and halving the interval when it changed, a bucket of about a year at a time,
and kept. All arithmetic on the way to an occurrence is then on integers; no ``datetime`` is made.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError

from tocsin.errors import InvalidSchedule

UNIX_MAX = 253_402_300_799
"""9999-12-31T23:59:59Z: the last second that ``datetime`` can say, and the last that any schedule has."""

GAP_FILLED_MAX_S = 3 * 3600
"""A clock set forward by more than this (a country that changes its date) makes up for nothing (rule 8)."""

_BUCKET_BITS = 25  # 2**25 s = 388 days: one bucket sees about one year's changes of the clock
# Since 1970 no zone has kept an offset for less than 6.9 days (tests/cron/zones_test.py checks every zone).
_PROBE_S = 3 * 86_400
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9][A-Za-z0-9_+-]*)*")
# Files beside the real zones that are copies, placeholders or a mirror of this machine's own setting.
_NOT_ZONES = {"factory", "localtime", "posixrules"}
_NOT_FOLDERS = {"posix", "right"}


class Segment(NamedTuple):
    """The instants ``start <= t < end`` (UTC), whose local time is ``t + offset``."""

    start: int
    end: int
    offset: int
    entry: int
    """The first local second that a fixed schedule looks at here (rule 8): behind the repeated hour if the
    clock was set back, at the beginning of a filled gap if it was set forward, else the segment's first."""


class Zone:
    """One IANA zone; shared by every expression that names it."""

    __slots__ = ("_buckets", "_info", "name")

    def __init__(self, name: str, info: ZoneInfo | None) -> None:
        self.name = name
        self._info = info
        self._buckets: dict[int, tuple[Segment, ...]] = {}

    def segment(self, unix: int) -> Segment:
        """The segment that holds ``unix``; its neighbours are ``segment(end)`` and ``segment(start - 1)``."""
        bucket = self._buckets.get(unix >> _BUCKET_BITS)
        if bucket is None:
            bucket = self._buckets[unix >> _BUCKET_BITS] = tuple(self._bucket(unix >> _BUCKET_BITS))
        for segment in bucket:
            if unix < segment[1]:
                return segment
        raise AssertionError("a bucket covers its whole range")

    def unix_of_local(self, local: int) -> int | None:
        """When a fixed time happens: on its first pass, at the end of a filled gap, never in a longer one."""
        segment = self.segment(local - 100_000)  # more than any offset, so certainly not too late
        while local - segment.offset >= segment.end:
            if segment.end > UNIX_MAX:
                break
            segment = self.segment(segment.end)
        if local < segment.entry:
            return None
        return max(local - segment.offset, segment.start)

    def _bucket(self, number: int) -> Iterator[Segment]:
        low, high = number << _BUCKET_BITS, min((number + 1) << _BUCKET_BITS, UNIX_MAX + 1)
        if self._info is None:
            yield Segment(low, high, 0, low)
            return
        # Begin earlier: a clock set back just before this bucket still repeats an hour inside it.
        start, offset = low - _PROBE_S, self._offset(low - _PROBE_S)
        entry = start + offset
        for change, changed in [*self._changes(start, high), (high, offset)]:
            if change > low:
                begin = max(start, low)
                yield Segment(begin, change, offset, max(entry, begin + offset) if begin > start else entry)
            entry = change + (changed if changed - offset > GAP_FILLED_MAX_S else offset)
            start, offset = change, changed

    def _changes(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        offset = self._offset(low)
        while low < high - 1:
            probe = min(low + _PROBE_S, high - 1)
            if self._offset(probe) != offset:
                probe = self._first_under_another(low, probe, offset)
                offset = self._offset(probe)
                yield probe, offset
            low = probe

    def _first_under_another(self, low: int, high: int, offset: int) -> int:
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, unix: int) -> int:
        # The last local days of 9999 in the east, and the far past, are outside what datetime can say.
        unix = min(max(unix, -86_400 * 7), UNIX_MAX - 86_400 * 2)
        offset = datetime.fromtimestamp(unix, self._info).utcoffset()
        return 0 if offset is None else offset.days * 86_400 + offset.seconds


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """The shared zone of that IANA name, or a refusal with the nearest name."""
    if name == "UTC":
        return Zone("UTC", None)
    if not _could_be_a_zone(name):
        raise _refused(name)
    try:
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _refused(name) from None


@cache
def tzdata_version() -> str:
    """The release of the zone data in use, such as ``2026a``; replicas compare it (rule 9).

    ``zoneinfo`` takes the system's files where there are any, else the ``tzdata`` package, and so does this.
    """
    for folder in map(Path, TZPATH):
        for note in ("tzdata.zi", "+VERSION"):
            try:
                with (folder / note).open(encoding="ascii") as lines:
                    return lines.readline().removeprefix("# version").strip()
            except (OSError, UnicodeDecodeError):
                continue
        if (folder / "Europe").is_dir():
            return "unknown"
    return _packaged_version()


def _packaged_version() -> str:
    # Imported late: it is needed only where the system has no zones.
    import tzdata  # type: ignore[import-untyped]  # why: the package has no types

    return str(tzdata.IANA_VERSION)


def _could_be_a_zone(name: str) -> bool:
    if len(name) > 64 or _NAME.fullmatch(name) is None:
        return False
    if name.lower() in _NOT_ZONES or name.split("/")[0].lower() in _NOT_FOLDERS:
        return False
    # A file system that ignores case would take "europe/berlin"; replicas elsewhere would not.
    known = _known_names().get(name.lower())
    return known is None or known == name


def _refused(name: str) -> InvalidSchedule:
    shown = name if len(name) <= 64 else name[:61] + "..."
    nearest = _nearest(name)
    return InvalidSchedule(
        f"{shown!r} is not a time zone",
        field="timezone",
        value=name,
        allowed="an IANA name such as UTC, Europe/Berlin or America/New_York",
        hint=f"did you mean {nearest}?" if nearest else "",
    )


def _nearest(name: str) -> str | None:
    if len(name) > 64:
        return None
    known = _known_names()
    lowered = name.strip().lower().replace(" ", "_")
    found = get_close_matches(lowered, known, n=1, cutoff=0.75)
    if not found:
        # "Berlin" alone: compare with the last part, the city.
        cities = {full.rsplit("/", 1)[-1]: full for full in known}
        found = [cities[city] for city in get_close_matches(lowered, cities, n=1, cutoff=0.8)]
    return known[found[0]] if found else None


@cache
def _known_names() -> dict[str, str]:
    names = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return {name.lower(): name for name in names if name != "Factory"}
