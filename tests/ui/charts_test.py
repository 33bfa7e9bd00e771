"""Axes, bars and heat-maps: numbers in, a picture out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from tocsin.model.forecast import Bucket
from tocsin.ui.charts import heat
from tocsin.ui.charts.bars import HEIGHT, Bar, Now, Part, stacked
from tocsin.ui.charts.scale import Heights, Times, round_up, short

BERLIN = ZoneInfo("Europe/Berlin")
HOUR_MS = 3_600_000


def ms(text: str, zone: ZoneInfo | None = None) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone or UTC).timestamp() * 1000)


def buckets(start: datetime, step: timedelta, *launches: int) -> list[Bucket]:
    return [
        Bucket(at=start + place * step, launches=count, worst=min(count, 3))
        for place, count in enumerate(launches)
    ]


# Axes


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (1, 1), (1.5, 2), (3, 4), (7, 8), (9, 10), (11, 20), (41_200, 60_000), (100, 100)],
)
def the_top_of_an_axis_is_the_next_round_number(highest: float, top: int) -> None:
    assert round_up(highest) == top


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0"), (950, "950"), (1_000, "1k"), (1_234, "1.2k"), (41_200, "41k"), (2_500_000, "2.5M")],
)
def a_number_on_an_axis_is_short(number: int, words: str) -> None:
    assert short(number) == words


def one_of_a_million_is_still_seen() -> None:
    assert Heights.of(1_000_000, 150).height(1) >= 1
    assert Heights.of(1_000_000, 150).height(0) == 0


@pytest.mark.parametrize("hours", [1, 2, 24, 48, 8 * 24])
def an_axis_has_some_ticks_and_not_too_many(hours: int) -> None:
    begin = ms("2026-11-15T09:07")
    assert 4 <= len(Times(begin, begin + hours * HOUR_MS).ticks(BERLIN)) <= 14


def ticks_are_round_in_the_zone_of_the_reader() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")  # half an hour off
    times = Times(ms("2026-11-15T09:07"), ms("2026-11-17T09:07"))
    for tick in times.ticks(kolkata):
        local = datetime.fromtimestamp(tick.at_ms / 1000, kolkata)
        assert (local.minute, local.hour % 6) == (0, 0)


def ticks_stay_round_when_the_clock_is_changed() -> None:
    times = Times(ms("2026-10-24T12:00", BERLIN), ms("2026-10-26T12:00", BERLIN))
    found = [datetime.fromtimestamp(tick.at_ms / 1000, BERLIN) for tick in times.ticks(BERLIN)]
    assert {each.hour % 6 for each in found} == {0}
    assert len({each.utcoffset() for each in found}) == 2


# Bars


def drawn(bars: list[Bar], words: str = "") -> ElementTree.Element:
    times = Times(0, 4 * HOUR_MS)
    return ElementTree.fromstring(stacked(bars, times, UTC, label="Gist", now=Now(2 * HOUR_MS, words)))


def rects(svg: ElementTree.Element, kind: str) -> list[dict[str, str]]:
    return [each.attrib for each in svg.iter("rect") if each.get("class") == f"s-{kind}"]


def parts_of_a_bar_stand_on_each_other() -> None:
    svg = drawn([Bar(0, HOUR_MS, "one", [Part("started", 6), Part("late", 4)])])
    (started,), (late,) = rects(svg, "started"), rects(svg, "late")
    assert float(late["y"]) + float(late["height"]) == pytest.approx(float(started["y"]), abs=0.2)
    assert float(started["height"]) == pytest.approx(float(late["height"]) * 1.5, abs=0.2)
    assert started["x"] == late["x"]


def what_went_wrong_hangs_below_the_line_and_is_seen_however_few() -> None:
    svg = drawn([Bar(0, HOUR_MS, "one", [Part("started", 50_000)], [Part("failed", 1)])])
    (started,), (failed,) = rects(svg, "started"), rects(svg, "failed")
    assert float(failed["y"]) >= float(started["y"]) + float(started["height"])
    assert float(failed["height"]) >= 4


def a_chart_is_as_high_without_what_is_to_come_as_with_it() -> None:
    without = drawn([], "counting")
    assert without.get("height") == drawn([Bar(3 * HOUR_MS, 4 * HOUR_MS, "x", [Part("forecast", 9)])]).get(
        "height"
    )
    assert without.get("height") == str(HEIGHT)
    assert "counting" in "".join(without.itertext())


def now_is_where_the_past_ends() -> None:
    (line,) = [each for each in drawn([]).iter("line") if each.get("class") == "mark"]
    assert line.get("x1") == line.get("x2") == "50.000%"


def a_chart_says_its_gist_and_each_bar_what_it_is() -> None:
    svg = drawn([Bar(0, HOUR_MS, "09:00: <6> started", [Part("started", 6)])])
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "Gist")
    assert [each.text for each in svg.iter("title")] == ["09:00: <6> started"]


def a_chart_has_no_style_of_its_own() -> None:
    bars = [Bar(0, HOUR_MS, "one", [Part("started", 6)], [Part("failed", 1)])]
    assert "style" not in stacked(bars, Times(0, HOUR_MS), UTC, label="", now=Now(HOUR_MS))


# Heat-maps


def shades_are_factors_where_most_have_little() -> None:
    shades = heat.Shades.of(heat.Cell(value) for value in (1, 5, 50, 500, 5_000, 10_000))
    found = [shades.level(value) for value in (0, 1, 5, 50, 500, 5_000, 10_000)]
    assert found == sorted(found)
    assert (found[0], found[1], found[-1]) == (0, 1, heat.LEVELS)


def shades_are_differences_where_all_have_much() -> None:
    shades = heat.Shades.of(heat.Cell(value) for value in (2_100, 2_100, 2_500))
    assert (shades.level(2_100), shades.level(2_500)) == (6, 7)


@pytest.mark.parametrize("is_even", [True, False])
@pytest.mark.parametrize("top", [1, 2, 5, 6, 7, 8, 100, 41_200, 3_000_000])
def the_legend_tells_what_each_shade_stands_for(top: int, is_even: bool) -> None:
    shades = heat.Shades(top, is_even)
    told = shades.steps()
    assert told[-1][0] == shades.level(top) == heat.LEVELS
    assert [place for place, _ in told] == sorted({place for place, _ in told})
    assert told[0][1].partition("–")[0] == "1"
    assert told[-1][1].endswith(short(top))


def nothing_planned_has_no_legend() -> None:
    assert heat.Shades.of([heat.Cell()]).steps() == []


def hours_are_those_of_the_reader() -> None:
    start = datetime(2026, 11, 15, 22, tzinfo=UTC)
    days = heat.by_day(buckets(start, timedelta(hours=1), 1, 2, 3), BERLIN)
    assert [(day.day, {hour: cell.launches for hour, cell in row.items()}) for day, row in days.items()] == [
        (15, {23: 1}),
        (16, {0: 2, 1: 3}),
    ]


def an_hour_that_comes_twice_is_one_cell_with_both() -> None:
    start = datetime(2026, 10, 25, 0, tzinfo=UTC)  # 02:00 in Berlin, and again
    days = heat.by_day(buckets(start, timedelta(hours=1), 5, 7), BERLIN)
    assert [cell.launches for row in days.values() for cell in row.values()] == [12]


def the_week_is_a_table_that_can_be_read_out() -> None:
    start = datetime(2026, 11, 15, 9, tzinfo=UTC)
    days = heat.by_day(buckets(start, timedelta(hours=1), 1_500), UTC)
    shades = heat.Shades.of(cell for row in days.values() for cell in row.values())
    html = heat.hours(days, shades, {}, "Launches by hour")
    cell = re.search(r'<td class="h7" title="([^"]*)">([^<]*)</td>', html)
    assert cell is not None
    assert cell.groups() == ("Sun 15, 09:00: 1 500 launches, 3 in the fullest second", "1.5k")
    assert html.count('scope="col"') == 24
    assert html.count("not counted") == 23


def the_minutes_of_a_day_stand_where_the_clock_shows_them() -> None:
    start = datetime(2026, 11, 15, 8, tzinfo=UTC)
    cells = heat.by_minute(buckets(start, timedelta(minutes=1), 40, 0, 2, 2), BERLIN)
    html = heat.minutes(cells, heat.Shades.of(cells.values()), "A day")
    nine = html.split("<tr>")[10]
    assert re.findall(r'title="([^"]*)"', html) == ["09:00 40, 3/s", "09:02 to :03, each 2, 2/s"]
    assert re.findall(r"<td( colspan=\d+)? class=(h\d)", nine) == [
        ("", "h7"),
        ("", "h0"),
        (" colspan=2", "h2"),
        (" colspan=56", "h0"),
    ]
    assert [at for at, _ in heat.fullest(cells, 5)] == [9 * 60, 9 * 60 + 2, 9 * 60 + 3]
