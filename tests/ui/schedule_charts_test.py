"""What the charts of a schedule draw, and the questions behind them: bounded, whatever is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tocsin.cron.zones import zone
from tocsin.model.launch import LaunchState
from tocsin.state import outcomes
from tocsin.state.outcomes import Stretch
from tocsin.state.tables import TABLES
from tocsin.ui.charts import calendar, durations, timeline
from tocsin.ui.charts.calendar import Day
from tocsin.ui.charts.durations import Point
from tocsin.ui.charts.timeline import Bar, Scale

UTC = zone("UTC")
BERLIN = zone("Europe/Berlin")
TUESDAY = 20_767  # 2026-11-10, days since 1970
NOON_MS = TUESDAY * 86_400_000 + 12 * 3_600_000
MINUTE_MS = 60_000


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    opened.executescript(TABLES)
    yield opened
    opened.close()


# What is asked


def days_are_those_of_the_zone_also_when_its_clock_changes(db: sqlite3.Connection) -> None:
    sunday = 20_751  # 2026-10-25: the clock goes back in Berlin, and the day has 25 hours
    within = list(outcomes.stretches(BERLIN, sunday, sunday + 1))
    assert sum(stretch.until_s - stretch.from_s for stretch in within) == 25 * 3600
    begin = within[0].from_s
    for hour in range(-1, 26):
        _launch(db, begin + hour * 3600)
    assert outcomes.by_day(db, 1, within).outcomes == {sunday: {"succeeded": 25}}
    assert outcomes.day_of(BERLIN, begin) == sunday
    assert outcomes.day_of(BERLIN, begin - 1) == sunday - 1


def only_so_many_launches_are_looked_at_and_the_newest_first(db: sqlite3.Connection) -> None:
    first = TUESDAY * 86_400
    for minute in range(100):
        _launch(db, first + minute * 60, LaunchState.FAILED if minute < 50 else LaunchState.SUCCEEDED)
    within = [Stretch(first, first + 86_400, 0)]
    newest = outcomes.by_day(db, 1, within, 30)
    assert newest.outcomes == {TUESDAY: {"succeeded": 30}}
    assert newest.seen_from_s == first + 70 * 60
    older = outcomes.by_day(db, 1, [stretch.until(newest.seen_from_s) for stretch in within], 1000)
    assert newest.joined(older) == outcomes.Days({TUESDAY: {"succeeded": 50, "failed": 50}})


def what_nobody_was_in_office_for_is_told_apart_from_what_a_policy_left_out(db: sqlite3.Connection) -> None:
    at = TUESDAY * 86_400
    _launch(db, at, LaunchState.SKIPPED, reason="missed: nothing was decided at that time")
    _launch(db, at + 1, LaunchState.SKIPPED, reason="overlap: one was open")
    found = outcomes.by_day(db, 1, [Stretch(at, at + 10, 0)])
    assert found.outcomes == {TUESDAY: {"missed": 1, "skipped": 1}}


def the_calendar_and_the_newest_are_found_by_the_index_of_instants(db: sqlite3.Connection) -> None:
    plans = []
    db.set_trace_callback(plans.append)
    within = [Stretch(0, 10, 0)]
    outcomes.by_day(db, 1, within)
    outcomes.newest(db, 1, 10)
    outcomes.kept_number(db, 1, within)
    outcomes.first_kept_s(db, 1)
    db.set_trace_callback(None)
    assert len(plans) == 4
    for statement in plans:
        told = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert any("USING" in line and "launch_by_name (sid=?" in line for line in told), told
        assert not any("TEMP B-TREE FOR ORDER BY" in line for line in told), told


def what_is_open_is_found_however_old_it_is(db: sqlite3.Connection) -> None:
    _launch(db, 1000, LaunchState.RUNNING)
    _launch(db, 2000)
    assert [row.instant_s for row in outcomes.opened(db, 1, 10)] == [1000]
    assert outcomes.open_number(db, 1) == 1
    assert outcomes.opened(db, 1, 10)[0].is_open


# What is drawn


def a_square_tells_its_day_and_is_coloured_by_the_worst() -> None:
    days = {TUESDAY: Day({"succeeded": 23, "failed": 1})}
    assert calendar.told(days[TUESDAY], TUESDAY, known=True) == "Tue 10 Nov: 24 launches, 1 failed"
    drawn = _parsed(
        calendar.calendar(days, TUESDAY + 1, known_from=TUESDAY - 1, chosen=None, gist="a <gist>")
    )
    assert drawn.get("aria-label") == "a <gist>"
    (link,) = _all(drawn, "a")
    assert link.get("href") == "?day=2026-11-10#timeline"
    assert [each.get("class") for each in _all(link, "rect")] == ["s-failed"]
    assert [each.text for each in _all(link, "text")] == ["✕"]


def a_day_without_launches_is_not_a_day_of_which_nothing_is_known() -> None:
    assert calendar.told(None, TUESDAY, known=True) == "Tue 10 Nov: no launches"
    assert calendar.told(None, TUESDAY, known=False) == "Tue 10 Nov: nothing is kept"
    missed = Day({"succeeded": 1}, is_missed=True)
    assert missed.worst == "missed"
    assert calendar.told(missed, TUESDAY, known=True) == (
        "Tue 10 Nov: 1 launch, some missed: nothing was decided at that time"
    )
    assert Day({}, is_unseen=True).worst == "unseen"


def the_calendar_holds_half_a_year_of_whole_weeks() -> None:
    drawn = _parsed(calendar.calendar({}, TUESDAY, known_from=0, chosen=None, gist=""))
    assert calendar.date_of(calendar.first_day_of(TUESDAY)).strftime("%a") == "Mon"
    assert len(_all(drawn, "rect")) == 25 * 7 + 2


def bars_that_overlap_stand_in_rows_and_others_in_one() -> None:
    bars = [
        _bar(0, 10 * MINUTE_MS),
        _bar(2 * MINUTE_MS, 4 * MINUTE_MS),
        _bar(6 * MINUTE_MS, 8 * MINUTE_MS),
        _bar(11 * MINUTE_MS, 12 * MINUTE_MS),
    ]
    drawn = _parsed(timeline.timeline(bars, UTC, NOON_MS, gist=""))
    rows = [float(_all(link, "rect")[0].get("y", "")) for link in _all(drawn, "a")]
    assert rows[0] == rows[3] < rows[1] == rows[2]
    assert timeline.overlapping(bars, NOON_MS) == 2


def idle_time_is_left_out_and_what_is_drawn_has_one_scale() -> None:
    hour = 60 * MINUTE_MS
    scale = Scale(
        [(0, MINUTE_MS), (24 * hour, 24 * hour + 2 * MINUTE_MS), (48 * hour, 48 * hour + MINUTE_MS)]
    )
    assert scale.is_broken
    widths = [right - left for *_, left, right in scale.pieces]
    assert widths[0] == pytest.approx(widths[2])
    assert widths[0] > 100
    assert widths[1] > 1.5 * widths[0]


def what_started_late_or_again_is_marked() -> None:
    late = Bar("late", "/x", "succeeded", NOON_MS, NOON_MS + 30_000, NOON_MS + 60_000, (NOON_MS + 45_000,))
    drawn = _parsed(timeline.timeline([late], UTC, NOON_MS, gist=""))
    assert {each.get("class") for each in _all(drawn, "rect")} == {"s-late", "s-succeeded", "retry"}


def what_is_open_reaches_up_to_now() -> None:
    running = Bar("open", "/x", "running", NOON_MS - MINUTE_MS, NOON_MS - MINUTE_MS, None)
    ended = _bar(-3 * MINUTE_MS, -2 * MINUTE_MS)
    drawn = _parsed(timeline.timeline([running, ended], UTC, NOON_MS, gist=""))
    block = next(each for each in _all(drawn, "rect") if each.get("class") == "s-running")
    (now,) = (each for each in _all(drawn, "line") if each.get("class") == "mark")
    reached = float(block.get("x", "")) + float(block.get("width", ""))
    assert reached == pytest.approx(float(now.get("x1", "")), abs=0.2)


def what_somebody_wrote_into_a_reason_stays_text() -> None:
    hostile = '"><script>alert(1)</script>'
    bar = Bar(hostile, "/launches/x", "failed", NOON_MS, NOON_MS, NOON_MS + 1)
    point = Point(hostile, "/launches/x", "failed", NOON_MS, 1)
    for drawn in (
        timeline.timeline([bar], UTC, NOON_MS, gist=hostile),
        durations.durations([point], UTC, gist=hostile),
    ):
        parsed = _parsed(drawn)
        assert not _all(parsed, "script")
        assert [each.text for each in _all(parsed, "title")] == [hostile]


def half_and_tail_of_the_durations_are_lines() -> None:
    assert durations.percentile(range(1, 101), 50) == 50
    assert durations.percentile(range(1, 101), 95) == 95
    assert durations.percentile([7], 95) == 7
    assert durations.percentile([], 50) is None
    points = [Point("", "/x", "succeeded", NOON_MS + n, n * 100) for n in range(1, 101)]
    lines = _all(_parsed(durations.durations(points, UTC, gist="")), "line")
    y = {each.get("class"): float(each.get("y1", "")) for each in lines}
    assert y["p95"] < y["p50"]


def one_that_took_very_much_longer_does_not_flatten_the_others() -> None:
    points = [Point("", "/x", "succeeded", NOON_MS + n, 100 + n) for n in range(20)]
    assert not durations.is_log(points)
    assert durations.is_log([*points, Point("", "/x", "failed", NOON_MS + 30, 3_600_000)])


def charts_are_drawn_also_of_a_single_launch_that_took_no_time() -> None:
    bar = Bar("", "/x", "skipped", NOON_MS, None, NOON_MS)
    assert _all(_parsed(timeline.timeline([bar], BERLIN, NOON_MS, gist="")), "rect")
    assert _all(
        _parsed(durations.durations([Point("", "/x", "succeeded", NOON_MS, 0)], BERLIN, gist="")), "circle"
    )


def _launch(
    db: sqlite3.Connection,
    instant_s: int,
    state: LaunchState = LaunchState.SUCCEEDED,
    reason: str | None = None,
) -> None:
    db.execute(
        "INSERT INTO launch (sid, version, instant_s, kind, state, attempt, term, started_ms, reason) "
        "VALUES (1, 1, ?, 0, ?, 1, 1, ?, ?)",
        (instant_s, int(state), instant_s * 1000, reason),
    )


def _bar(begin_ms: int, end_ms: int) -> Bar:
    at = NOON_MS + begin_ms
    return Bar("", "/x", "succeeded", at, at, NOON_MS + end_ms)


def _parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(drawn))


def _all(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return list(element.iter(name))
