"""Daylight saving against a deliberately naive reading of CRON.md.

Around every change of the clock from 2000 to 2037 in these zones, every single minute (and around a few,
every second) is asked of ``zoneinfo`` and held against the fields one by one. No code is shared with
``tocsin.cron``.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tocsin.cron import Expression, zones

_ZONES = [
    *("America/New_York", "Europe/Berlin", "Europe/London", "Australia/Lord_Howe", "America/Sao_Paulo"),
    *("Africa/Casablanca", "Africa/El_Aaiun", "Asia/Tehran", "Pacific/Apia", "Pacific/Chatham"),
    *("America/Havana", "Antarctica/Troll", "Asia/Gaza", "America/St_Johns", "Asia/Kathmandu"),
    *("Europe/Dublin", "America/Caracas", "Asia/Pyongyang", "Pacific/Kwajalein", "America/Asuncion"),
    *("Africa/Cairo", "Asia/Amman", "Europe/Istanbul", "America/Nuuk", "Antarctica/Macquarie"),
    *("Antarctica/Casey", "America/Scoresbysund", "Pacific/Easter", "Asia/Beirut"),
]
_TEXTS = [
    # fixed
    *("30 2 * * *", "0 2 * * *", "0 3 * * *", "15,45 1-3 * * *", "0 0 * * *", "30 0 * * *", "59 1 * * *"),
    *(
        "5-50/15 0-4/2 * * *",
        "7 0-23 * * *",
        "0-59 0-23 * * *",
        "30 23 * * SUN",
        "0 1 L * *",
        "30 1 1-7 * +SUN",
    ),
    *("0 2 31 3 SUN", "0,59 0,23 * * *", "30 2 * * 0#2,0L", "0-59/7 2 * 3,10,11 *", "1 0 1W,LW,15 * *"),
    # wildcard
    *("*/5 * * * *", "0 * * * *", "* 2 * * *", "0 */2 * * *", "*/20 1-3 * * *", "17 *,3 * * *", "* * * * *"),
    *("* 0 * * *", "7 */3 */2 * 1-5", "*/30 0 L * *", "0 * 31 3 SUN", "* 1 * * 0L"),
]
_NAMES = {name: index for index, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_MINUTE, _GAP_MAX = timedelta(minutes=1), timedelta(hours=3)


def _expand(text: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.replace("*", f"{low}-{high}").partition("-")
        values.update(range(int(first), int(last or (high if step else first)) + 1, int(step or 1)))
    return values


class _Naive:
    """CRON.md, rule by rule, one local minute (or second) at a time."""

    def __init__(self, text: str) -> None:
        words = text.split()
        words = ["0", *words] if len(words) == 5 else words
        self.wildcard = any(word.startswith("*") for word in words[:3])
        self.clock = [
            _expand(word, low, high) for word, low, high in zip(words, (0, 0, 0), (59, 59, 23), strict=False)
        ]
        self.day, self.months, self.weekday = words[3], _expand(words[4], 1, 12), words[5]
        self.both = self.day.startswith("*") or self.weekday.startswith(("*", "+"))

    def matches(self, local: datetime) -> bool:
        seconds, minutes, hours = self.clock
        if local.minute not in minutes or local.hour not in hours or local.second not in seconds:
            return False
        if local.month not in self.months:
            return False
        by_day, by_weekday = self._is_day(local), self._is_weekday(local)
        return (by_day and by_weekday) if self.both else (by_day or by_weekday)

    def _is_day(self, local: datetime) -> bool:
        return any(self._is_day_item(local, item) for item in self.day.split(","))

    def _is_day_item(self, local: datetime, item: str) -> bool:
        last = _last_day(local)
        if item == "L":
            return local.day == last
        if item.endswith("W"):
            wanted = last if item == "LW" else int(item[:-1])
            workdays = [day for day in range(1, last + 1) if local.replace(day=day).weekday() < 5]
            # The nearest one; of two equally near (never the case) the earlier.
            return wanted <= last and local.day == min(workdays, key=lambda day: (abs(day - wanted), day))
        return local.day in _expand(item, 1, 31)

    def _is_weekday(self, local: datetime) -> bool:
        return any(self._is_weekday_item(local, item) for item in self.weekday.removeprefix("+").split(","))

    def _is_weekday_item(self, local: datetime, item: str) -> bool:
        weekday = local.isoweekday() % 7
        if "#" in item:
            value, nth = item.split("#")
            return weekday == int(value) and (local.day - 1) // 7 + 1 == int(nth)
        if item.endswith("L"):
            return weekday == int(item[:-1]) and local.day + 7 > _last_day(local)
        return weekday in ({_NAMES[item]} if item in _NAMES else {v % 7 for v in _expand(item, 0, 7)})


def _last_day(local: datetime) -> int:
    return ((local.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)).day


def _occurrences(naive: _Naive, moments: list[tuple[int, datetime, int]], tick: timedelta) -> Iterator[int]:
    """Rule 8. A moment is its Unix second, its local time and whether that is a second pass (fold)."""
    before = None
    for unix, local, fold in moments:
        skipped = local - before - tick if before is not None else timedelta(0)
        if naive.wildcard:
            due = naive.matches(local)
        else:
            due = not fold and naive.matches(local)
            if before is not None and timedelta(0) < skipped <= _GAP_MAX:
                inside = (before + tick * n for n in range(1, skipped // tick + 1))
                due = due or any(naive.matches(time) for time in inside)
        if due:
            yield unix
        before = local


def _moments(zone: ZoneInfo, low: int, high: int, tick: timedelta) -> list[tuple[int, datetime, int]]:
    found = []
    for unix in range(low, high, tick // timedelta(seconds=1)):
        local = datetime.fromtimestamp(unix, zone)
        found.append((unix, local.replace(tzinfo=None, fold=0), local.fold))
    return found


def _changes(zone: ZoneInfo) -> list[int]:
    """Each minute from 2000 to 2037 at which the zone's offset differs from that of the minute before."""

    def offset(unix: int) -> timedelta | None:
        return datetime.fromtimestamp(unix, zone).utcoffset()

    found = []
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2000, 2038))
    for low in range(first, last, 86_400):
        high = low + 86_400
        if offset(low) == offset(high):
            continue
        while high - low > 60:
            middle = (low + high) // 120 * 60
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        found.append(high)
    return found


def _agree(text: str, zone: str, moments: list[tuple[int, datetime, int]], tick: timedelta) -> None:
    expected = list(_occurrences(_Naive(text), moments, tick))
    expression = Expression.parse(text, timezone=zone)
    low, high = moments[0][0], moments[-1][0]
    # The walk begins one tick late: the naive reading cannot see whether the first moment ends a gap.
    expected = [unix for unix in expected if unix > low]
    forwards, unix = [], expression.next_unix(low)
    while unix is not None and unix <= high:
        forwards.append(unix)
        unix = expression.next_unix(unix)
    assert forwards == expected, (text, zone, "forwards")
    backwards, unix = [], expression.previous_unix(high + 1)
    while unix is not None and unix > low:
        backwards.append(unix)
        unix = expression.previous_unix(unix)
    assert backwards[::-1] == expected, (text, zone, "backwards")
    # From anywhere, also from inside a repeated hour; an odd stride meets every minute of the hour.
    for unix, _, _ in moments[1:-1:13]:
        at = bisect.bisect_right(expected, unix)
        if at < len(expected):
            assert expression.next_unix(unix) == expected[at], (text, zone, unix)
        if at > 0:
            assert expression.previous_unix(unix + 1) == expected[at - 1], (text, zone, unix)


@pytest.mark.parametrize("zone", _ZONES)
def every_minute_around_every_change_follows_the_rules(zone: str) -> None:
    info, choose = ZoneInfo(zone), random.Random(zone)
    for change in _changes(info):
        moments = _moments(info, change - 5 * 3600, change + 5 * 3600, _MINUTE)
        for text in choose.sample(_TEXTS, 4):
            _agree(text, zone, moments, _MINUTE)


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Pacific/Apia", "2011-12-30T10:00:00+00:00"),  # a whole day skipped
        ("Pacific/Kwajalein", "1993-08-21T12:00:00+00:00"),  # likewise
        ("Pacific/Kiritimati", "1994-12-31T10:00:00+00:00"),
        ("America/New_York", "2026-03-08T07:00:00+00:00"),
        ("Europe/Berlin", "2026-10-25T01:00:00+00:00"),
        ("Antarctica/Troll", "2026-03-29T01:00:00+00:00"),  # two hours at once
        ("Antarctica/Casey", "2009-10-17T18:00:00+00:00"),  # three hours: the longest gap that is made up for
        ("America/Juneau", "1983-10-30T09:00:00+00:00"),  # two hours back
        ("Australia/Lord_Howe", "2026-04-04T15:00:00+00:00"),  # half an hour back
        ("Africa/Monrovia", "1972-01-07T00:44:30+00:00"),  # 44 minutes and 30 seconds forward
    ],
)
def every_text_agrees_for_days_around_an_odd_change(zone: str, change: str) -> None:
    tick = timedelta(seconds=30) if zone == "Africa/Monrovia" else _MINUTE
    middle = int(datetime.fromisoformat(change).timestamp())
    moments = _moments(ZoneInfo(zone), middle - 30 * 3600, middle + 30 * 3600, tick)
    for text in _TEXTS:
        _agree(text, zone, moments, tick)


@pytest.mark.parametrize("change", ["2026-03-29T01:00:00+00:00", "2026-10-25T01:00:00+00:00"])
@pytest.mark.parametrize(
    "text",
    [
        *("30 30 2 * * *", "10-50/20 0,59 1-3 * * *", "*/7 30 2 * * *", "* * * * * *", "0 */10 2 * * *"),
        *("59 59 1 * * *", "0 0 3 * * *", "15 * 2 * * *", "0-59 0-59 2 * * *", "5 0 * L * *"),
    ],
)
def every_second_around_a_change_follows_the_rules(text: str, change: str) -> None:
    tick = timedelta(seconds=1)
    middle = int(datetime.fromisoformat(change).timestamp())
    moments = _moments(ZoneInfo("Europe/Berlin"), middle - 5400, middle + 5400, tick)
    _agree(text, "Europe/Berlin", moments, tick)


def a_repeated_time_counts_once_when_fixed_and_twice_when_wildcard() -> None:
    # The longest overlap on record since 1970: Casey, 5 March 2010, from 02:00 back to 23:00.
    middle = int(datetime(2010, 3, 4, 15, tzinfo=UTC).timestamp())
    fixed = Expression.parse("30 23 * * *", timezone="Antarctica/Casey")
    wildcard = Expression.parse("30 * * * *", timezone="Antarctica/Casey")
    assert fixed.count_between(middle - 4 * 3600, middle + 4 * 3600, 100) == 1
    assert wildcard.count_between(middle - 4 * 3600, middle + 4 * 3600, 100) == 8


@pytest.mark.parametrize("bits", [11, 13, 16])
def the_edges_of_the_tables_leave_no_trace(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    # With buckets of 34 minutes to 18 hours every repeated hour and every gap touches or straddles an edge.
    monkeypatch.setattr(zones, "_BUCKET_BITS", bits)
    zones.zone.cache_clear()
    try:
        for zone in ("Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Casey"):
            for change in _changes(ZoneInfo(zone))[18:22]:
                moments = _moments(ZoneInfo(zone), change - 5 * 3600, change + 5 * 3600, _MINUTE)
                for text in _TEXTS:
                    _agree(text, zone, moments, _MINUTE)
    finally:
        zones.zone.cache_clear()
