"""The calendar: fourteen years are enough, and "never fires" is exact (rules 2 and 10)."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta

import pytest

from tocsin.cron import Expression, dates
from tocsin.errors import InvalidSchedule

_CYCLE = range(2000, 2400)


def all_fourteen_years_occur_in_the_400_year_cycle() -> None:
    shapes = {(calendar.isleap(year), date(year, 1, 1).weekday()) for year in _CYCLE}
    assert len(shapes) == dates.SHAPES
    assert (date(2400, 1, 1) - date(2000, 1, 1)).days % 7 == 0


def the_year_tables_agree_with_the_calendar() -> None:
    epoch = date(1970, 1, 1)
    for index, year in enumerate(range(1969, 10_000)):
        first = date(year, 1, 1)
        assert dates._YEAR_STARTS[index] == (first - epoch).days
        leap, weekday = divmod(dates._YEAR_SHAPES[index], 7)
        assert (bool(leap), weekday) == (calendar.isleap(year), first.isoweekday() % 7)


def _days_of(text: str, year: int) -> list[date]:
    expression = Expression.parse(text)
    found, instant = [], datetime(year, 1, 1, tzinfo=UTC) - timedelta(seconds=1)
    while True:
        instant = expression.next_after(instant) or datetime.max.replace(tzinfo=UTC)
        if instant.year != year:
            return found
        found.append(instant.date())


def _year(year: int) -> list[date]:
    return [date(year, 1, 1) + timedelta(days=n) for n in range(366 if calendar.isleap(year) else 365)]


@pytest.mark.parametrize("year", [1999, 2000, 2023, 2024, 2026, 2027, 2028, 2100])
def special_days_are_what_they_say(year: int) -> None:
    last = {month: calendar.monthrange(year, month)[1] for month in range(1, 13)}
    days = _year(year)
    assert _days_of("0 0 L * *", year) == [d for d in days if d.day == last[d.month]]
    assert _days_of("0 0 L-3 * *", year) == [d for d in days if d.day == last[d.month] - 3]
    assert _days_of("0 0 L-30 * *", year) == [d for d in days if d.day == 1 and last[d.month] == 31]
    assert _days_of("0 0 * * 5L", year) == [d for d in days if d.weekday() == 4 and d.day + 7 > last[d.month]]
    assert _days_of("0 0 * * sunL", year) == _days_of("0 0 * * 7L", year) == _days_of("0 0 * * 0l", year)
    assert _days_of("0 0 * * TUE#2", year) == [d for d in days if d.weekday() == 1 and 8 <= d.day <= 14]
    assert _days_of("0 0 * * 3#5", year) == [d for d in days if d.weekday() == 2 and d.day >= 29]
    workdays = [d for d in days if d.weekday() < 5]
    lasts = [max(d for d in workdays if d.month == month) for month in range(1, 13)]
    assert _days_of("0 0 LW * *", year) == lasts
    for wanted in (1, 2, 15, 28, 29, 30, 31):
        expected = [
            min((d for d in workdays if d.month == m), key=lambda d: (abs(d.day - wanted), d.day))
            for m in range(1, 13)
            if wanted <= last[m]
        ]
        assert _days_of(f"0 0 {wanted}W * *", year) == expected, wanted


@pytest.mark.parametrize("year", [2024, 2026])
def day_and_weekday_follow_the_text(year: int) -> None:
    days = _year(year)
    friday, thirteenth = (lambda d: d.weekday() == 4), (lambda d: d.day == 13)
    either = [d for d in days if friday(d) or thirteenth(d)]
    both = [d for d in days if friday(d) and thirteenth(d)]
    assert _days_of("0 0 13 * FRI", year) == either
    assert _days_of("0 0 13 * +FRI", year) == both
    assert _days_of("0 0 */2 * FRI", year) == [d for d in days if friday(d) and d.day % 2]
    assert _days_of("0 0 1-31/2 * FRI", year) == [d for d in days if friday(d) or d.day % 2]
    assert _days_of("0 0 13 * */5", year) == [d for d in days if thirteenth(d) and d.weekday() in (4, 6)]
    assert _days_of("0 0 13 * *,FRI", year) == [d for d in days if thirteenth(d)]
    assert _days_of("0 0 13 * FRI,*", year) == days  # it does not start with a star, and it matches every day
    assert _days_of("0 0 1-7,*/31 * 1", year) == [d for d in days if d.day <= 7 or d.weekday() == 0]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 0 * * FRI-SUN", "0 0 * * 5-7"),
        ("0 0 * * 5-sun", "0 0 * * 5,6,0"),
        ("0 0 * * SUN-TUE", "0 0 * * 0-2"),
        ("0 0 * * SUN-SUN", "0 0 * * 0"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
        ("0 0 * * 7-7", "0 0 * * 0"),
        ("0 0 * * MON-SUN/3", "0 0 * * 1,4,7"),
        ("0 0 * * 5/2", "0 0 * * 5,7"),
        ("0 0 20/5 * *", "0 0 20,25,30 * *"),
        ("0 0 1 oct-DEC *", "0 0 1 10,11,12 *"),
        ("0 0 1 */99999999999999999999 *", "0 0 1 1 *"),
        ("00 000 01 001 *", "0 0 1 1 *"),
    ],
)
def two_texts_are_the_same_schedule(text: str, same: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert Expression.parse(text).upcoming(start, 60) == Expression.parse(same).upcoming(start, 60)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0 0 30 2 *",
            "0 0 31 2,4,6,9,11 *",
            "0 0 31W 4 *",
            "0 0 30,31 2 *",
            "0 0 L-29 2 *",
            "0 0 L-30 4 *",
        ),
        *("0 0 1-7 * +MON#2", "0 0 1 * +5L", "0 0 29-31 2 +MON#4", "0 0 15 * +3#1", "0 0 1W * +SAT"),
        *("0 0 LW * +SUN", "0 0 30 2 */2", "0 0 */30 2 +MON#2", "0 0 8-31 * +0#1", "* * * 31 9 *"),
    ],
)
def what_never_comes_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse(text)
    assert refusal.value.field == "day"
    assert "never comes" in refusal.value.message


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0 29 2 *", date(2104, 2, 29)),  # 2100 is not a leap year
        ("0 0 * 2 MON#5", date(2112, 2, 29)),
        ("0 0 29W 2 +MON", date(2112, 2, 29)),
        ("0 0 29 2 +SUN", date(2128, 2, 29)),
        ("0 0 L-28 2 *", date(2104, 2, 1)),
        ("0 0 30 2 MON", date(2097, 2, 4)),
        ("0 0 31 * +5#5", date(2097, 5, 31)),
    ],
)
def what_comes_rarely_is_found(text: str, first: date) -> None:
    found = Expression.parse(text).next_after(datetime(2096, 12, 31, tzinfo=UTC))
    assert found is not None
    assert found.date() == first
