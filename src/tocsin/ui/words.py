"""Moments, durations, numbers and addresses, as pages show them.

A moment is written in UTC and marked up as one: a script on the page then shows it in the reader's own zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_NOTHING = "–"
_MOMENTS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z)")


def moment(value: datetime | int | None, zone: str = "", *, precise: bool = False) -> Markup:
    """A moment, or milliseconds since 1970. ``zone``: show it in that one rather than in the reader's."""
    if value is None:
        return Markup(_NOTHING)
    at = datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) else value.astimezone(UTC)
    shown = at.strftime("%Y-%m-%d %H:%M:%S") + (f".{at.microsecond // 1000:03d}" if precise else "")
    marks = Markup(' data-zone="{}"').format(zone) if zone else Markup("")
    marks += Markup(" data-precise") if precise else Markup("")
    return Markup('<time datetime="{}"{}>{} UTC</time>').format(
        at.isoformat(timespec="milliseconds"), marks, shown
    )


def ago(value: datetime | int | None) -> Markup:
    """How long ago, or in how long: a script keeps it true."""
    if value is None:
        return Markup(_NOTHING)
    return Markup(str(moment(value)).replace("<time ", "<time data-ago ", 1))


def prose(text: str) -> Markup:
    """A sentence of ours, in which moments stand in UTC: each is marked up as one."""
    parts = _MOMENTS.split(text)
    found = [
        moment(datetime.fromisoformat(part)) if at % 2 else escape(part) for at, part in enumerate(parts)
    ]
    return Markup("").join(found)


def duration(seconds: float | None) -> str:
    """In at most two units: 3 d 4 h, 12 min 5 s, 1.4 s, 20 ms."""
    if seconds is None:
        return _NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _STEPS:
        if left >= size or parts:
            parts.append(f"{left // size} {unit}")
            left %= size
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 "))


def number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}".replace(",", " ")


def number_of(count: int, one: str, many: str = "") -> str:
    """``1 launch``, ``2 launches``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def schedule_link(id: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(schedule_address(id), id)


def schedule_address(id: str, verb: str = "") -> str:
    return "/schedules/" + quote(id, safe="/@+") + (f":{verb}" if verb else "")


def launch_address(name: str, verb: str = "") -> str:
    return "/launches/" + quote(name, safe="/@+") + (f":{verb}" if verb else "")


def api_address(kind: str, name: str, verb: str = "") -> str:
    """Of a schedule or a launch in the API: what a button does goes there."""
    return f"/v1/{kind}/" + quote(name, safe="/@+") + (f":{verb}" if verb else "")


SIGNS = {
    "started": "▶",
    "running": "▶",
    "retrying": "↻",
    "queued": "…",
    "succeeded": "✓",
    "failed": "✕",
    "skipped": "–",
    "cancelled": "■",
    "in_doubt": "?",
    "missed": "∅",
}
"""Beside the colour, for whoever does not see it."""


def state(value: str) -> Markup:
    """A state of a launch, as a badge."""
    return Markup('<span class="state s-{}"><span aria-hidden="true">{}</span> {}</span>').format(
        value, SIGNS.get(value, "•"), value.replace("_", " ")
    )


FOR_TEMPLATES: dict[str, Callable[..., Any]] = {
    "moment": moment,
    "ago": ago,
    "prose": prose,
    "duration": duration,
    "number": number,
    "number_of": number_of,
    "schedule_link": schedule_link,
    "schedule_address": schedule_address,
    "launch_address": launch_address,
    "api_address": api_address,
    "state": state,
    "escape": escape,
}
