"""Stacked bars over time: what happened stands on the line, what went wrong hangs below it, what is to come goes on
behind a line that says now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from markupsafe import Markup, escape

from tocsin.ui.charts.scale import Heights, Times, short

HEIGHT = 250
_TOP, _LINE, _BELOW = 26, 180, 44
_WORDS_Y = HEIGHT - 6
_SLIM = 0.82
"""So much of its room a bar takes."""


class Part(NamedTuple):
    """One colour of a bar: the class that it has, and how many."""

    kind: str
    number: float


class Bar(NamedTuple):
    """A stretch of time, and what is told about it when it is pointed at."""

    from_ms: int
    to_ms: int
    title: str
    above: Sequence[Part]
    below: Sequence[Part] = ()

    @property
    def height(self) -> float:
        return sum(part.number for part in self.above)

    @property
    def depth(self) -> float:
        return sum(part.number for part in self.below)


class Now(NamedTuple):
    """Where the past ends. ``words`` stand in what is to come, such as that it is being counted."""

    at_ms: int
    words: str = ""


def stacked(bars: Sequence[Bar], times: Times, zone: tzinfo, *, label: str, now: Now) -> Markup:
    """The chart. It is always of the same height, also while a part of it is missing."""
    up = Heights.of(max((bar.height for bar in bars), default=0), _LINE - _TOP)
    down = Heights.of(max((bar.depth for bar in bars), default=0), _BELOW - 8)
    drawn = [
        f'<svg class="bars" role="img" aria-label="{escape(label)}" width="100%" height="{HEIGHT}">',
        *_future(times, now),
        *_lines(up),
        *(_bar(bar, times, up, down) for bar in bars),
        f'<line class="ground" x1="0" x2="100%" y1="{_LINE}" y2="{_LINE}"/>',
        *_times(times, zone),
        *_now(times, now),
        "</svg>",
    ]
    return Markup("".join(drawn))


def _bar(bar: Bar, times: Times, up: Heights, down: Heights) -> str:
    width = times.width(bar.to_ms - bar.from_ms)
    x = times.place(bar.from_ms)
    place = f'x="{x + width * (1 - _SLIM) / 2:.3f}%" width="{width * _SLIM:.3f}%"'
    drawn = [f'<g><title>{escape(bar.title)}</title><rect class="hit" x="{x:.3f}%" width="{width:.3f}%" ']
    drawn.append(f'y="{_TOP}" height="{_LINE + _BELOW - _TOP}"/>')
    y = float(_LINE)
    for part in bar.above:
        if part.number > 0:
            height = up.height(part.number)
            y -= height
            drawn.append(f'<rect class="s-{part.kind}" {place} y="{y:.1f}" height="{height:.1f}"/>')
    y = _LINE + 1.0
    for part in bar.below:
        if part.number > 0:
            height = max(4.0, down.height(part.number))
            drawn.append(f'<rect class="s-{part.kind}" {place} y="{y:.1f}" height="{height:.1f}"/>')
            y += height
    return "".join([*drawn, "</g>"])


def _lines(up: Heights) -> list[str]:
    drawn = []
    for value in up.lines():
        y = _LINE - up.height(value)
        drawn.append(f'<line class="axis" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="2" y="{y - 3:.1f}">{short(value)}</text>')
    return drawn


def _times(times: Times, zone: tzinfo) -> list[str]:
    drawn = []
    for tick in times.ticks(zone):
        x = times.place(tick.at_ms)
        drawn.append(
            f'<line class="axis" x1="{x:.2f}%" x2="{x:.2f}%" y1="{_LINE}" y2="{_LINE + _BELOW + 4}"/>'
        )
        if 2 < x < 97:
            minor = " minor" if tick.is_minor else ""
            drawn.append(f'<text class="tick{minor}" x="{x:.2f}%" y="{_WORDS_Y}">{escape(tick.words)}</text>')
    return drawn


def _future(times: Times, now: Now) -> list[str]:
    x = times.place(now.at_ms)
    drawn = [f'<rect class="to-come" x="{x:.3f}%" width="{100 - x:.3f}%" y="0" height="{_LINE}"/>']
    if now.words:
        drawn.append(
            f'<text class="tick" x="{(x + 100) / 2:.2f}%" y="{(_TOP + _LINE) // 2}">{escape(now.words)}</text>'
        )
    return drawn


def _now(times: Times, now: Now) -> list[str]:
    x = times.place(now.at_ms)
    return [
        f'<line class="mark" x1="{x:.3f}%" x2="{x:.3f}%" y1="0" y2="{_LINE + _BELOW}"/>',
        f'<text class="now" x="{x:.3f}%" dx="4" y="12">now</text>',
    ]
