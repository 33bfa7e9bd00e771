"""Moments as people write them: ``2026-01-31T09:00Z``, ``2026-01-31 09:00``, ``-3d``, ``2h ago``, ``yesterday``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tocsin.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.client import Client

HELP = "such as 2026-01-31, '2026-01-31 09:00', -3d, '2h ago'"
_ALLOWED = (
    "RFC 3339, unix seconds, YYYY-MM-DD, 'YYYY-MM-DD HH:MM', HH:MM, now, today, yesterday, -3d or '2h ago'"
)
_AGO = re.compile(r"-([0-9][0-9wdhms]*)|([0-9][0-9wdhms]*) +ago")
_LOCAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)?")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_OF_PYTHON = (
    "Invalid isoformat",
    "year is out of range",
    "timestamp out of range",
    "date value out of range",
)
"""Reasons that say no more than that it is not a moment."""
_DAYS = {"today": 0, "yesterday": 1}


def needs_zone(text: str) -> bool:
    """Does it mean another moment in another zone?"""
    return text in _DAYS or bool(_LOCAL.fullmatch(text) or _CLOCK.fullmatch(text))


def parse_moment(text: str, *, field: str, zone: str = "", now: datetime | None = None) -> datetime:
    """In UTC. What has no offset is meant in ``zone``; empty: in the viewer's."""
    given = text.strip()
    now = now or datetime.now(UTC)
    try:
        return _parsed(given, field, zone, now).astimezone(UTC)
    except (ValueError, OverflowError, OSError) as wrong:
        reason = "" if str(wrong).startswith(_OF_PYTHON) else f": {wrong}"
        raise InvalidInput(
            f"{text[:60]!r} is not a moment{reason}", field=field, value=text, allowed=_ALLOWED
        ) from None


def spelled_out(word: str) -> str:
    """``-3d`` as ``3d ago``, for where a word that begins with a hyphen would be taken for an option."""
    return f"{word[1:]} ago" if re.fullmatch(r"-[0-9]+[wdhms][0-9wdhms]*", word) else word


def check_moment(text: str, *, field: str) -> None:
    """Whether it is one does not depend on the zone, so it can be told before the service is asked for that."""
    if text:
        parse_moment(text, field=field)


async def written_moment(
    client: Client, text: str, *, field: str, schedule: str = "", whole_seconds: bool = False
) -> str:
    """As the API takes it. What has no offset is meant in the zone of the schedule, also of one that was removed;
    in the viewer's, if nothing is known of it."""
    if not text:
        return ""
    check_moment(text, field=field)
    zone = await _zone_of(client, schedule) if schedule and needs_zone(text.strip()) else ""
    found = parse_moment(text, field=field, zone=zone)
    return written(found.replace(microsecond=0) if whole_seconds else found)


async def _zone_of(client: Client, schedule: str) -> str:
    try:
        return (await client.schedule(schedule)).timezone
    except NotFound:
        pass
    try:
        return next((version.schedule.timezone for version in (await client.versions(schedule)).items), "")
    except NotFound:
        return ""


def written(at: datetime) -> str:
    """As the API takes it."""
    return at.isoformat().replace("+00:00", "Z")


def _parsed(text: str, field: str, zone: str, now: datetime) -> datetime:
    from tocsin.cron import parse_duration

    if text == "now":
        return now
    if ago := _AGO.fullmatch(text):
        return now - timedelta(seconds=parse_duration(ago[1] or ago[2], field=field))
    if re.fullmatch(r"(19|20)[0-9]{6}", text):
        raise ValueError(f"is it the day {text[:4]}-{text[4:6]}-{text[6:]}? As unix seconds it is in 1970")
    if re.fullmatch(r"[0-9]{1,15}", text):
        return datetime.fromtimestamp(int(text), UTC)
    if text in _DAYS:
        day = _now_in(zone, now).date() - timedelta(days=_DAYS[text])
        return _in_zone(datetime(day.year, day.month, day.day), zone)  # noqa: DTZ001  # why: its zone comes next
    if _CLOCK.fullmatch(text):
        text = f"{_now_in(zone, now):%Y-%m-%d} {text}"
    found = datetime.fromisoformat(re.sub(r"(?<=[ T])([0-9]):", r"0\1:", text))
    return found if found.tzinfo is not None else _in_zone(found, zone)


def _now_in(zone: str, now: datetime) -> datetime:
    from zoneinfo import ZoneInfo

    return now.astimezone(ZoneInfo(zone)) if zone else now.astimezone()


def _in_zone(at: datetime, zone: str) -> datetime:
    """Of a time that comes twice the first is meant."""
    from zoneinfo import ZoneInfo

    return at.replace(tzinfo=ZoneInfo(zone)) if zone else at.astimezone()
