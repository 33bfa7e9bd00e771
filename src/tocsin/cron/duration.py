"""Durations as people write them: ``1h30m``. Whole seconds, never a fraction."""

from __future__ import annotations

import re

from tocsin.errors import InvalidSchedule

UNIT_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

# A century. Anything longer is a slip of the keyboard, and a bound keeps sums inside the calendar.
DURATION_MAX_S = 36_500 * 86_400

_ALLOWED = "whole numbers with the units w, d, h, m, s, largest first, 1s to 36500d, such as 1h30m"
_SHAPE = re.compile("".join(rf"(?:([0-9]{{1,12}}){unit})?" for unit in UNIT_SECONDS))


def parse_duration(text: str, *, field: str = "duration") -> int:
    """Return the seconds that ``text`` stands for; ``field`` is the name an error carries."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text:
        raise _refused(text, field, f"{_shown(text)} is not a duration", _what_was_meant(text))
    total_s = sum(
        int(count) * size for count, size in zip(shape.groups(), UNIT_SECONDS.values(), strict=True) if count
    )
    if total_s < 1:
        raise _refused(text, field, f"{_shown(text)} is shorter than a second", "the shortest duration is 1s")
    if total_s > DURATION_MAX_S:
        raise _refused(text, field, f"{_shown(text)} is longer than a century", "the longest is 36500d")
    return total_s


def format_duration(seconds: int) -> str:
    """The shortest text that ``parse_duration`` reads back as ``seconds``: 5400 gives ``1h30m``."""
    if seconds < 1:
        return "0s"
    parts = []
    for unit, size in UNIT_SECONDS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _refused(text: str, field: str, message: str, hint: str) -> InvalidSchedule:
    return InvalidSchedule(message, field=field, value=text, allowed=_ALLOWED, hint=hint)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _what_was_meant(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,12}", text):
        return f"a unit is missing: {text}s is {text} seconds"
    if text.endswith("ms"):
        return "a duration is counted in whole seconds"
    if re.search(r"[0-9][.,][0-9]", text):
        return "write whole numbers: 1.5h is 1h30m"
    if text != text.lower() and _SHAPE.fullmatch(text.lower()):
        return f"units are lower case: {text.lower()}"
    pairs = re.findall(r"([0-9]{1,12})([wdhms])", text)
    if pairs and "".join(map("".join, pairs)) == text:
        return "name each unit once, the largest first: 1h30m"
    return "for example 45s, 5m, 1h30m or 2d"
