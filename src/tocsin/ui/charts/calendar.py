"""The days of half a year as squares, a week a column: how much was launched, and the worst that came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup, escape

from tocsin.ui.words import SIGNS, number, number_of

WEEKS = 26
_EPOCH = date(1970, 1, 1)
_STEP, _SIDE, _LEFT, _TOP = 18, 15, 32, 18
_WORST_FIRST = ("in_doubt", "failed", "missed", "skipped", "cancelled")
_OPEN = ("started", "running", "retrying", "queued")
_SHADES = ("0.45", "0.62", "0.8", "1")
_WEEKDAYS = ((0, "Mon"), (2, "Wed"), (4, "Fri"))


class Day(NamedTuple):
    """A day, and what became of its launches."""

    outcomes: Mapping[str, int]
    is_missed: bool = False
    """Occurrences of this day had nobody in office."""
    is_unseen: bool = False
    """There are launches, or more of them, that were not looked at."""

    @property
    def launches(self) -> int:
        return sum(self.outcomes.values())

    @property
    def worst(self) -> str:
        """What the square is coloured by; empty: there was nothing."""
        had = {state for state, number in self.outcomes.items() if number}
        if self.is_missed:
            had.add("missed")
        found = next((state for state in _WORST_FIRST if state in had), "")
        if found or self.is_unseen:
            return found or "unseen"
        return "open" if had & set(_OPEN) else "succeeded" if had else ""


def first_day_of(today: int) -> int:
    """The Monday that the calendar begins with."""
    monday = today - (today + 3) % 7
    return monday - 7 * (WEEKS - 1)


def date_of(day: int) -> date:
    return _EPOCH + timedelta(days=day)


@lru_cache(maxsize=1024)
def day_words(day: int) -> str:
    """``Tue 10 Nov``. Every page asks for the same few hundred."""
    at = date_of(day)
    return f"{at:%a} {at.day} {at:%b}"


def calendar(
    days: Mapping[int, Day], today: int, *, known_from: int, chosen: int | None, gist: str
) -> Markup:
    """``known_from``: of the days before it nothing is kept, or there was no such schedule."""
    first = first_day_of(today)
    most = max((each.launches for each in days.values()), default=0)
    squares = [
        _square(days.get(day), day, first, most, known=day >= known_from, ring=_ring(day, today, chosen))
        for day in range(first, today + 1)
    ]
    return Markup(
        f'<svg class="chart calendar" viewBox="0 0 {_LEFT + WEEKS * _STEP} {_TOP + 7 * _STEP}" role="group" '
        f'aria-label="{escape(gist)}" data-rove="">{_labels(first)}{"".join(squares)}</svg>'
    )


def told(day: Day | None, at: int, *, known: bool) -> str:
    """``Tue 10 Nov: 24 launches, 1 failed``."""
    when = day_words(at)
    if day is None or not day.worst:
        return f"{when}: no launches" if known else f"{when}: nothing is kept"
    parts = [number_of(day.launches, "launch", "launches")] if day.launches else []
    parts += [
        f"{number(day.outcomes[state])} {state.replace('_', ' ')}"
        for state in (*_WORST_FIRST, *_OPEN)
        if day.outcomes.get(state)
    ]
    if day.is_missed and not day.outcomes.get("missed"):
        parts.append("some missed: nothing was decided at that time")
    if day.is_unseen:
        parts.append("more that were not looked at" if parts else "launches that were not looked at")
    elif len(parts) == 1 and day.launches:
        parts.append("all succeeded")
    return f"{when}: {', '.join(parts)}"


def _square(day: Day | None, at: int, first: int, most: int, *, known: bool, ring: str) -> str:
    column, row = divmod(at - first, 7)
    x, y = _LEFT + column * _STEP, _TOP + row * _STEP
    title = f"<title>{escape(told(day, at, known=known))}</title>"
    kind = "" if day is None else day.worst
    if day is None or not kind:
        inset = 0 if known or ring else 5  # of a day with a dot nothing is known
        return f"<g>{title}{_rect(f's-none{ring}', x + inset, y + inset, _SIDE - 2 * inset)}</g>"
    is_trouble = kind in _WORST_FIRST
    shade = _SHADES[-1] if is_trouble else _shade(day.launches, most)  # a sign is to be read on it
    square = _rect(f"s-{kind}{ring}", x, y, _SIDE, f' fill-opacity="{shade}"')
    sign = f'<text class="sign" x="{x + _SIDE / 2}" y="{y + 11.5}">{SIGNS[kind]}</text>' if is_trouble else ""
    return f'<a href="?day={date_of(at).isoformat()}#timeline">{title}{square}{sign}</a>'


def _rect(kind: str, x: int, y: int, side: int, more: str = "") -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{side}" height="{side}" rx="3"{more}/>'


def _shade(launches: int, most: int) -> str:
    """The more, the fuller; what is rare is never so pale that it is overlooked."""
    return _SHADES[min(3, max(0, -(-4 * launches // max(1, most)) - 1))]


def _ring(day: int, today: int, chosen: int | None) -> str:
    return " chosen" if day == chosen else " today" if day == today else ""


def _labels(first: int) -> str:
    rows = (f'<text x="0" y="{_TOP + row * _STEP + 11.5}">{name}</text>' for row, name in _WEEKDAYS)
    columns = (
        f'<text x="{_LEFT + column * _STEP}" y="11">{month}</text>' for column, month in _months(first)
    )
    return f'<g aria-hidden="true">{"".join([*rows, *columns])}</g>'


def _months(first: int) -> Sequence[tuple[int, str]]:
    """The columns in which a month begins; not so near to each other that they would touch."""
    found: list[tuple[int, str]] = []
    for column in range(WEEKS):
        monday = date_of(first + 7 * column)
        if monday.day <= 7 or not column:
            if found and column - found[-1][0] < 2:
                found.pop()
            found.append((column, f"{monday:%b}"))
    return found
