"""What was probably meant: the second half of every refusal."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.cron.fields import Kind

NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_NOTHING_FOLLOWS = "the schedule ends behind the weekday: no command and no comment may follow"


def junk(kind: Kind, item: str) -> str:
    """Why an item has no known shape; each line is a habit from another cron or a frequent slip."""
    if not item:
        return "remove the stray comma, or write *"
    if item.startswith("/"):
        return f"write */{item[1:] or 'n'}" if item[1:].isdigit() or item == "/" else _NOTHING_FOLLOWS
    if item.endswith("/"):
        return "a number must follow the slash, such as */5"
    if ".." in item:
        return "write a range with one hyphen: 1-5"
    if item.startswith("#"):
        return _NOTHING_FOLLOWS
    if item.startswith("-") or item.endswith("-"):
        return "a range needs both ends: 1-5"
    if re.fullmatch(r"\*[0-9]+", item):
        return f"write */{item[1:]} for every {item[1:]}th"
    if item.startswith("+"):
        return "+ may only stand at the beginning of the weekday"
    if item.startswith("H("):
        return f"Jenkins' H is written ?: {item.replace('H', '?', 1)}"
    if any(letter in item.upper() for letter in "LW#"):
        return special(kind)
    return ""


def special(kind: Kind) -> str:
    if kind.name == "day":
        return "in the day, L, L-3, LW and 15W stand alone or in a list; v#n and vL belong to the weekday"
    if kind.name == "weekday":
        return "in the weekday, 5#2 and 5L stand alone or in a list; W belongs to the day"
    return "L, W and # belong to the day and the weekday"


def name(kind: Kind, text: str) -> str:
    if text == "H":
        return "Jenkins' H is written ?"
    if kind.name == "weekday" and text == "L":
        return "write SATL for the last Saturday of the month, or SAT for every Saturday"
    if text in ("L", "LW", "LL"):
        return special(kind)
    near = get_close_matches(text, kind.names, n=1, cutoff=0.5) or [
        n for n in kind.names if text.startswith(n)
    ]
    if near:
        return f"did you mean {near[0]}?"
    return "" if kind.names else "names stand only in the month and the weekday"


def out_of_range(kind: Kind, value: int) -> str:
    if (kind.name, value) in (("hour", 24), ("minute", 60), ("second", 60)):
        return f"the first {kind.name} is 0"
    if kind.name in ("day", "month") and value == 0:
        return f"the first {kind.name} is 1"
    if kind.name == "weekday":
        return "Sunday is 0 or 7"
    return ""


def backwards(kind: Kind, start: str, end: str) -> str:
    if kind.names and not start.isdigit():
        last, first = ("SUN", "SUN") if kind.name == "weekday" else (kind.names[-1], kind.names[0])
    else:
        last, first = str(kind.high), str(kind.low)
    return f"a range does not wrap around: write {start}-{last},{first}-{end}"


def nickname(word: str) -> str:
    known = [*NICKNAMES, "@every", "@at"]
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def word_count(count: int) -> str:
    if count == 7:
        return "a year field is not supported: leave it out, or use @at for a single run"
    if count > 7:
        return "no command and no comment may follow the schedule"
    return "for example 30 9 * * MON-FRI"
