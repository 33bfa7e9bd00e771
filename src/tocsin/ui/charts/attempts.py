"""A launch as a bar: how long it waited, and each attempt beside the next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup

from tocsin.model.answer import LaunchDetail
from tocsin.ui.words import duration

_WIDTH = 1000.0
_HEIGHT = 14
_LEAST = 3.0
"""So wide is a bar at least: what took no time to speak of is seen, too."""


class _Bar(NamedTuple):
    kind: str
    words: str
    from_ms: int
    until_ms: int


def attempts_chart(launch: LaunchDetail, now_ms: int) -> Markup:
    """Empty where there is nothing to compare."""
    bars = list(_bars(launch, now_ms))
    if len(bars) < 2:
        return Markup("")
    begin, end = bars[0].from_ms, max(bar.until_ms for bar in bars)
    scale = _WIDTH / max(1, end - begin)
    drawn = Markup("").join(_drawn(bar, begin, scale) for bar in bars)
    gist = "; ".join(bar.words for bar in bars)
    return Markup(
        '<svg class="chart attempts" viewBox="0 0 {:.0f} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        "{}</svg>"
    ).format(_WIDTH, _HEIGHT, gist, drawn)


def _bars(launch: LaunchDetail, now_ms: int) -> Iterator[_Bar]:
    if launch.started_at is None:
        return
    planned, started = launch.planned_at, _ms(launch.started_at)
    if planned is not None and _ms(planned) < started:
        yield _Bar("late", f"late by {_lasted(_ms(planned), started)}", _ms(planned), started)
    begins = started
    for former in launch.attempts:
        begins = begins if former.started_at is None else _ms(former.started_at)
        words = f"attempt {former.attempt} took {_lasted(begins, _ms(former.ended_at))}"
        yield _Bar("failed", words, begins, _ms(former.ended_at))
    last = _last(launch, now_ms)
    if last is not None:
        yield last


def _last(launch: LaunchDetail, now_ms: int) -> _Bar | None:
    """The attempt that is not among the former ones, if it has begun."""
    if any(former.attempt == launch.attempt for former in launch.attempts):
        return None
    began = next(
        (step.at for step in launch.steps if step.step == "started" and step.attempt == launch.attempt), None
    )
    if began is None:
        return None
    until = now_ms if launch.ended_at is None else _ms(launch.ended_at)
    lasted = _lasted(_ms(began), until)
    is_open = launch.ended_at is None
    verb = "has been going on for" if is_open else "took"
    words = f"attempt {launch.attempt} {verb} {lasted}"
    return _Bar("open" if is_open else launch.state, words, _ms(began), max(until, _ms(began)))


def _drawn(bar: _Bar, begin: int, scale: float) -> Markup:
    width = max(_LEAST, (bar.until_ms - bar.from_ms) * scale - 1)
    left = min((bar.from_ms - begin) * scale, _WIDTH - width)
    return Markup(
        '<rect class="s-{}" x="{:.1f}" y="0" width="{:.1f}" height="{}"><title>{}</title></rect>'
    ).format(bar.kind, left, width, _HEIGHT, bar.words)


def _lasted(from_ms: int, until_ms: int) -> str:
    return duration(max(0, until_ms - from_ms) / 1000)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
