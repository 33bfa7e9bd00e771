"""Tables and times, for people. Colours and fitting to the window only when a person looks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

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
}
_WIDE = 100_000


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table in the window, or plain lines of all there is in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    looks = sys.stdout.isatty()
    console = Console() if looks else Console(width=_WIDE, color_system=None)
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for place, column in enumerate(columns):
        # The first column names the thing: it is what people copy, so it stays in one piece.
        grid.add_column(column, overflow="fold" if looks else "ignore", no_wrap=not looks or place == 0)
    for row in rows:
        grid.add_row(*(Text(printable(cell), style=_COLORS.get(cell, "")) for cell in row))
    console.print(grid)


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name:<{width}}  {printable(value)}")


def printable(text: str) -> str:
    """What others wrote cannot speak to the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(at: datetime | None, zone: str = "") -> str:
    """In the viewer's zone; with the schedule's own time beside it where that differs."""
    if at is None:
        return "-"
    local = at.astimezone()
    text = f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}"
    if zone:
        there = at.astimezone(ZoneInfo(zone))
        if there.utcoffset() != local.utcoffset():
            text += f" ({there:%Y-%m-%d %H:%M:%S} {zone})"
    return text


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
