"""The forecast: a week by hours, a day by minutes, who meets in the worst seconds, and what would help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect
from tests.ui.conftest import VIEWER_ZONE, Console

HERD = 60
NINE = {"cron": "0 9 * * *", "timezone": VIEWER_ZONE, "labels": {"team": "reports"}}


@pytest.fixture
def fresh(start, tmp_path, chromium, trouble) -> Iterator[Console]:
    console = Console(start(tmp_path / "data"), chromium, trouble)
    yield console
    console.close()


@pytest.fixture(scope="module")
def herd(service) -> None:
    """All at nine in the morning, and a few at other times."""
    for number in range(HERD):
        service.create(f"reports/daily-{number:02d}", **NINE)
    for number in range(3):
        service.create(f"sync/{number}", cron="*/20 * * * *")


def opened(console: Console, path: str = "/forecast", **more: object) -> Page:
    """The page in the hours of its reader, with all of its parts."""
    page = console.blank(**more)
    zone = {"name": "zone", "value": VIEWER_ZONE.replace("/", "%2F"), "url": console.service.url}
    page.context.add_cookies([zone])
    page.goto(path)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def count(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def tomorrow() -> datetime:
    return datetime.now(ZoneInfo(VIEWER_ZONE)) + timedelta(days=1)


def next_herd() -> datetime:
    """The next nine o'clock: today's, where the tests run in the early hours."""
    now = datetime.now(ZoneInfo(VIEWER_ZONE))
    return now if now.hour < 9 else tomorrow()


# The week


def the_figures_are_those_of_the_api(console, herd):
    told = count(opened(console).locator("#week p strong").first.inner_text())
    until = datetime.now(UTC) + timedelta(days=7)
    query = f"/v1/forecast?until={until:%Y-%m-%dT%H:%M:%SZ}&bucket=1h&worst=1"
    answered = console.service.ask("GET", query).json
    # Something may have become due between the two.
    assert abs(told - answered["launches"]) <= 9
    assert answered["worst"][0]["launches"] in (HERD, HERD + 3)


def each_hour_of_each_day_is_a_cell_that_can_be_read_out(console, herd):
    table = opened(console).get_by_role("table", name=f"Launches by hour and day, in {VIEWER_ZONE}")
    day = tomorrow()
    row = table.get_by_role("row", name=re.compile(f"^{day:%a} {day.day} "))
    nine = row.get_by_role("cell").nth(9)
    expect(nine).to_have_text(str(HERD + 9))
    expect(nine).to_have_attribute(
        "title", f"{day:%a} {day.day}, 09:00: {HERD + 9} launches, {HERD + 3} in the fullest second"
    )
    expect(nine).to_have_class("h7")
    expect(row.get_by_role("cell").nth(8)).to_have_text("9")


def the_worst_seconds_are_told_once_with_who_meets_in_them(console, herd):
    page = opened(console)
    crowd = page.locator("#week .worst > li").first
    expect(crowd).to_contain_text(f"{HERD + 3} launches at {next_herd():%Y-%m-%d} 09:00:00")
    expect(crowd).to_contain_text("and about as many at")
    expect(crowd).to_contain_text(f"0 9 * * * ({VIEWER_ZONE}) {HERD}")
    expect(crowd.get_by_role("link", name="reports/", exact=True)).to_have_attribute(
        "href", "/schedules?q=reports/"
    )
    crowd.get_by_role("link", name="team=reports").click()
    expect(page.get_by_role("link", name="reports/daily-00", exact=True)).to_be_visible()


def spreading_is_shown_before_and_after(console, herd):
    row = opened(console).get_by_role("row", name=re.compile(r"^\? in second and minute"))
    before, after = (count(row.get_by_role("cell").nth(place).inner_text()) for place in (0, 1))
    assert before == HERD + 3
    assert after < HERD / 4
    expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"^\d+ percent"))


def where_nothing_is_planned_it_says_so(fresh):
    page = opened(fresh)
    expect(page.locator("#week")).to_contain_text("Nothing is planned: there is no enabled schedule.")
    expect(page.locator("#day-map")).to_contain_text("Nothing is planned on this day.")


# A day


def tomorrow_is_shown_minute_by_minute(console, herd):
    page = opened(console)
    expect(page.get_by_role("heading", name="Tomorrow, minute by minute")).to_be_visible()
    expect(
        page.get_by_role("img", name=re.compile(f"the fullest minute is 09:00, with {HERD + 3}"))
    ).to_be_visible()
    expect(page.locator("#day-map .minutes td.h7")).to_have_attribute(
        "title", f"09:00 {HERD + 3}, {HERD + 3}/s"
    )


def the_minutes_can_be_read_out_hour_by_hour(console, herd):
    table = opened(console).get_by_role("table", name="The same, hour by hour")
    expect(table.get_by_role("row", name=re.compile("^09:00"))).to_have_text(
        re.compile(rf"09:00\s*{HERD + 9}\s*:00 with {HERD + 3}")
    )


def a_day_is_chosen_in_the_table(console, herd):
    page = opened(console)
    day = tomorrow() + timedelta(days=2)
    page.locator("table.heat").get_by_role("link", name=f"{day:%a} {day.day}").click()
    expect(page.get_by_role("heading", name=f"{day:%A} {day.day}, minute by minute")).to_be_visible()
    expect(page.locator("#day-map")).to_contain_text(f"{day:%A}: ")


def a_day_that_is_not_counted_is_refused_in_words(console):
    console.expects("400")
    page = console.open("/forecast?day=1999-01-01")
    expect(page.get_by_text("is no day that is counted")).to_be_visible()


# Waiting, and who may see what


def the_page_is_there_before_anything_is_counted(console, herd):
    page = console.open("/forecast", java_script_enabled=False)
    expect(page.locator("#week")).to_contain_text("Counting the next seven days of 63 schedules")
    expect(page.get_by_role("progressbar").first).to_be_visible()


def only_schedules_within_reach_are_counted_and_named(guarded_console):
    service = guarded_console.service
    for id in ("mine/one", "theirs/one", "theirs/two"):
        service.create(id, cron="0 9 * * *")
    body = {"name": "reader", "scopes": ["read"], "prefixes": ["mine"]}
    token = service.ask("POST", "/v1/tokens", body).json["token"]
    page = opened(guarded_console, token=token)
    expect(page.locator("#week")).to_contain_text("7 launches of 1 schedule up to")
    assert "theirs" not in page.content()
    expect(opened(guarded_console, token=service.token).locator("#week")).to_contain_text("of 3 schedules")
