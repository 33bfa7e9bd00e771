"""Do many lines of a crontab start in the same minute? Pure: one month, always the same, is looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tocsin.model.schedule import Schedule

HERD_MIN = 6
_TOLD_MAX = 3
# January 2029 begins on a Monday and has every day of the month and, but for one night, no change of any clock.
_SINCE = int(datetime(2029, 1, 1, tzinfo=UTC).timestamp()) - 1
_UNTIL = _SINCE + 31 * 86_400
_OFTEN = 31 * 24 + 1
"""What comes more often than every hour has no minute of its own to be moved from."""


def herds(schedules: Iterable[Schedule]) -> list[str]:
    """A sentence for each of the worst minutes."""
    starting: dict[int, list[Schedule]] = defaultdict(list)
    for schedule in schedules:
        expression = schedule.expression()
        if schedule.jitter or expression.count_between(_SINCE, _UNTIL, _OFTEN) >= _OFTEN:
            continue
        unix = expression.next_unix(_SINCE)
        while unix is not None and unix <= _UNTIL:
            starting[unix].append(schedule)
            unix = expression.next_unix(unix)
    told: list[str] = []
    known: list[set[str]] = []
    for unix, group in sorted(starting.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(group) < HERD_MIN or len(told) == _TOLD_MAX:
            break
        ids = {schedule.id for schedule in group}
        if not any(ids <= others for others in known):  # every hour the same ones are one herd
            known.append(ids)
            zone = group[0].timezone
            told.append(_sentence(f"{datetime.fromtimestamp(unix, ZoneInfo(zone)):%H:%M} {zone}", group))
    return told


def _sentence(time: str, group: list[Schedule]) -> str:
    names = ", ".join(schedule.id for schedule in group[:3])
    example = next((found for found in map(_spread, group) if found), "? 3 * * *")
    return (
        f"{len(group)} schedules start together at {time} ({names}, ...). Write ? for the minute, such as "
        f"'{example}', and each gets a minute of its own that never changes"
    )


def _spread(schedule: Schedule) -> str:
    words = schedule.cron.split()
    return " ".join(["?", *words[1:]]) if len(words) == 5 and words[0].isdigit() else ""
