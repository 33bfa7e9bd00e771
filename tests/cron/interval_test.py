"""``@every``, ``@at``, durations, and the edges of time (rules 5, 6, 7 and 11)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import cron
from tocsin.cron import Expression
from tocsin.cron.zones import UNIX_MAX
from tocsin.errors import InvalidInput, InvalidSchedule

_ANCHOR = datetime(2026, 11, 15, 2, 0, 0, 750_000, tzinfo=UTC)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def every_counts_from_its_anchor() -> None:
    expression = Expression.parse("@every 5m", anchor=_ANCHOR)
    assert expression.resolved == "@every 5m from 2026-11-15T02:00:00Z"
    assert expression.next_after(_ANCHOR) == _at("2026-11-15T02:05:00Z")
    assert expression.next_after(_at("2026-11-15T02:05:00Z")) == _at("2026-11-15T02:10:00Z")
    assert expression.next_after(_at("2027-01-01T00:01:17Z")) == _at("2027-01-01T00:05:00Z")


def a_resolved_every_is_the_same_schedule() -> None:
    first = Expression.parse("CRON_TZ=Asia/Tokyo @every 7m", anchor=_ANCHOR)
    again = Expression.parse(first.resolved, anchor=_ANCHOR + timedelta(days=3))
    assert again.resolved == first.resolved == "CRON_TZ=Asia/Tokyo @every 7m from 2026-11-15T02:00:00Z"
    for start in (_ANCHOR - timedelta(days=1), _ANCHOR, _ANCHOR + timedelta(days=9)):
        assert again.upcoming(start, 20) == first.upcoming(start, 20)


def a_written_from_wins_over_the_anchor_and_nothing_comes_before_it() -> None:
    expression = Expression.parse("@every 1h from 2026-12-01T00:30:00+01:00", anchor=_ANCHOR)
    assert expression.resolved == "@every 1h from 2026-12-01T00:30:00+01:00"
    assert expression.next_after(_ANCHOR) == _at("2026-11-30T23:30:00Z")
    first = int(_at("2026-11-30T23:30:00Z").timestamp())
    assert expression.previous_unix(first) is None
    assert expression.previous_unix(first + 1) == first


def every_without_an_anchor_counts_from_the_question() -> None:
    expression = Expression.parse("@every 90s")
    assert expression.resolved == "@every 90s"
    assert expression.next_unix(1000) == 1090
    assert expression.last_unix(1000, 1300) == 1270
    assert expression.last_unix(1000, 1089) is None
    assert expression.count_between(1000, 1300, 100) == 3
    assert expression.previous_unix(1000) is None
    assert not expression.matches(1000)


def every_is_elapsed_time_whatever_the_clocks_do() -> None:
    expression = Expression.parse(
        "@every 1d", timezone="Europe/Berlin", anchor=_at("2026-10-24T12:00:00+02:00")
    )
    assert expression.next_after(_at("2026-10-24T12:00:00+02:00")) == _at("2026-10-25T11:00:00+01:00")


def at_happens_once() -> None:
    expression = Expression.parse("@at 2026-11-15T02:00:00Z")
    unix = int(_at("2026-11-15T02:00:00Z").timestamp())
    assert expression.next_after(_at("2026-11-15T01:59:59.999Z")) == _at("2026-11-15T02:00:00Z")
    assert expression.next_after(_at("2026-11-15T02:00:00Z")) is None
    assert expression.upcoming(_at("2020-01-01T00:00:00Z"), 5) == [_at("2026-11-15T02:00:00Z")]
    assert expression.matches(unix)
    assert not expression.matches(unix - 1)
    assert expression.last_unix(0, unix) == unix
    assert expression.last_unix(unix, unix + 99) is None
    assert expression.count_between(0, UNIX_MAX, 10) == 1


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("@at 1700000000", "Asia/Tokyo", "2023-11-14T22:13:20Z"),
        ("@at 2026-07-01T12:00:00", "Europe/Berlin", "2026-07-01T10:00:00Z"),
        ("@at 2026-07-01t12:00:00.000z", "Europe/Berlin", "2026-07-01T12:00:00Z"),
        ("@at 2026-03-29T02:30:00", "Europe/Berlin", "2026-03-29T01:00:00Z"),  # in a gap: at its end
        ("@at 2026-10-25T02:30:00", "Europe/Berlin", "2026-10-25T00:30:00Z"),  # twice: the first
        ("@at 2011-12-31T00:00:00", "Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("@at 1970-01-01T00:00:00Z", "UTC", "1970-01-01T00:00:00Z"),
        ("@at 9999-12-31T23:59:59Z", "UTC", "9999-12-31T23:59:59Z"),
        ("TZ=America/New_York @at 2026-07-01T12:00:00", "UTC", "2026-07-01T16:00:00Z"),
    ],
)
def at_is_read_in_the_zone_unless_it_has_an_offset(text: str, zone: str, instant: str) -> None:
    expression = Expression.parse(text, timezone=zone)
    unix = int(_at(instant).timestamp())
    assert expression.next_unix(unix - 1) == unix
    assert Expression.parse(expression.resolved, timezone=zone).next_unix(unix - 1) == unix


@pytest.mark.parametrize(
    "text",
    [
        *("@at", "@at now", "@at 2026-11-15", "@at 2026-11-15T02:00Z", "@at 2026-11-15 02:00:00Z", "@at -5"),
        *("@at 2026-02-30T00:00:00Z", "@at 2026-11-15T24:00:00Z", "@at 2026-11-15T23:59:60Z", "@at 1e9"),
        *(
            "@at 2026-11-15T02:00:00.5Z",
            "@at 2026-11-15T02:00:00+24:00",
            "@at 2026-11-15T02:00:00+01",
            "@at ٣",
        ),
        *(
            "@at 1969-12-31T23:59:59Z",
            "@at 9999-12-31T23:59:59-01:00",
            "@at 1700000000000",
            "@at 0001-01-01T00:00:00",
        ),
        *(
            "@at 0000-01-01T00:00:00Z",
            "@at " + "9" * 900,
            "@at 1970-01-01T00:00:00+00:01",
            "@at 5 5",
            "@At 5",
        ),
        *(
            "@every",
            "@every 5",
            "@every 0s",
            "@every -5m",
            "@every 1.5h",
            "@every 5m5m",
            "@every 1m2h",
            "@every 5M",
        ),
        *(
            "@every 100ms",
            "@every 5 m",
            "@every 5m from",
            "@every 5m since 2026-11-15T02:00:00Z",
            "@every 999999w",
        ),
        *(
            "@every 5m from 2026-11-15T02:00:00",
            "@every 5m from now",
            "@every 5m from 1700000000",
            "@every ５m",
        ),
    ],
)
def a_malformed_every_or_at_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse(text)
    assert refusal.value.field == "cron"


def a_local_time_that_a_long_gap_swallowed_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="does not exist in Pacific/Apia"):
        Expression.parse("@at 2011-12-30T12:00:00", timezone="Pacific/Apia")
    west = "@at 9999-12-31T23:59:59"
    with pytest.raises(InvalidSchedule, match="1970 to 9999"):
        Expression.parse(west, timezone="America/New_York")


def an_anchor_must_be_an_instant_of_our_era() -> None:
    with pytest.raises(InvalidInput):
        Expression.parse("@every 5m", anchor=datetime(2026, 1, 1))  # noqa: DTZ001  # why: the mistake under test
    with pytest.raises(InvalidSchedule):
        Expression.parse("@every 5m", anchor=datetime(1960, 1, 1, tzinfo=UTC))


def a_naive_instant_is_an_error() -> None:
    expression = Expression.parse("* * * * *")
    with pytest.raises(InvalidInput, match="no time zone"):
        expression.next_after(datetime(2026, 1, 1))  # noqa: DTZ001  # why: the mistake under test
    with pytest.raises(InvalidInput, match="no time zone"):
        expression.upcoming(datetime(2026, 1, 1), 3)  # noqa: DTZ001  # why: the mistake under test


def any_aware_instant_is_understood() -> None:
    expression = Expression.parse("0 * * * *")
    expected = _at("2026-10-25T02:00:00Z")
    berlin, east = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=5, minutes=45))
    assert expression.next_after(datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1)) == expected
    assert expression.next_after(_at("2026-10-25T01:00:00Z").astimezone(east)) == expected
    found = expression.next_after(_at("2026-10-25T01:59:59.999999Z"))
    assert found == expected
    assert found.tzinfo is UTC
    assert expression.next_after(_at("2026-10-25T02:00:00.000001Z")) == _at("2026-10-25T03:00:00Z")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    "text", ["* * * * *", "0 0 29 2 *", "30 2 * * *", "* * * * * *", "@yearly", "0 0 * 2 1#5"]
)
def time_has_two_ends(text: str, zone: str) -> None:
    expression = Expression.parse(text, timezone=zone)
    first = expression.next_unix(-(10**30))
    assert first is not None
    assert first >= 0
    assert expression.next_after(datetime.min.replace(tzinfo=UTC)) == datetime.fromtimestamp(first, UTC)
    assert expression.previous_unix(first) is None
    assert expression.previous_unix(-5) is None
    last = expression.previous_unix(10**30)
    assert last is not None
    assert last <= UNIX_MAX
    assert expression.next_unix(last) is None
    assert expression.next_unix(10**30) is None
    assert expression.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert expression.next_unix(last - 1) == last


def the_last_occurrence_is_found_without_counting() -> None:
    # A billion seconds: enumerating them would take minutes.
    expression = Expression.parse("* * * * * *", timezone="Europe/Berlin")
    assert expression.last_unix(700_000_000, 1_700_000_000) == 1_700_000_000
    assert Expression.parse("@every 1s", anchor=_ANCHOR).count_between(0, UNIX_MAX, 10**18) > 10**11


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1w2d3h4m5s", 788_645),
        ("1h0m", 3600),
        ("007s", 7),
    ],
)
def a_duration_is_whole_seconds(text: str, seconds: int) -> None:
    assert cron.parse_duration(text) == seconds


@given(st.integers(1, 36_500 * 86_400))
@settings(max_examples=300, deadline=None, database=None)
def a_formatted_duration_parses_back(seconds: int) -> None:
    assert cron.parse_duration(cron.format_duration(seconds)) == seconds


def a_duration_is_written_as_short_as_can_be() -> None:
    assert [cron.format_duration(n) for n in (0, 1, 60, 5400, 604_800)] == ["0s", "1s", "1m", "1h30m", "1w"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "for example"),
        ("300", "300s is 300 seconds"),
        ("1.5h", "1h30m"),
        ("250ms", "whole seconds"),
        ("5M", "5m"),
        ("30m1h", "largest first"),
        ("5m5m", "each unit once"),
        ("0s", "1s"),
        ("1y", "for example"),
        ("9999999w", "36500d"),
        ("1h 30m", "for example"),
    ],
)
def a_bad_duration_names_the_callers_field(text: str, hint: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        cron.parse_duration(text, field="timeout")
    assert (refusal.value.field, refusal.value.value) == ("timeout", text)
    assert hint in refusal.value.hint
    assert "1h30m" in refusal.value.allowed
