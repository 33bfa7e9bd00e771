"""Any text at all is a schedule or is refused as one, and what it means holds together."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import fuzz, outcome

from tocsin.cron import Expression, format_duration, parse_duration
from tocsin.errors import InvalidInput

SECONDS_MAX = 1.0
"""For one text: read, explained, and asked a dozen times. On an idle machine it is a few milliseconds."""
ANCHOR = datetime(2026, 11, 15, 2, 30, 1, tzinfo=UTC)
MOMENTS = [
    -(10**12),
    -1,
    0,
    1,
    951_782_400,
    1_711_846_799,
    1_794_742_088,
    4_102_444_800,
    253_402_300_798,
    10**12,
]
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
]
WORDS = [
    "*",
    "?",
    "~",
    "L",
    "W",
    "LW",
    "#",
    "/",
    "-",
    ",",
    "+",
    "@every",
    "@at",
    "from",
    "CRON_TZ=",
    "JAN",
    "mon",
    "1h30m",
]


def _check(text: str, zone: str) -> None:
    began = time.process_time()
    expression, refused = outcome(
        lambda: Expression.parse(text, timezone=zone, identity="some/id", anchor=ANCHOR), InvalidInput
    )
    if expression is None:
        assert str(refused)
    else:
        _check_relations(expression)
        _check_resolved(expression)
    assert time.process_time() - began < SECONDS_MAX


def _check_relations(expression: Expression) -> None:
    for moment in MOMENTS:
        following, before = expression.next_unix(moment), expression.previous_unix(moment)
        assert following is None or following > moment
        assert before is None or before < moment
        if following is not None:
            assert expression.matches(following)
            assert expression.previous_unix(following + 1) == following
            assert expression.last_unix(moment, following) == following
            assert expression.count_between(moment, following, 10) == 1
            previous = expression.previous_unix(following)
            assert previous == (moment if expression.matches(moment) else before)
        if before is not None:
            again = expression.next_unix(before)
            assert again == (moment if expression.matches(moment) else following)


def _check_resolved(expression: Expression) -> None:
    again = Expression.parse(expression.resolved, timezone=expression.timezone)
    assert again.resolved == expression.resolved
    assert again.explain() == expression.explain()
    assert [again.next_unix(each) for each in MOMENTS] == [expression.next_unix(each) for each in MOMENTS]


def _check_bytes(raw: bytes) -> None:
    """A line with the zone, then the text. What is no UTF-8 comes as the lone surrogates that Python makes of it."""
    zone, _, text = raw.decode("utf-8", "surrogateescape").partition("\n")
    _check(text, zone)


def a_schedule_text_is_refused_or_holds_together() -> None:
    fuzz("cron", _check_bytes, 4_000)


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.lists(st.sampled_from(WORDS) | st.integers(-1, 99).map(str) | st.characters(), max_size=14),
    st.sampled_from([" ", ""]),
    st.sampled_from(ZONES) | st.text(max_size=12),
)
def words_in_any_order_are_refused_or_hold_together(words: list[str], between: str, zone: str) -> None:
    _check(between.join(words), zone)


def _check_duration(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    seconds, refused = outcome(lambda: parse_duration(text), InvalidInput)
    if seconds is None:
        assert (refused.field, refused.value) == ("duration", text)
    else:
        assert parse_duration(format_duration(seconds)) == seconds


def a_duration_is_refused_or_whole_seconds() -> None:
    fuzz("duration", _check_duration, 8_000)
