"""The forecast's count is what walking through every timeline gives, second by second, also when the clocks change."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.decide.forecast import Company, Cron, Herd, Interval, Tally, Text, hits, outcomes, top
from tocsin.decide.timeline import plan
from tocsin.errors import InvalidSchedule
from tocsin.model.rule import Rule, encode_rule
from tocsin.model.schedule import Schedule
from tocsin.model.target import NullTarget

HOUR_S, DAY_S = 3_600, 86_400
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Santiago",
]
CHANGES = [
    datetime(2027, 3, 28, tzinfo=UTC),  # Berlin goes forward
    datetime(2026, 10, 25, tzinfo=UTC),  # and back
    datetime(2027, 3, 14, tzinfo=UTC),  # New York
    datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2027, 4, 3, tzinfo=UTC),  # Lord Howe: half an hour
    datetime(2026, 10, 3, tzinfo=UTC),
    datetime(2026, 9, 6, tzinfo=UTC),  # Santiago: at midnight
    datetime(2026, 7, 1, tzinfo=UTC),  # nothing
]


def _items(low: int, high: int, extra: list[str]) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, 20).map(lambda step: f"*/{step}")
    lists = st.lists(number, min_size=1, max_size=3).map(lambda many: ",".join(map(str, many)))
    return st.one_of(st.just("*"), number.map(str), ranges, steps, lists, *map(st.just, extra))


minutes = _items(0, 59, ["0", "30", "1-59/2"])
hours = _items(0, 23, ["2", "1", "0", "1-3", "0-23/1"])
days = st.one_of(st.just("*"), st.sampled_from(["1", "28", "L", "LW", "15W", "*/2", "25-31", "1-7"]))
weekdays = st.one_of(st.just("*"), st.sampled_from(["0", "SUN", "1-5", "6L", "SUN#4", "+0", "7"]))
five = st.tuples(minutes, hours, days, st.sampled_from(["*", "*", "3,10", "MAR-NOV"]), weekdays)
seconds = st.sampled_from(["0", "59", "17", "0,30", "*/25", "5-55/20"]) | st.integers(0, 59).map(str)
six = st.tuples(seconds, minutes, hours, days, st.just("*"), weekdays)
crons = st.one_of(five, six).map(" ".join) | st.sampled_from(
    ["@daily", "@hourly", "@weekly", "TZ=UTC 5 4 * * *"]
)


def _brute(texts: list[Text], from_s: int, to_s: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for text in texts:
        found.update(plan(*text).instants(from_s - 1, to_s - 1))
    return found


def _told(counts: list[float], from_s: int) -> Counter[int]:
    return Counter({from_s + at: count for at, count in enumerate(counts) if count})


@st.composite
def times(draw: st.DrawFn) -> tuple[int, int]:
    middle = int(draw(st.sampled_from(CHANGES)).timestamp())
    from_s = middle + draw(st.integers(-30 * HOUR_S, 30 * HOUR_S))
    return from_s, from_s + draw(st.integers(1, 50 * HOUR_S))


@st.composite
def rules(draw: st.DrawFn, time: tuple[int, int]) -> bytes | None:
    inside = st.just(0) | st.integers(time[0] * 1000 - 5_000, time[1] * 1000 + 5_000)
    return encode_rule(Rule(start_ms=draw(inside), end_ms=draw(inside)))


@settings(max_examples=120, deadline=None)
@given(st.data(), times())
def each_second_counts_what_the_timelines_say(data: st.DataObject, time: tuple[int, int]) -> None:
    texts = [
        Text(data.draw(crons), data.draw(st.sampled_from(ZONES)), data.draw(rules(time)))
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    texts = [text if not text.resolved.startswith("TZ=") else text._replace(zone="UTC") for text in texts]
    texts = [text for text in texts if _is_readable(text)]
    tally = Tally(*time)
    tally.add_crons(Cron(*text, 1) for text in texts)
    assert _told(tally.counted(), time[0]) == _brute(texts, *time)


def _is_readable(text: Text) -> bool:
    try:
        plan(*text)
    except InvalidSchedule:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5_000), st.integers(-10_000, 10_000), st.integers(1, 100_000), st.integers(1, 5))
def intervals_go_on_with_their_own_beat(period_s: int, ahead_s: int, length_s: int, number: int) -> None:
    from_s = 1_800_000_000
    tally = Tally(from_s, from_s + length_s)
    tally.add_intervals([Interval(f"{period_s}s", None, from_s + ahead_s, number)])
    first = from_s + ahead_s
    expected = {
        at: number for at in range(first, from_s + length_s, period_s) if from_s <= at < from_s + length_s
    }
    assert _told(tally.counted(), from_s) == expected


def moments_are_counted_in_their_second() -> None:
    tally = Tally(1000, 1010)
    tally.add_moments([(1000, 3), (1009, 1), (1010, 7), (999, 7)])
    assert _told(tally.counted(), 1000) == {1000: 3, 1009: 1}


@pytest.mark.parametrize("cron", ["0 9 * * *", "*/20 * * * *", "0-59/5 * * * * *"])
def jitter_gives_each_second_its_share(cron: str) -> None:
    from_s = int(datetime(2026, 7, 1, 8, 59, 30, tzinfo=UTC).timestamp())
    text = Text(cron, "UTC", encode_rule(Rule(jitter_ms=90_500)))
    tally = Tally(from_s, from_s + 600)
    tally.add_text(text, 1_000)
    expected: Counter[int] = Counter()
    for number in range(1_000):
        for instant in plan(*text).instants(from_s - 91, from_s + 600):
            at_s = plan(*text).slot(f"s{number}", instant).planned_ms // 1000
            expected[at_s - from_s] += from_s <= at_s < from_s + 600
    counts = tally.counted()
    assert sum(counts) == pytest.approx(sum(expected.values()), rel=0.03)
    busy = [at for at, count in enumerate(counts) if count > 1e-6]
    assert set(+expected) <= set(busy)
    assert max(abs(counts[at] - expected[at]) for at in busy) < 8 + 6 * max(counts) ** 0.5


def ends_of_their_own_that_lie_elsewhere_make_no_difference() -> None:
    from_s = 1_800_000_000
    ends = [encode_rule(Rule(end_ms=(from_s + 2 * DAY_S + number) * 1000)) for number in range(100)]
    tally = Tally(from_s, from_s + DAY_S)
    tally.add_crons(Cron("0 0 * * *", "UTC", rule, 1) for rule in ends)
    tally.add_crons([Cron("0 0 * * *", "UTC", encode_rule(Rule(end_ms=(from_s - 1) * 1000)), 1)])
    assert max(tally.counted()) == 100
    assert tally.texts == {("0 0 * * *", "UTC", None): 100}


def what_is_taken_out_again_was_never_there() -> None:
    tally = Tally(1_800_000_000, 1_800_000_000 + 2 * DAY_S)
    tally.add_text(Text("5 4 * * *", "Europe/Berlin", None), 3)
    other = tally.copy()
    other.add_text(Text("5 4 * * *", "Europe/Berlin", None), -3)
    assert not any(other.counted())
    assert sum(tally.counted()) == 6


def an_unreadable_text_is_told_and_the_others_are_counted() -> None:
    tally = Tally(1_800_000_000, 1_800_000_000 + DAY_S)
    tally.add_crons([Cron("0 * * * *", "Mars/Olympus", None, 5), Cron("0 * * * *", "UTC", None, 2)])
    assert (sum(tally.counted()), tally.unreadable, tally.schedules) == (48, 5, 7)


@settings(max_examples=60, deadline=None)
@given(st.data(), times())
def the_causes_of_a_second_are_the_texts_that_have_it(data: st.DataObject, time: tuple[int, int]) -> None:
    texts = {Text(data.draw(crons), data.draw(st.sampled_from(ZONES)), None): 2 for _ in range(6)}
    texts = {text: 2 for text in texts if not text.resolved.startswith("TZ=") and _is_readable(text)}
    seconds = sorted(_brute(list(texts), *time))
    chosen = data.draw(st.lists(st.sampled_from(seconds), max_size=5, unique=True)) if seconds else []
    met = hits(texts, chosen)
    for instant in chosen:
        assert set(met[instant]) == {text for text in texts if plan(*text).expression.matches(instant)}


def the_remedies_are_what_the_service_would_do() -> None:
    """Each schedule gets the very second that its id gives it."""
    from_s = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp())
    text = Text("0 0 * * *", "UTC", None)
    ids = [f"a/{number}" for number in range(500)]
    tally = Tally(from_s, from_s + DAY_S)
    tally.add_crons([Cron(*text, len(ids)), Cron("30 7 * * *", "UTC", None, 3)])
    chosen, jittered = outcomes(tally, {text: len(ids)}, {text: ids})
    spread = [
        Text(Schedule(id=id, cron="? ? 0 * * *", target=NullTarget()).expression().resolved, "UTC", None)
        for id in ids
    ]
    real = max((_brute(spread, from_s, from_s + DAY_S) + Counter({0: 3})).values())
    assert (chosen.before, chosen.after, chosen.schedules) == (500, real, 500)
    delayed = plan("0 0 * * *", "UTC", encode_rule(Rule(jitter_ms=300_000)))
    midnight = from_s + DAY_S // 2
    planned = Counter(delayed.slot(id, midnight).planned_ms // 1000 for id in ids)
    assert jittered.after == max(3, *planned.values())


def very_many_are_spread_by_their_shares() -> None:
    from_s = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp())
    text = Text("0 0 * * *", "UTC", None)
    tally = Tally(from_s, from_s + DAY_S)
    tally.add_text(text, 3_600_000)
    chosen, jittered = outcomes(tally, {text: 3_600_000}, {})
    assert chosen.after == pytest.approx(1_000)
    assert jittered.after == pytest.approx(12_000, rel=0.01)


def folders_that_say_no_more_than_one_below_are_left_out() -> None:
    ids = ["a/b/1", "a/b/2", "a/b/3", "c/1", "d"]
    company = Company()
    for id in ids:
        company.join(id, {"team": id[0]})
    assert top(company.prefixes, 5) == [("a/b/", 3), ("c/", 1)]
    assert top(company.labels, 1) == [("team=a", 3)]


# The count that is kept in memory


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(CHANGES), st.integers(0, DAY_S))
def a_schedule_is_looked_for_in_its_own_seconds(data: st.DataObject, change: datetime, late_s: int) -> None:
    from_s = int(change.timestamp()) - late_s
    now_s = from_s + data.draw(st.integers(0, 900))
    text = Text(
        data.draw(crons | st.sampled_from(["@every 20s from 2026-01-01T00:00:07Z"])), "Europe/Berlin", None
    )
    if text.resolved.startswith("TZ=") or not _is_readable(text):
        return
    herd = Herd(from_s, [0] * (25 * HOUR_S))
    herd.add(herd.seconds_of("x", text, now_s))
    for instant in plan(*text).instants(now_s, now_s + DAY_S - 1):
        one = Text(f"@at {instant}", "UTC", None)
        assert herd.crowd(herd.seconds_of("y", one, now_s), 1) == (instant, 1)
        assert herd.crowd(herd.seconds_of("y", one, now_s), 2) is None
        break


def a_schedule_of_every_minute_meets_the_fullest_of_its_seconds() -> None:
    from_s = 1_800_000_007
    counts = [0.0] * (25 * HOUR_S)
    at_s = 1_800_003_600 // 60 * 60 + 30
    counts[at_s - from_s] = 9
    herd = Herd(from_s, counts)
    every = herd.seconds_of("x", Text("30 * * * * *", "UTC", None), from_s)
    assert herd.crowd(every, 9) == (at_s, 9)
    assert herd.crowd(every, 10) is None
    herd.add(every)
    assert herd.crowd(every, 10) == (at_s, 10)
    herd.add(every, -1)
    assert herd.crowd(every, 10) is None
    herd.add(herd.seconds_of("y", Text(f"@at {at_s}", "UTC", None), from_s), -1)
    assert herd.crowd(every, 9) is None
    herd.add(herd.seconds_of("y", Text(f"@at {at_s}", "UTC", None), from_s))
    assert herd.crowd(every, 9) == (at_s, 9)
    assert (
        herd.crowd(herd.seconds_of("x", Text("30 * * * * *", "UTC", None), at_s), 9) is None
    )  # it has passed


def jitter_and_a_choice_get_out_of_a_full_second() -> None:
    from_s = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp())
    counts = [0.0] * (25 * HOUR_S)
    counts[DAY_S // 2] = 100
    herd = Herd(from_s, counts)
    assert herd.crowd(herd.seconds_of("x", Text("0 0 * * *", "UTC", None), from_s), 100) is not None
    jittered = Text("0 0 * * *", "UTC", encode_rule(Rule(jitter_ms=300_000)))
    assert herd.crowd(herd.seconds_of("x", jittered, from_s), 100) is None


_LONG = encode_rule(Rule(jitter_ms=1_000 * 7 * 86_400_000))


@pytest.mark.parametrize("text", ["* * * * * *", "*/5 * * * *", "0 3 * * *", "0 0 1 1 *"])
def a_jitter_longer_than_the_time_between_two_occurrences_costs_no_more_than_they_do(text: str) -> None:
    from_s = 1_800_000_000
    tally = Tally(from_s, from_s + 86_400)
    tally.add_crons([(text, "UTC", _LONG, 1)])
    counts = tally.counted()
    due = len(list(plan(text, "UTC", None).instants(from_s - 1, from_s + 86_400)))
    assert tally._walked <= due + 2
    assert abs(sum(counts) - due) <= 1.001
    intervals = Tally(from_s, from_s + 86_400)
    intervals.add_intervals([("10s", _LONG, from_s - 5, 1)])
    assert abs(sum(intervals.counted()) - 8_640) <= 1.001


def beyond_so_many_instants_jitter_is_left_out_of_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.decide.forecast.tally.WALKED_MAX", 100)
    tally = Tally(1_800_000_000, 1_800_003_600)
    tally.add_crons([("* * * * * *", "UTC", _LONG, 1), ("*/2 * * * * *", "UTC", _LONG, 3)])
    assert abs(sum(tally.counted()) - (3_600 + 3 * 1_800)) <= 1.001
    assert tally.unspread == 3
