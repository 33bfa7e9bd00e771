"""``timeline``: the launches of a schedule as bars, one below the other."""

from __future__ import annotations

import shutil
import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tocsin.cli import moments
from tocsin.cli.command import Id, Json, Limit, Url, ask
from tocsin.cli.printing import a_person_looks, print_json, say, tell_of_more
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchPage
    from tocsin.model.launch import LaunchView

_NARROWEST, _WIDEST, _PIPE_WIDTH, _BAR_MIN = 60, 200, 100, 16
_TICK = 16
"""So far apart are the times along the axis."""
_LAST = "24h"
_LETTERS = {
    "started": ">",
    "running": ">",
    "retrying": "R",
    "queued": "Q",
    "succeeded": "S",
    "failed": "F",
    "skipped": "-",
    "cancelled": "C",
    "in_doubt": "D",
}
_WAITS, _RUNS, _BOTH, _GOES_ON, _NEVER = "░", "█", "▓", "▶", "×"
_LEGEND = (
    (_WAITS, "late or waiting"),
    (_RUNS, "running"),
    (_BOTH, "beside another launch of it"),
    (_GOES_ON, "still open"),
    (_NEVER, "never started"),
)


class _Axis(NamedTuple):
    """The time that the bars are drawn in."""

    since: datetime
    until: datetime
    columns: int

    def place(self, at: datetime) -> int:
        share = (at - self.since) / (self.until - self.since)
        return max(0, min(self.columns - 1, int(share * self.columns)))


class _Bar(NamedTuple):
    """One launch: when it was to start, and from when to when it was under way."""

    view: LaunchView
    planned: datetime
    started: datetime | None
    ended: datetime
    """So far, if it is open."""
    is_open: bool


def timeline(
    id: Id,
    since: Annotated[
        str, typer.Option("--since", help=f"Occurrences from this moment on, {moments.HELP}.")
    ] = "",
    until: Annotated[
        str, typer.Option("--until", help="Occurrences before this moment; by default now.")
    ] = "",
    last: Annotated[
        str, typer.Option("--last", metavar="TIME", help=f"Only of so long ago: 6h, 7d. [dim]{_LAST}[/dim]")
    ] = "",
    limit: Limit = 50,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Draw the launches of a schedule as bars: planned, late, running, ended, and which ran beside each other.

    The oldest is at the top. A moment without an offset is meant in the zone of the schedule.

    Example: tocsin timeline billing/payroll --last 7d
    """
    page, begin, end = ask(url, lambda client: _asked(client, id, since, until, last, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        say("no launches in that time; --last 7d looks further back")
        return
    columns = shutil.get_terminal_size().columns if a_person_looks() else _PIPE_WIDTH
    print("\n".join(lines(id, page, begin, end, columns)))
    tell_of_more(page.cursor)


async def _asked(
    client: Client, id: str, since: str, until: str, last: str, limit: int
) -> tuple[LaunchPage, datetime, datetime]:
    from tocsin.cli.look.launches import collected
    from tocsin.cron import parse_duration
    from tocsin.model.ids import check_id

    check_id(id)  # an empty one would find the launches of all schedules
    if last and (since or until):
        raise InvalidInput(
            "it says the same as --since and --until", field="--last", value=last, allowed="one or the other"
        )
    length = timedelta(seconds=parse_duration(last or _LAST, field="--last"))
    now = datetime.now(UTC)
    end = await _moment(client, until, "until", id, now)
    begin = await _moment(client, since, "since", id, end - length)
    if begin >= end:
        raise InvalidInput(
            "the end is not after the beginning",
            field="--until" if until else "--since",
            value=until or since,
            allowed="a moment after --since",
        )
    page = await collected(client, id, [], moments.written(begin), moments.written(end), limit)
    if page.items and not (since or last):
        begin = max(begin, _bar(page.items[-1], now).planned)  # nobody asked for the empty time before
    return page, begin, min(end, now)


async def _moment(client: Client, text: str, field: str, schedule: str, otherwise: datetime) -> datetime:
    written = await moments.written_moment(client, text, field=field, schedule=schedule)
    return datetime.fromisoformat(written) if written else otherwise


def lines(id: str, page: LaunchPage, begin: datetime, end: datetime, columns: int) -> list[str]:
    """A title, an axis, a bar for each launch, and what the signs mean."""
    from tocsin.cli.present import TITLE, moment, painted, printable, short_moment, zone_title

    now = datetime.now(UTC)
    bars = [_bar(view, now) for view in reversed(page.items)]
    # What is left out for want of room leaves no empty stretch, and a launch may have ended after the end.
    begin = bars[0].planned if page.cursor else min(begin, bars[0].planned)
    end = max([end, begin + timedelta(seconds=1), *(bar.ended for bar in bars)])
    head = (zone_title("PLANNED", (bar.planned for bar in bars)), "LATE", "TOOK")
    cells = [(short_moment(bar.planned), _late(bar.view), _took(bar)) for bar in bars]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    room = max(_NARROWEST, min(_WIDEST, columns))
    axis = _Axis(begin, end, max(_BAR_MIN, room - sum(widths) - 2 * len(widths) - 5))
    drawn = [_drawn(bar, axis, bars) for bar in bars]
    told = [
        painted(printable(id), TITLE),
        f"{moment(begin)} to {moment(end)}",
        painted(f"   {_row(head, widths)}  |{_ticks(axis)}|", TITLE),
    ]
    for bar, line, row in zip(bars, drawn, cells, strict=True):
        letter = painted(_LETTERS.get(bar.view.state, "?"), bar.view.state)
        told.append(f"{letter}  {_row(row, widths)}  |{painted(line, bar.view.state)}|")
    return [*told, *_legend(bars, "".join(drawn), room)]


def _bar(view: LaunchView, now: datetime) -> _Bar:
    planned = view.planned_at or view.started_at or view.scheduled_at
    is_open = view.ended_at is None
    started = view.started_at
    ended = view.ended_at or now
    return _Bar(view, min(planned, started or planned), started, max(ended, started or planned), is_open)


def _drawn(bar: _Bar, axis: _Axis, bars: list[_Bar]) -> str:
    """A line as wide as the axis. Something is always more than nothing: even a short launch has a place."""
    cells = [" "] * axis.columns
    begin, end = axis.place(bar.planned), axis.place(bar.ended)
    if bar.started is None:
        if bar.is_open:  # in line
            cells[begin : end + 1] = _WAITS * (end + 1 - begin)
        else:
            cells[begin] = _NEVER
        return "".join(cells)
    start = axis.place(bar.started)
    cells[begin:start] = _WAITS * (start - begin)
    cells[start : end + 1] = _RUNS * (end + 1 - start)
    for since, until in _beside(bar, bars):
        first, last = axis.place(since), axis.place(until)
        cells[first : last + 1] = _BOTH * (last + 1 - first)
    if bar.is_open and end > start:
        cells[end] = _GOES_ON
    return "".join(cells)


def _beside(bar: _Bar, bars: list[_Bar]) -> list[tuple[datetime, datetime]]:
    """When another launch of the schedule was under way at the same time."""
    found = []
    for other in bars:
        if other is not bar and other.started is not None and bar.started is not None:
            since, until = max(bar.started, other.started), min(bar.ended, other.ended)
            if since < until:
                found.append((since, until))
    return found


def _ticks(axis: _Axis) -> str:
    """Times along the axis, as far as they fit."""
    length = axis.until - axis.since
    form = (
        "%H:%M:%S" if length < timedelta(minutes=10) else "%H:%M" if length < timedelta(days=2) else "%m-%d"
    )
    count = max(1, axis.columns // _TICK)
    text = ""
    for number in range(count):
        at = axis.since + length * number / count
        text = f"{text:<{axis.place(at)}}{at.astimezone():{form}}"
    return f"{text[: axis.columns]:<{axis.columns}}"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    when, *numbers = cells
    rest = (f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:], strict=True))
    return "  ".join([f"{when:<{widths[0]}}", *rest])


def _late(view: LaunchView) -> str:
    return "" if view.lateness_ms is None else _span(view.lateness_ms / 1000)


def _took(bar: _Bar) -> str:
    if bar.started is None:
        return ""
    return _span((bar.ended - bar.started).total_seconds()) + ("+" if bar.is_open else "")


def _span(seconds: float) -> str:
    from tocsin.cli.present import coarse
    from tocsin.cron import format_duration

    return f"{seconds:.2f}s" if seconds < 60 else format_duration(coarse(round(seconds)))


def _legend(bars: list[_Bar], drawn: str, room: int) -> list[str]:
    """What the letters and signs stand for, as far as there are any."""
    states = dict.fromkeys(bar.view.state for bar in bars)
    told = [f"{_LETTERS.get(state, '?')} {state.replace('_', ' ')}" for state in states]
    told += [f"{sign} {meaning}" for sign, meaning in _LEGEND if sign in drawn]
    return textwrap.wrap(", ".join(told), room)
