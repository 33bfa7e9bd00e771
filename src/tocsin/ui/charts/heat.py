"""Heat-maps: hours by days, as a table that can also be read out, and the minutes of one day.

Launches are anything from one to hundreds of thousands. Where they are, a step of colour is a factor, not a difference.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, tzinfo
from itertools import groupby
from math import log
from typing import NamedTuple

from markupsafe import Markup, escape

from tocsin.model.forecast import Bucket
from tocsin.ui.charts.scale import short
from tocsin.ui.words import number, number_of

LEVELS = 7
_SKEW = 10


class Cell(NamedTuple):
    """What is planned in an hour or a minute, and in the fullest second of it."""

    launches: int = 0
    worst: int = 0

    def joined(self, bucket: Bucket) -> Cell:
        return Cell(self.launches + bucket.launches, max(self.worst, bucket.worst))


class Shades(NamedTuple):
    """Which number has which of seven shades. 0 is nothing."""

    top: int
    is_even: bool
    """A step is a difference. Otherwise it is a factor: where most have far less than the fullest."""

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Shades:
        numbers = sorted(cell.launches for cell in cells if cell.launches)
        if not numbers:
            return cls(0, True)
        return cls(numbers[-1], numbers[len(numbers) // 2] * _SKEW > numbers[-1])

    def level(self, value: int) -> int:
        if value <= 0:
            return 0
        if self.is_even or self.top == 1:
            return -(-LEVELS * value // self.top)
        return max(1, min(LEVELS, 1 + int(LEVELS * log(value) / log(self.top))))

    def steps(self) -> list[tuple[int, str]]:
        """For the legend: each shade that there can be, and the numbers that have it."""
        edges: list[tuple[int, int]] = []
        for place in range(1, LEVELS + 1):
            first = self._first(place)
            if first is not None and (not edges or edges[-1][1] < first):
                edges.append((self.level(first), first))
        ends = [*(first - 1 for _, first in edges[1:]), self.top][: len(edges)]
        return [
            (place, short(first) if first == last else f"{short(first)}–{short(last)}")
            for (place, first), last in zip(edges, ends, strict=True)
        ]

    def _first(self, place: int) -> int | None:
        """The least number that has at least this shade."""
        if not self.top:
            return None
        found = bisect_left(range(1, self.top + 1), place, key=self.level) + 1
        return found if found <= self.top else None


# Hours by days


def by_day(buckets: Iterable[Bucket], zone: tzinfo) -> dict[date, dict[int, Cell]]:
    """The hours of each day, as the clock shows them in that zone; an hour that comes twice is one."""
    days: dict[date, dict[int, Cell]] = {}
    for bucket in buckets:
        local = bucket.at.astimezone(zone)
        hours = days.setdefault(local.date(), {})
        hours[local.hour] = hours.get(local.hour, Cell()).joined(bucket)
    return days


def hours(days: dict[date, dict[int, Cell]], shades: Shades, links: dict[date, str], caption: str) -> Markup:
    """A table: what is a colour to some is a number to others."""
    heads = "".join(
        f'<th scope="col"{"" if hour % 3 == 0 else chr(32) + "class=minor"}>{hour:02d}</th>'
        for hour in range(24)
    )
    rows = "".join(_day(day, cells, links.get(day, ""), shades) for day, cells in days.items())
    return Markup(
        f'<table class="heat"><caption class="hidden-text">{escape(caption)}</caption>'
        f"<thead><tr><th scope=col>Day</th>{heads}<th scope=col class=num>Sum</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _day(day: date, cells: dict[int, Cell], link: str, shades: Shades) -> str:
    name = f"{day:%a} {day.day}"
    head = f'<a href="{escape(link)}" title="{name} minute by minute">{name}</a>' if link else name
    drawn = [f'<tr><th scope="row">{head}</th>']
    for hour in range(24):
        cell = cells.get(hour)
        if cell is None:
            drawn.append('<td class="out"><span class="hidden-text">not counted</span></td>')
            continue
        told = f"{name}, {hour:02d}:00: {number_of(cell.launches, 'launch', 'launches')}"
        told += f", {number(cell.worst)} in the fullest second" if cell.launches else ""
        drawn.append(f'<td class="h{shades.level(cell.launches)}" title="{told}">{short(cell.launches)}</td>')
    total = sum(cell.launches for cell in cells.values())
    return "".join([*drawn, f'<td class="num" title="{number(total)}">{short(total)}</td></tr>'])


# The minutes of a day


def by_minute(buckets: Iterable[Bucket], zone: tzinfo) -> dict[int, Cell]:
    """By the number of the minute in its day."""
    found: dict[int, Cell] = {}
    for bucket in buckets:
        local: datetime = bucket.at.astimezone(zone)
        minute = local.hour * 60 + local.minute
        found[minute] = found.get(minute, Cell()).joined(bucket)
    return found


def minutes(cells: dict[int, Cell], shades: Shades, label: str) -> Markup:
    """A row an hour, sixty to each: what is always due on the full hour stands in one column. A table as well, but only
    because 1,440 cells of one are half as long as the same drawn: it is one picture, with its gist for a name."""
    rows = "".join(
        f"<tr><th>{hour:02d}{''.join(_stretch(hour, *found, shades) for found in _stretches(cells, hour))}"
        for hour in range(24)
    )
    quarters = "".join(f"<td colspan=15>:{minute:02d}" for minute in (0, 15, 30, 45))
    return Markup(
        f'<div role="img" aria-label="{escape(label)}"><table class="minutes"><tbody>{rows}'
        f"<tfoot><tr><td>{quarters}</table></div>"
    )


def _stretches(cells: dict[int, Cell], hour: int) -> Iterator[tuple[int, int, Cell]]:
    """The minutes of an hour, from one to another; neighbours with the same numbers are one."""
    for cell, group in groupby(range(60), lambda minute: cells.get(hour * 60 + minute, Cell())):
        found = list(group)
        yield found[0], found[-1], cell


def _stretch(hour: int, first: int, last: int, cell: Cell, shades: Shades) -> str:
    wide = f" colspan={last - first + 1}" if last > first else ""
    if not cell.launches:
        return f"<td{wide} class=h0>"
    until = f" to :{last:02d}, each" if last > first else ""
    told = f"{hour:02d}:{first:02d}{until} {number(cell.launches)}, {number(cell.worst)}/s"
    return f'<td{wide} class=h{shades.level(cell.launches)} title="{told}">'


def fullest(cells: dict[int, Cell], most: int) -> Sequence[tuple[int, Cell]]:
    """The minutes with the most launches, the earlier of equals first."""
    found = sorted(cells.items(), key=lambda each: (-each[1].launches, each[0]))
    return [each for each in found[:most] if each[1].launches]
