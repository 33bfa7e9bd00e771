"""What must hold for any expression, and agreement with cronsim for those that both understand."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule

# Where cronsim and CRON.md differ, an example of each, and what keeps it out of the comparison.
_CRONSIM_DEVIATIONS = {
    # It reads 5-5/2 as 5-max/2. The generator gives a step to real ranges only.
    "a range of one value with a step": ("5-5/2 * * * *", "2026-01-01T00:00:00+00:00", "UTC"),
    # It has no rule for a fixed time in a gap or a repeated hour. Compared in UTC only.
    "six fields": ("0 30 2 * * *", "2026-03-28T12:00:00+00:00", "Europe/Berlin"),
    # It drops the fold and answers with the past. Such a start is not compared.
    "a start in a repeated hour": ("45 2 * * *", "2026-10-25T01:30:00+00:00", "Europe/Berlin"),
    # It refuses the range as reversed. The generator writes ranges in digits.
    "X-SUN": ("0 0 * * FRI-SUN", "2026-01-01T00:00:00+00:00", "UTC"),
    # It advances hours by 3600 s and loses an hour. No zone with such a change is compared.
    "a change by half an hour": ("0 */4 * * *", "2026-10-03T09:30:00+00:00", "Australia/Lord_Howe"),
    # A day that begins in a gap makes it answer 01:00 for 00:00. No zone with such a change is compared.
    "a missing midnight": ("* 0 * * SUN", "2018-11-03T15:00:00+00:00", "America/Sao_Paulo"),
    # It does not know them. The generator does not write them.
    "L-n": ("0 0 L-3 * *", "2026-01-01T00:00:00+00:00", "UTC"),
    "nW": ("0 0 15W * *", "2026-01-01T00:00:00+00:00", "UTC"),
    "+": ("0 0 13 * +FRI", "2026-01-01T00:00:00+00:00", "UTC"),
}
_COMPARED_ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Sydney", "Asia/Kolkata"]
_ZONES = [*_COMPARED_ZONES, "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Pacific/Apia"]
_INSTANTS = st.integers(946_684_800, 2_145_916_800)  # 2000 to 2037


@st.composite
def _item(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...]) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, high + 3))
    shapes = ["*", f"*/{step}", str(first), f"{first}-{last}", f"{first}/{step}"]
    if last > first:
        shapes.append(f"{first}-{last}/{step}")
    return draw(st.sampled_from([*shapes, *names]))


def _field(low: int, high: int, *names: str) -> st.SearchStrategy[str]:
    items = st.lists(_item(low, high, names), min_size=1, max_size=3).map(",".join)
    return st.just("*") | items


_FIVE = st.tuples(
    _field(0, 59),
    _field(0, 23),
    _field(1, 31, "L", "LW"),
    _field(1, 12, "JAN", "feb", "Dec"),
    _field(0, 7, "MON", "sun", "5L", "2#1", "THU#5"),
).map(" ".join)
_SIX = st.tuples(_field(0, 59), _FIVE).map(" ".join)
_ODD = st.tuples(
    st.sampled_from(["0", "30", "?", "1~20", "?/7", "*/5", "*"]),
    st.sampled_from(["2", "?", "0-23/3", "*", "?(1-4)", "1-3"]),
    st.sampled_from(["*", "L-3", "15W", "1W,L", "?(1-28)", "31", "13"]),
    st.sampled_from(["*", "2", "?", "3,10", "*/2"]),
    st.sampled_from(["*", "+SUN", "0", "+5L", "FRI-SUN", "?(1-5)", "1#2"]),
).map(" ".join)
_ANY = _FIVE | _SIX | _ODD


def _parsed(text: str, zone: str) -> Expression:
    try:
        return Expression.parse(text, timezone=zone, identity="a")
    except InvalidSchedule:
        assume(False)
        raise


def _oracle(text: str, start: datetime, count: int) -> list[int]:
    try:
        instants = CronSim(text, start)
        return [int(next(instants).timestamp()) for _ in range(count)]
    except (CronSimError, StopIteration):
        assume(False)
        raise


@given(_FIVE, st.sampled_from(_COMPARED_ZONES), _INSTANTS)
@settings(max_examples=1000, deadline=None, database=None)
def five_fields_agree_with_cronsim(text: str, zone: str, unix: int) -> None:
    expression = _parsed(text, zone)
    start = datetime.fromtimestamp(unix, UTC if zone == "UTC" else ZoneInfo(zone))
    assume(start.fold == 0)
    expected = _oracle(text, start, 6)
    assert [int(t.timestamp()) for t in expression.upcoming(start, 6)] == expected


@given(_SIX, _INSTANTS)
@settings(max_examples=300, deadline=None, database=None)
def six_fields_agree_with_cronsim_in_utc(text: str, unix: int) -> None:
    expression = _parsed(text, "UTC")
    start = datetime.fromtimestamp(unix, UTC)
    assert [int(t.timestamp()) for t in expression.upcoming(start, 4)] == _oracle(text, start, 4)


@given(_ANY, st.sampled_from(_ZONES), _INSTANTS, st.integers(0, 40 * 86_400), st.integers(1, 400))
@settings(max_examples=500, deadline=None, database=None)
def looking_back_mirrors_looking_ahead(text: str, zone: str, after: int, span: int, limit: int) -> None:
    expression = _parsed(text, zone)
    instants, unix = [], expression.next_unix(after)
    while unix is not None and len(instants) < limit:
        assert unix > (instants[-1] if instants else after)
        instants.append(unix)
        unix = expression.next_unix(unix)
    upto = min(after + span, instants[-1]) if instants else after + span
    inside = [t for t in instants if t <= upto]
    assert expression.last_unix(after, upto) == (inside[-1] if inside else None)
    assert expression.count_between(after, upto, 10_000) == len(inside)
    assert expression.count_between(after, upto, 3) == min(3, len(inside))
    for earlier, later in pairwise(instants):
        assert expression.previous_unix(later) == earlier
    for instant in instants[:-1][:20]:
        assert expression.matches(instant)
        assert expression.matches(instant + 1) == (instant + 1 in instants)


@given(_ANY, st.sampled_from(_ZONES), st.lists(_INSTANTS, min_size=2, max_size=6), st.randoms())
@settings(max_examples=200, deadline=None, database=None)
def an_answer_does_not_depend_on_earlier_questions(
    text: str, zone: str, starts: list[int], order: object
) -> None:
    asked = _parsed(text, zone)
    questions = [start + step for start in starts for step in (0, 1, 59, 60, 3600, 86_400)]
    order.shuffle(questions)
    for unix in questions:
        assert asked.next_unix(unix) == _parsed(text, zone).next_unix(unix)


@given(_ANY, st.sampled_from(_ZONES), _INSTANTS)
@settings(max_examples=200, deadline=None, database=None)
def a_resolved_text_parses_to_the_same_instants(text: str, zone: str, unix: int) -> None:
    first = _parsed(text, zone)
    again = Expression.parse(first.resolved, timezone=zone)
    start = datetime.fromtimestamp(unix, UTC)
    assert again.resolved == first.resolved
    assert again.upcoming(start, 30) == first.upcoming(start, 30)
    assert again.explain() == first.explain()


@given(_ANY, st.sampled_from(_ZONES), _INSTANTS)
@settings(max_examples=200, deadline=None, database=None)
def datetime_and_unix_say_the_same(text: str, zone: str, unix: int) -> None:
    expression = _parsed(text, zone)
    found = expression.next_after(datetime.fromtimestamp(unix + 0.5, UTC))
    expected = expression.next_unix(unix)
    assert (None if found is None else found.timestamp()) == expected


@pytest.mark.parametrize(("text", "start", "zone"), _CRONSIM_DEVIATIONS.values(), ids=_CRONSIM_DEVIATIONS)
def each_named_deviation_of_cronsim_is_real(text: str, start: str, zone: str) -> None:
    # A failure means that cronsim has changed: take the case into the comparison.
    local = datetime.fromisoformat(start).astimezone(ZoneInfo(zone))
    try:
        instants = CronSim(text, local)
        theirs = [int(next(instants).timestamp()) for _ in range(6)]
    except CronSimError:
        theirs = []
    assert theirs != [int(t.timestamp()) for t in Expression.parse(text, timezone=zone).upcoming(local, 6)]
