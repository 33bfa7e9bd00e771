"""Tables and times, for people. Colours and fitting to the window only when a person looks."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tocsin.cli.printing import a_person_looks

_GREEN, _CYAN, _YELLOW, _RED, _DIM, _BOLD = "32", "36", "33", "31", "2", "1"
_COLORS = {
    "succeeded": _GREEN,
    "running": _CYAN,
    "started": _CYAN,
    "queued": _CYAN,
    "retrying": _YELLOW,
    "failed": _RED,
    "in_doubt": _RED,
    "skipped": _YELLOW,
    "cancelled": _YELLOW,
    "paused": _YELLOW,
    "enabled": _GREEN,
    "done": _DIM,
    "created": _GREEN,
    "updated": _CYAN,
    "unchanged": _DIM,
    "environment": _DIM,
    "suspicious": _RED,
    "refused": _RED,
}
TITLE = "title"
"""Painted as this, it stands out."""
_PAINT = re.compile(r"(\x1b\[[0-9;]*m)")
_ROOMY = 140
_NARROWEST = 4


class Column(NamedTuple):
    """A title, and whether cells may be cut where there is no room. No cell is ever cut in a pipe."""

    title: str
    may_be_cut: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """A table in the window, or plain lines of all there is in a pipe.

    By hand, because there may be a million rows: a library that lays out every cell takes half a minute for them.
    """
    looks = a_person_looks()
    cells = [[printable(cell) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(width, texts)) for texts in zip(titles, *cells, strict=True)]
    gap = " " if is_narrow() else "  "
    if looks:
        room = shutil.get_terminal_size().columns - len(gap) * (len(columns) - 1)
        widths = _fitted(widths, columns, room)
    colours = looks and is_colourful()
    lines = [_line(titles, widths, gap, dict.fromkeys(titles, _BOLD) if colours else {})]
    lines += [_line(row, widths, gap, _COLORS if colours else {}) for row in cells]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _line(cells: Sequence[str], widths: Sequence[int], gap: str, styles: Mapping[str, str]) -> str:
    """Cells of these widths; behind the last one there is nothing."""
    parts = []
    for cell, room in zip(cells, widths, strict=True):
        text = _cut(cell, room)
        style = styles.get(cell)
        shown = f"\x1b[{style}m{text}\x1b[0m" if style and text else text
        parts.append(shown + " " * (room - width(text)))
    return gap.join(parts).rstrip()


def _fitted(widths: Sequence[int], columns: Sequence[Column], room: int) -> list[int]:
    """Narrower where a column may be cut, the widest first. What still does not fit is folded by the terminal."""
    found = list(widths)
    may_be_cut = [at for at, column in enumerate(columns) if column.may_be_cut]
    excess = sum(found) - room
    while excess > 0 and may_be_cut:
        widest = max(may_be_cut, key=lambda at: found[at])
        if found[widest] <= _NARROWEST:
            break
        others = [found[at] for at in may_be_cut if at != widest]
        step = min(excess, max(1, found[widest] - max([_NARROWEST, *others])))
        found[widest] -= step
        excess -= step
    return found


def _cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    while text and width(text) >= room:
        text = text[:-1]
    return f"{text}…"


def width(text: str) -> int:
    """In columns of a terminal: a letter of East Asia takes two, an accent that joins the one before it none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def is_colourful() -> bool:
    """Does the person want colours, and can the terminal show them?"""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_narrow() -> bool:
    """Is it a window in which not everything has room?"""
    return a_person_looks() and shutil.get_terminal_size().columns < _ROOMY


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name:<{width}}  {printable(value)}")


def painted(text: str, state: str) -> str:
    """In the colour of that state, where a person looks and wants colours."""
    style = _BOLD if state == TITLE else _COLORS.get(state)
    if not style or not text.strip() or not a_person_looks() or not is_colourful():
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def clipped(text: str, room: int) -> str:
    """A line with colours in it, cut where the window ends."""
    if width(plain(text)) <= room:
        return text
    kept, left = "", len(_cut(plain(text), room)) - 1
    for part in _PAINT.split(text):
        if part.startswith("\x1b"):
            kept += part
        else:
            kept, left = kept + part[:left], max(0, left - len(part))
    return f"{kept}…"


def plain(text: str) -> str:
    """Without its colours."""
    return _PAINT.sub("", text)


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
    length = coarse(abs(seconds))
    return f"in {format_duration(length)}" if seconds > 0 else f"{format_duration(length)} ago"


def coarse(seconds: int) -> int:
    """Nobody needs the seconds of a month."""
    for length, unit in ((14 * 86_400, 86_400), (2 * 86_400, 3_600), (2 * 3_600, 60)):
        if seconds > length:
            return seconds // unit * unit
    return seconds
