"""From text to rule: the grammar's first line."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tocsin.cron import hints
from tocsin.cron.clock import Clock
from tocsin.cron.dates import DatePattern
from tocsin.cron.duration import parse_duration
from tocsin.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, field
from tocsin.cron.instants import parse_instant, text_of, unix_of
from tocsin.cron.interval import Every, Once
from tocsin.cron.recurrence import Recurrence, Rule
from tocsin.cron.settle import settle
from tocsin.cron.zones import UNIX_MAX, Zone, zone
from tocsin.errors import InvalidSchedule

TEXT_LENGTH_MAX = 1000
_MOMENT = re.compile(r"@at [0-9]{1,12}")
_ALLOWED = "5 fields (minute hour day month weekday), 6 (with seconds first), a nickname, @every or @at"
NICKNAMES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class Reading(NamedTuple):
    """What a text says: its rule, its zone, the settled text, and the six settled words of a cron text."""

    rule: Rule
    zone: Zone
    resolved: str
    words: tuple[str, ...]


def read(text: str, timezone: str, identity: str, anchor: datetime | None) -> Reading:
    # How a program writes it:
    if text[:4] == "@at " and _MOMENT.fullmatch(text) and (unix := int(text[4:])) <= UNIX_MAX:
        return Reading(Once(unix), zone(timezone), text, ())
    words = _words(text)
    prefix, words, where = _zone_prefix(text, words, timezone)
    if words[0].startswith("@"):
        return _read_at_word(text, prefix, words, where, anchor)
    if len(words) not in (5, 6):
        count = "1 word is" if len(words) == 1 else f"{len(words)} words are"
        raise _refused(text, f"{count} not a schedule", hints.word_count(len(words)))
    six = words if len(words) == 6 else ["0", *words]
    if "?" in text or "~" in text:
        six = settle(six, identity)
        words = six[6 - len(words) :]
    resolved = " ".join([*prefix, *words] if prefix else words)
    return Reading(_recurrence(six, where), where, resolved, tuple(six))


def _words(text: str) -> list[str]:
    if len(text) > TEXT_LENGTH_MAX:
        raise _refused(text, f"the text has {len(text)} characters", f"at most {TEXT_LENGTH_MAX} are read")
    if not text.isprintable():
        strange = next((letter for letter in text if letter != "\t" and not letter.isprintable()), None)
        if strange is not None:
            raise _refused(text, f"the text contains {strange!r}", "separate the fields with blanks or tabs")
    words = text.split()
    if not words:
        raise _refused(text, "the text is empty", hints.word_count(0))
    return words


def _zone_prefix(text: str, words: list[str], timezone: str) -> tuple[list[str], list[str], Zone]:
    """Split off ``CRON_TZ=``; "UTC" is also what a caller without a wish passes, so it never contradicts."""
    if not words[0].startswith(("CRON_TZ=", "TZ=")):
        return [], words, zone(timezone)
    written = words[0].partition("=")[2]
    if timezone not in ("UTC", written):
        raise InvalidSchedule(
            f"the text says {written}, the timezone field says {timezone}",
            field="timezone",
            value=timezone,
            allowed="one zone, in one place",
            hint=f"remove {words[0]} from the text or clear the timezone field",
        )
    if len(words) == 1:
        raise _refused(text, "a time zone alone is not a schedule", hints.word_count(0))
    return words[:1], words[1:], zone(written)


def _recurrence(words: list[str], where: Zone) -> Recurrence:
    second, minute, hour, day, month, weekday = words
    fixed = second[0] != "*" and minute[0] != "*" and hour[0] != "*"  # rule 8, on the text
    return Recurrence(_clock(second, minute, hour), _dates(day, month, weekday), where, fixed=fixed)


@lru_cache(maxsize=4096)
def _clock(second: str, minute: str, hour: str) -> Clock:
    return Clock(field(SECOND, second), field(MINUTE, minute), field(HOUR, hour))


@lru_cache(maxsize=4096)
def _dates(day: str, month: str, weekday: str) -> DatePattern:
    pattern = DatePattern(field(DAY, day), field(MONTH, month), field(WEEKDAY, weekday))
    if not pattern.ever_matches():
        raise InvalidSchedule(
            f"day {day} in month {month} on weekday {weekday} never comes",
            field="day",
            value=day,
            allowed="a date that the calendar has",
            hint="all 400 years of the calendar's cycle were checked",
        )
    return pattern


def _read_at_word(
    text: str, prefix: list[str], words: list[str], where: Zone, anchor: datetime | None
) -> Reading:
    name, *rest = words
    if name in NICKNAMES and not rest:
        six = NICKNAMES[name].split()
        return Reading(_recurrence(six, where), where, " ".join([*prefix, name]), tuple(six))
    if name == "@every":
        return _read_every(text, prefix, rest, where, anchor)
    if name == "@at":
        return Reading(_read_once(text, rest, where), where, " ".join([*prefix, *words]), ())
    if name == "@reboot":
        raise _refused(text, "@reboot has no meaning here: a service has no boot", "use @at for a single run")
    if name in NICKNAMES:
        raise _refused(text, f"nothing may follow {name}", f"write {name} alone")
    raise _refused(text, f"{name!r} is not a nickname", hints.nickname(name))


def _read_every(
    text: str, prefix: list[str], rest: list[str], where: Zone, anchor: datetime | None
) -> Reading:
    if len(rest) == 3 and rest[1] == "from":
        since: int | None = parse_instant(rest[2], None)
    elif len(rest) == 1:
        since = None if anchor is None else _anchor(text, anchor)
        rest = rest if since is None else [*rest, "from", text_of(since)]
    else:
        raise _refused(
            text, "@every needs one duration", "write @every 5m, or @every 5m from 2026-11-15T02:00:00Z"
        )
    period_s = parse_duration(rest[0], field="cron")
    return Reading(Every(period_s, since), where, " ".join([*prefix, "@every", *rest]), ())


def _anchor(text: str, anchor: datetime) -> int:
    unix = unix_of(anchor)
    if not 0 <= unix <= UNIX_MAX:
        raise _refused(text, f"the anchor {anchor} is outside the years 1970 to 9999", "")
    return unix


def _read_once(text: str, rest: list[str], where: Zone) -> Once:
    if len(rest) != 1:
        raise _refused(text, "@at needs one instant", "write @at 2026-11-15T02:00:00Z")
    word = rest[0]
    if word.isascii() and word.isdigit():
        if int(word) > UNIX_MAX:
            raise _refused(text, f"{word[:20]} is beyond the year 9999", "write seconds, not milliseconds")
        return Once(int(word))
    return Once(parse_instant(word, where))


def _refused(text: str, message: str, hint: str) -> InvalidSchedule:
    return InvalidSchedule(message, field="cron", value=text, allowed=_ALLOWED, hint=hint)
