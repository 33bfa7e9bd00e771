"""Instants as text (RFC 3339), as ``datetime`` and as whole Unix seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tocsin.cron.zones import UNIX_MAX, Zone
from tocsin.errors import InvalidInput, InvalidSchedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = "2026-11-15T02:00:00Z"
_ALLOWED = f"an instant from 1970 to 9999 such as {_EXAMPLE} or 2026-11-15T03:00:00+01:00"
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))?"
)


def unix_of(instant: datetime) -> int:
    """Whole seconds, rounded down; an instant without an offset is the caller's mistake."""
    try:
        elapsed = instant - EPOCH
    except TypeError:
        raise InvalidInput(
            f"{instant!r} has no time zone",
            field="instant",
            value=instant,
            allowed="an aware datetime",
            hint="for example datetime.now(UTC)",
        ) from None
    return elapsed.days * 86_400 + elapsed.seconds


def instant_of(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


def text_of(unix: int) -> str:
    return f"{instant_of(unix):%Y-%m-%dT%H:%M:%SZ}"


def parse_instant(text: str, zone: Zone | None) -> int:
    """Unix seconds of an RFC 3339 text; without an offset it is read in ``zone``, if there is one."""
    shape = _RFC3339.fullmatch(text)
    if shape is None:
        raise _refused(text, "is not an instant", f"write it as {_EXAMPLE}")
    if (shape[7] or "").strip(".0"):
        raise _refused(text, "has a fraction of a second", "a schedule counts in whole seconds")
    local = _local_seconds(text, shape)
    if shape[8] or shape[9]:
        unix = local - _offset(text, shape)
    elif zone is None:
        raise _refused(text, "has no offset", f"add Z for UTC, or an offset: {text}Z")
    else:
        found = zone.unix_of_local(local)
        if found is None:
            raise _refused(
                text, f"does not exist in {zone.name}", "the clock skipped more than 3 hours there"
            )
        unix = found
    if not 0 <= unix <= UNIX_MAX:
        raise _refused(text, "is outside the years 1970 to 9999", "")
    return unix


def _local_seconds(text: str, shape: re.Match[str]) -> int:
    year, month, day, hour, minute, second = (int(shape[number]) for number in range(1, 7))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise _refused(text, "is not on the calendar", str(error)) from None
    return (moment - EPOCH) // timedelta(seconds=1)


def _offset(text: str, shape: re.Match[str]) -> int:
    if shape[8]:
        return 0
    hours, minutes = int(shape[10]), int(shape[11])
    if hours > 23 or minutes > 59:
        raise _refused(text, "has an impossible offset", "an offset is at most 23:59")
    return (hours * 3600 + minutes * 60) * (-1 if shape[9] == "-" else 1)


def _refused(text: str, message: str, hint: str) -> InvalidSchedule:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InvalidSchedule(f"{shown!r} {message}", field="cron", value=text, allowed=_ALLOWED, hint=hint)
