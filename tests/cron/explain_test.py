"""A schedule in words."""

from __future__ import annotations

import pytest

from tocsin.cron import Expression

_IN_UTC = {
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "0,30 * * * *": "every 30 minutes",
    "*/7 * * * *": "every 7th minute from 0 to 56 of every hour",
    "5 * * * *": "at minute 5 of every hour",
    "1,2,3,40 * * * *": "at minutes 1 to 3 and 40 of every hour",
    "@hourly": "every hour",
    "0 */2 * * *": "every 2 hours, UTC",
    "30 */2 * * *": "at minute 30 of every 2nd hour, UTC",
    "0 0-12 * * *": "every hour from 00:00 to 12:00, UTC",
    "0 8-18/2 * * *": "at 08:00, 10:00, 12:00, 14:00, 16:00 and 18:00, every day, UTC",
    "0 7-19/2 * * *": "every 2nd hour from 07:00 to 19:00, UTC",
    "* 9-17 * * *": "every minute from 09:00 to 17:59, UTC",
    "* 1,5,9 * * 6,0": "every minute in hours 1, 5 and 9, Saturday and Sunday, UTC",
    "5-10 9-17 * * *": "every minute from 5 to 10 in hours 9 to 17, UTC",
    "1,7,9 3,5,8 * * *": "at minutes 1, 7 and 9 in hours 3, 5 and 8, UTC",
    "@daily": "at 00:00, every day, UTC",
    "@weekly": "at 00:00, Sunday, UTC",
    "@monthly": "at 00:00, on the 1st, UTC",
    "@yearly": "at 00:00, on the 1st, in January, UTC",
    "0 9,17 1,15,L * *": "at 09:00 and 17:00, on the 1st, the 15th and the last day of the month, UTC",
    "0 0 2,3,11-13,22 * *": "at 00:00, on the 2nd, the 3rd, the 11th to the 13th and the 22nd, UTC",
    "0 0 */2 * *": "at 00:00, on every 2nd day from the 1st to the 31st, UTC",
    "0 0 13 * FRI": "at 00:00, on the 13th or on Friday (either is enough), UTC",
    "0 0 13 * +FRI": "at 00:00, on the 13th and on Friday (both must match), UTC",
    "0 0 */9 * 1-5": "at 00:00, on every 9th day from the 1st to the 28th and on Monday to Friday"
    " (both must match), UTC",
    "0 0 1-31 * MON": "at 00:00, every day, UTC",
    "0 0 * * 5L": "at 00:00, on the last Friday of the month, UTC",
    "0 0 * * MON#2,THU": "at 00:00, on Thursday and the 2nd Monday of the month, UTC",
    "0 0 LW * *": "at 00:00, on the last workday of the month, UTC",
    "0 0 15W * *": "at 00:00, on the workday nearest to the 15th, UTC",
    "0 0 L-1 * *": "at 00:00, on 1 day before the last day of the month, UTC",
    "0 0 15,L-3 * *": "at 00:00, on the 15th and 3 days before the last day of the month, UTC",
    "0 0 1 6-8,12 *": "at 00:00, on the 1st, in June to August and December, UTC",
    "* * * 3 *": "every minute, in March, UTC",
    "* * * * * *": "every second",
    "*/10 * * * * *": "every 10 seconds",
    "30 * * * * *": "at second 30 of every minute",
    "* 5 * * * *": "every second in minute 5 of every hour",
    "10,20 5 * * * *": "at seconds 10 and 20 in minute 5 of every hour",
    "*/10 */5 9 * * *": "every 10 seconds of every 5th minute in hour 9, UTC",
    "15 30 9 * * *": "at 09:30:15, every day, UTC",
    "@every 5m": "every 5 minutes",
    "@every 1h": "every hour",
    "@every 1w2d3h4m5s": "every 1 week, 2 days, 3 hours, 4 minutes and 5 seconds",
    "@every 90m from 2026-11-15T02:00:00Z": "every 1 hour and 30 minutes, counted from 2026-11-15T02:00:00Z",
    "@at 2026-11-15T03:00:00+01:00": "once, at 2026-11-15T02:00:00Z",
}


@pytest.mark.parametrize(("text", "words"), _IN_UTC.items())
def a_schedule_reads_as_a_sentence(text: str, words: str) -> None:
    assert Expression.parse(text).explain() == words


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("0 9 * * MON-FRI", "Europe/Berlin", "at 09:00, Monday to Friday, Europe/Berlin"),
        (
            "*/15 9-17 * * 1-5",
            "Asia/Tokyo",
            "every 15 minutes from 09:00 to 17:59, Monday to Friday, Asia/Tokyo",
        ),
        ("*/5 * * * *", "Asia/Kathmandu", "every 5 minutes, Asia/Kathmandu"),
        ("TZ=Asia/Tokyo @daily", "UTC", "at 00:00, every day, Asia/Tokyo"),
    ],
)
def the_zone_is_part_of_the_sentence(text: str, zone: str, words: str) -> None:
    assert Expression.parse(text, timezone=zone).explain() == words


def a_choice_is_explained_as_settled() -> None:
    assert Expression.parse("? ? * * *", identity="billing/payroll").explain() == "at 01:45, every day, UTC"
