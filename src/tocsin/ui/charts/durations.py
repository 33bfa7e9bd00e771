"""How long launches took, over the time, with the half and the tail of them as lines.

What ended well is a dot; what did not has a shape of its own. Where some took very much longer than most, the scale
is logarithmic, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from markupsafe import Markup, escape

from tocsin.cron.zones import Zone
from tocsin.ui.words import duration

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 46, 10, 24
_SPREAD = 40
"""Beyond this, between the longest and the middle one, a straight scale would show a flat line."""
_NICE_S = tuple(
    base * scale
    for scale, bases in (
        (0.001, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1, (1, 2, 5, 10, 15, 30)),
        (60, (1, 2, 5, 10, 15, 30)),
        (3600, (1, 2, 3, 6, 12)),
        (86_400, (1, 2, 5, 10, 20, 50, 100)),
    )
    for base in bases
)
_SHAPES = {
    "failed": "M-4-4 4 4M-4 4 4-4",
    "in_doubt": "M0-5 5 0 0 5-5 0Z",
    "cancelled": "M-3.5-3.5h7v7h-7Z",
    "skipped": "M-4 0h8",
}
_RADIUS = 3.5


class Point(NamedTuple):
    """A launch, and what is told of it."""

    words: str
    href: str
    state: str
    at_ms: int
    took_ms: int
    is_open: bool = False


def percentile(values: Sequence[int], percent: int) -> int | None:
    """The least value that so many of a hundred do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def is_log(points: Sequence[Point]) -> bool:
    """Does one of them take so much longer than most?"""
    middle = percentile([point.took_ms for point in points if not point.is_open], 50)
    return max(max(1, point.took_ms) for point in points) > _SPREAD * max(1, middle or 0)


def durations(points: Sequence[Point], zone: Zone, *, gist: str) -> Markup:
    """The lines are of what has ended."""
    ended = [point.took_ms for point in points if not point.is_open]
    p50, p95 = percentile(ended, 50), percentile(ended, 95)
    scale = _Scale(points)
    upper = None if p95 is None else scale.y(p95)
    return Markup(
        f'<svg class="chart durations" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{escape(gist)}" '
        f'data-rove="">{_axes(scale, zone)}{_line(p50, "p50", scale, upper)}'
        f"{_line(p95, 'p95', scale, None) if p95 != p50 else ''}"
        f"{''.join(_point(point, scale) for point in points)}</svg>"
    )


class _Scale:
    def __init__(self, points: Sequence[Point]) -> None:
        self.first_ms = min(point.at_ms for point in points)
        self.last_ms = max(point.at_ms for point in points)
        took = [max(1, point.took_ms) for point in points]
        self.is_log = is_log(points)
        self.low_ms = min(took) / 1.3 if self.is_log else 0.0
        self.high_ms = max(took) * (1.3 if self.is_log else 1.08)

    def x(self, at_ms: int) -> float:
        whole = self.last_ms - self.first_ms
        part = 0.5 if not whole else (at_ms - self.first_ms) / whole
        return _LEFT + 6 + part * (WIDTH - _LEFT - _RIGHT - 12)

    def y(self, took_ms: float) -> float:
        if self.is_log:
            part = math.log(max(took_ms, self.low_ms) / self.low_ms) / math.log(self.high_ms / self.low_ms)
        else:
            part = took_ms / self.high_ms
        return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)

    def ticks_s(self) -> list[float]:
        """Round durations, about four of them."""
        low_s, high_s = self.low_ms / 1000, self.high_ms / 1000
        if self.is_log:
            found = [nice for nice in _NICE_S if low_s <= nice <= high_s]
            return found[:: max(1, -(-len(found) // 5))]
        step = next((nice for nice in _NICE_S if high_s / nice <= 4.5), high_s / 4)
        return [step * number for number in range(int(high_s / step) + 1)]


def _axes(scale: _Scale, zone: Zone) -> str:
    parts = []
    for tick_s in scale.ticks_s():
        y = scale.y(tick_s * 1000)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{_tick(tick_s)}</text>')
    moments = sorted({scale.first_ms, (scale.first_ms + scale.last_ms) // 2, scale.last_ms})
    is_short = scale.last_ms - scale.first_ms < 2 * 86_400_000
    anchors = ("", "middle", "end") if len(moments) == 3 else ("middle",)
    for at_ms, anchor in zip(moments, anchors, strict=False):
        at = datetime.fromtimestamp(at_ms / 1000 + zone.segment(at_ms // 1000).offset, UTC)
        words = f"{at:%a} {at:%H:%M:%S}" if is_short else f"{at.day} {at:%b} {at:%H:%M}"
        parts.append(f'<text x="{scale.x(at_ms):.1f}" y="{HEIGHT - 6}" class="{anchor}">{words}</text>')
    return f'<g aria-hidden="true">{"".join(parts)}</g>'


def _tick(tick_s: float) -> str:
    return duration(tick_s).replace(".0 ", " ") if tick_s else "0"


def _line(value_ms: int | None, name: str, scale: _Scale, upper_y: float | None) -> str:
    if value_ms is None:
        return ""
    y = scale.y(value_ms)
    # Where the two lines are near each other their names would lie on one another.
    text_y = y + 4 if upper_y is None or upper_y == y else max(y + 4, upper_y + 16)
    return (
        f'<g aria-hidden="true"><line class="{name}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{WIDTH - _RIGHT + 5}" y="{text_y:.1f}">{name}</text></g>'
    )


def _point(point: Point, scale: _Scale) -> str:
    kind = "open" if point.is_open else point.state
    x, y = scale.x(point.at_ms), scale.y(max(1, point.took_ms))
    shape = _SHAPES.get(kind)
    if shape is None:
        drawn = f'<circle class="p-{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>'
    else:
        drawn = f'<path class="p-{kind}" transform="translate({x:.1f} {y:.1f})" d="{shape}"/>'
    return f'<a href="{escape(point.href)}"><title>{escape(point.words)}</title>{drawn}</a>'
