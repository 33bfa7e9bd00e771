"""Tables and times, for people. Colours and fitting to the window only when a person looks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tocsin.cli.command import a_person_looks

_COLORS = {
    "succeeded": "green",
    "running": "cyan",
    "started": "cyan",
    "queued": "cyan",
    "retrying": "yellow",
    "failed": "red",
    "in_doubt": "red",
    "skipped": "yellow",
    "cancelled": "yellow",
    "paused": "yellow",
    "enabled": "green",
    "done": "dim",
    "created": "green",
    "updated": "cyan",
    "unchanged": "dim",
    "environment": "dim",
    "suspicious": "red",
    "refused": "red",
}
_WIDE = 100_000
_ROOMY = 140


class Column(NamedTuple):
    """A title, and whether cells may be cut where there is no room. No cell is ever cut in a pipe."""

    title: str
    may_be_cut: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """A table in the window, or plain lines of all there is in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    looks = a_person_looks()
    console = Console() if looks else Console(width=_WIDE, color_system=None)
    gap = 1 if is_narrow() else 2
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        # To rich, a column that may wrap is one that may be made narrower. Its cells then say that they do not wrap.
        cuts = looks and column.may_be_cut
        grid.add_column(column.title, overflow="ellipsis" if cuts else "fold", no_wrap=not cuts)
    for row in rows:
        grid.add_row(*(Text(printable(cell), style=_COLORS.get(cell, ""), no_wrap=True) for cell in row))
    console.print(grid)


def is_narrow() -> bool:
    """Is it a window in which not everything has room?"""
    return a_person_looks() and shutil.get_terminal_size().columns < _ROOMY


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name:<{width}}  {printable(value)}")


def printable(text: str) -> str:
    """What others wrote cannot speak to the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(at: datetime | None, zone: str = "", *, weekday: bool = False) -> str:
    """In the viewer's zone; with the schedule's own time beside it where that differs."""
    if at is None:
        return "-"
    form = "%a %Y-%m-%d %H:%M:%S" if weekday else "%Y-%m-%d %H:%M:%S"
    local = at.astimezone()
    text = f"{local:{form}} {local.tzname()}"
    if zone:
        there = at.astimezone(ZoneInfo(zone))
        if there.utcoffset() != local.utcoffset():
            text += f" ({there:{form}} {zone})"
    return text


def short_moment(at: datetime | None) -> str:
    """In the viewer's zone, which ``zone_title`` names; of today only the time."""
    if at is None:
        return "-"
    now, local = datetime.now().astimezone(), at.astimezone()
    form = "%H:%M:%S"
    if local.date() != now.date():
        form = "%m-%d %H:%M:%S" if local.year == now.year else "%Y-%m-%d %H:%M"
    return f"{local:{form}}"


def zone_title(title: str, moments: Iterable[datetime | None]) -> str:
    """The title of a column of short moments. Over a year a zone has two names: EST/EDT."""
    names = {at.astimezone().tzname() or "" for at in moments if at is not None}
    return f"{title} ({'/'.join(sorted(names))})" if names else title


def away(at: datetime | None) -> str:
    """How far it is from now, in words."""
    if at is None:
        return ""
    from tocsin.cron import format_duration

    seconds = round((at - datetime.now(UTC)).total_seconds())
    if seconds == 0:
        return "now"
    length = _coarse(abs(seconds))
    return f"in {format_duration(length)}" if seconds > 0 else f"{format_duration(length)} ago"


def _coarse(seconds: int) -> int:
    """Nobody needs the seconds of a month."""
    for length, unit in ((14 * 86_400, 86_400), (2 * 86_400, 3_600), (2 * 3_600, 60)):
        if seconds > length:
            return seconds // unit * unit
    return seconds
