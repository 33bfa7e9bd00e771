"""Axes: from moments to places, from numbers to heights, and where the lines and words go.

Across, places are parts of the whole width, so that a chart fits a phone and a wall with letters of one size; upwards
they are pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from math import ceil, floor, log10
from typing import NamedTuple

_GRID_MIN = (5, 15, 60)
_STEPS_MIN = (5, 10, 15, 30, 60, 180, 360, 720, 1_440)
_DAY_MIN = 1_440
_TICKS_MAX = 14


class Tick(NamedTuple):
    """A moment that is named on the axis."""

    at_ms: int
    words: str
    is_minor: bool
    """It may be left out where there is little room."""


class Times(NamedTuple):
    """The axis across."""

    from_ms: int
    to_ms: int

    def place(self, at_ms: float) -> float:
        """In percent of the width."""
        return 100 * (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms)

    def width(self, length_ms: float) -> float:
        return 100 * length_ms / max(1, self.to_ms - self.from_ms)

    def ticks(self, zone: tzinfo) -> list[Tick]:
        """Round times of the clock in that zone. A day that a clock is changed on has an hour more or less between two
        of them, and they stay round."""
        length_min = (self.to_ms - self.from_ms) / 60_000
        step = next((each for each in _STEPS_MIN if length_min / each <= _TICKS_MAX), _DAY_MIN)
        found = [Tick(at_ms, _words(local, step), False) for at_ms, local in self._round(step, zone)]
        return [tick._replace(is_minor=bool(place % 2)) for place, tick in enumerate(found)]

    def _round(self, step: int, zone: tzinfo) -> Iterator[tuple[int, datetime]]:
        grid_ms = 60_000 * next(each for each in reversed(_GRID_MIN) if step % each == 0 and each <= 15)
        at_ms = -(-self.from_ms // grid_ms) * grid_ms
        while at_ms < self.to_ms:
            local = datetime.fromtimestamp(at_ms / 1000, zone)
            if (local.hour * 60 + local.minute) % step == 0:
                yield at_ms, local
            at_ms += grid_ms


def _words(local: datetime, step: int) -> str:
    is_midnight = local.hour == local.minute == 0
    return f"{local:%a} {local.day}" if step >= _DAY_MIN or is_midnight else f"{local:%H:%M}"


class Heights(NamedTuple):
    """The axis upwards: from zero to a round number."""

    top: int
    pixels: float

    @classmethod
    def of(cls, highest: float, pixels: float) -> Heights:
        return cls(round_up(highest), pixels)

    def height(self, value: float) -> float:
        """Something is always more than nothing."""
        return 0.0 if value <= 0 else max(1.5, self.pixels * value / self.top)

    def lines(self) -> list[int]:
        """Where to draw a line: the top and half of it."""
        return [self.top] if self.top < 2 else [self.top // 2, self.top]


def round_up(value: float) -> int:
    """The next of 1, 2, 4, 6, 10, 20, 40, ...: half of each is a round number too."""
    if value <= 1:
        return 1
    if value <= 2:
        return 2
    size = 10 ** floor(log10(value))
    return int(next(each * size for each in (1, 2, 4, 6, 8, 10) if value <= each * size + 1e-9))


def short(number: float) -> str:
    """``950``, ``1.2k``, ``41k``, ``2.5M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            part = number / size
            return (
                f"{ceil(part * 10 - 0.5) / 10:.1f}".removesuffix(".0") + unit
                if part < 10
                else f"{part:.0f}{unit}"
            )
    return f"{number:.0f}"
