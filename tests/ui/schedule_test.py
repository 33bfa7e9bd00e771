"""The page of one schedule: what it is, what became of it, and what can be done with it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.api.conftest import eventually
from tests.ui.conftest import Console

ENDED = ("succeeded", "failed")
FAR = "0 0 29 2 *"
PAGE_BYTES_MAX = 200_000


def a_schedule_tells_what_it_is_and_what_comes_next(console: Console) -> None:
    console.service.create(
        "told/payroll",
        cron="0 9 * * 1-5",
        timezone="Europe/Berlin",
        description="Pays everybody.",
        labels={"team": "billing"},
        retry={"limit": 2},
        target={"kind": "http", "url": "https://bank.example.org/pay"},
    )
    page = console.open("/schedules/told/payroll")
    expect(page.get_by_role("heading", name="told/payroll")).to_be_visible()
    expect(page.locator("#state")).to_contain_text("enabled")
    expect(page.locator("#state")).to_contain_text("at 09:00, Monday to Friday, Europe/Berlin")
    about = page.get_by_role("region", name="What it is")
    for words in (
        "0 9 * * 1-5",
        "calls POST https://bank.example.org/pay",
        "Pays everybody.",
        "up to 2 times",
    ):
        expect(about).to_contain_text(words)
    expect(about.get_by_role("link", name="team=billing")).to_have_attribute(
        "href", "/schedules?q=label%3Ateam%3Dbilling"
    )
    rows = page.get_by_role("region", name="Next").locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text(re.compile(r"0[34]:00:00 GMT-[45]"))  # New York is where the reader is
    expect(rows.first).to_contain_text(re.compile(r"09:00:00 (CET|CEST|GMT\+[12])"))


def a_day_of_the_calendar_leads_to_its_launches(console: Console) -> None:
    first = _backfilled(console, "calendar/daily", cron="0 6 * * *", days=10)
    page = console.open("/schedules/calendar/daily")
    calendar = page.get_by_role("region", name="Half a year, day by day")
    expect(calendar.get_by_role("group", name="26 weeks: 10 launches; 10 succeeded")).to_be_visible()
    day = first.date() + timedelta(days=3)
    square = calendar.get_by_role("link", name=f"{day:%a} {day.day} {day:%b}: 1 launch, all succeeded")
    square.click()
    expect(page).to_have_url(re.compile(rf"day={day}#timeline$"))
    timeline = page.get_by_role("region", name=f"Launches of {day}")
    expect(timeline.locator("svg.timeline a")).to_have_count(1)
    expect(timeline.locator("svg.timeline a")).to_have_attribute(
        "href", re.compile("^/launches/calendar/daily-")
    )
    timeline.get_by_role("link", name="The day before").click()
    expect(page.get_by_role("region", name=f"Launches of {day - timedelta(days=1)}")).to_be_visible()
    page.get_by_text("The last days as a table").click()
    expect(page.locator("#calendar-table tbody tr")).to_have_count(10)


def a_bar_and_a_point_tell_all_about_a_launch(console: Console) -> None:
    failing = "[ $TOCSIN_ATTEMPT -gt 2 ] && exit 0; exit 7"
    target = {"kind": "exec", "shell": failing}
    console.service.create("bars/flaky", cron=FAR, retry={"limit": 2, "backoff": "1s"}, target=target)
    console.run("bars/flaky", until=ENDED)
    page = console.open("/schedules/bars/flaky")
    told = re.compile("by hand: succeeded; started .*, took .*, attempt 3")
    for chart in ("svg.timeline", "svg.durations"):
        mark = page.locator(chart).get_by_role("link", name=told)
        expect(mark).to_have_attribute("href", re.compile("^/launches/bars/flaky-[0-9]+-manual$"))
    expect(page.locator("svg.timeline .retry")).to_have_count(2)
    page.locator("svg.timeline a").focus()
    expect(page.locator("#timeline .told")).to_have_text(told)
    row = page.get_by_role("region", name="History").locator("tbody tr").first
    expect(row).to_contain_text("succeeded")
    expect(row).to_contain_text("by hand")


def what_failed_has_another_shape_and_a_sign(console: Console) -> None:
    console.service.create("bars/broken", cron=FAR, target={"kind": "exec", "argv": ["/bin/false"]})
    console.run("bars/broken", until=ENDED)
    page = console.open("/schedules/bars/broken")
    expect(page.locator("svg.timeline .sign")).to_have_text("✕")
    expect(page.locator("svg.calendar .sign")).to_have_text("✕")
    expect(page.locator("svg.durations .p-failed")).to_have_count(1)
    expect(page.locator("#state")).to_contain_text("failed")


def arrow_keys_go_through_a_chart_that_is_one_stop_of_tab(console: Console) -> None:
    _backfilled(console, "keys/daily", cron="0 6 * * *", days=5)
    page = console.open("/schedules/keys/daily")
    marks = page.locator("svg.timeline a")
    expect(marks).to_have_count(5)
    expect(page.locator('svg.timeline a[tabindex="0"]')).to_have_count(1)
    marks.last.focus()
    page.keyboard.press("ArrowLeft")
    expect(marks.nth(3)).to_be_focused()
    page.keyboard.press("Home")
    expect(marks.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/launches/keys/daily-"))


def a_pause_has_a_note_and_can_be_undone(console: Console) -> None:
    console.service.create("act/pause", cron=FAR)
    page = console.open("/schedules/act/pause")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Why?").fill("the bank is down")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#notes")).to_contain_text(re.compile(r"Paused by local.*: the bank is down\."))
    expect(page.locator("#state")).to_contain_text("paused")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_role("heading", name="Next, if it were resumed")).to_be_visible()
    expect(page.locator("#acts :focus")).to_have_count(1)  # whoever uses the keyboard stays where they were
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    assert console.service.ask("GET", "/v1/schedules/act/pause").json["enabled"]


def what_is_run_now_appears_by_itself(console: Console) -> None:
    console.service.create("act/run", cron=FAR)
    page = console.open("/schedules/act/run")
    expect(page.get_by_role("region", name="History")).to_contain_text("No launches are kept")
    page.get_by_role("button", name="Run now").click()
    asked = page.get_by_role("dialog", name="Launch act/run now?")
    asked.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("region", name="History").locator("tbody tr")).to_have_count(1)
    expect(page.locator("svg.timeline a")).to_have_count(1)


def what_was_deleted_is_still_told_and_comes_back(console: Console) -> None:
    console.service.create("act/gone", cron=FAR, target={"kind": "exec", "shell": "sleep 60"})
    launch = console.run("act/gone", until=("running",))
    page = console.open("/schedules/act/gone")
    page.get_by_role("button", name="Delete…").click()
    asked = page.get_by_role("dialog", name="Delete act/gone?")
    expect(asked).to_contain_text("1 open launch goes on")
    asked.get_by_role("button", name="Delete").click()
    expect(page.locator("#notes")).to_contain_text(re.compile("Deleted by local"))
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    expect(page.get_by_role("region", name="History").locator("tbody tr")).to_have_count(1)
    page.reload()
    page.locator("#acts").get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.locator("#state")).to_contain_text("enabled")
    assert console.service.ask("GET", "/v1/schedules/act/gone").status == 200
    console.service.ask("POST", f"/v1/launches/{launch['name']}:cancel")


def a_former_version_comes_back_and_what_changes_is_named(console: Console) -> None:
    console.service.create("act/versions", cron=FAR)
    patch = {"content-type": "application/merge-patch+json", "tocsin-actor": "carla"}
    console.service.ask(
        "PATCH", "/v1/schedules/act/versions", {"cron": "0 0 1 1 *", "overlap": "forbid"}, patch
    )
    page = console.open("/schedules/act/versions")
    versions = page.get_by_role("region", name="Versions")
    newest = versions.locator("tbody tr").first
    expect(newest).to_contain_text("local:carla")
    expect(newest.locator("li").first).to_have_text(re.compile(r"cron\s*0 0 29 2 \*\s*→\s*0 0 1 1 \*"))
    versions.get_by_role("button", name="Restore version 1").click()
    asked = page.get_by_role("dialog", name="Go back to version 1?")
    expect(asked).to_contain_text("cron: 0 0 1 1 * becomes 0 0 29 2 *; overlap: forbid becomes allow")
    asked.get_by_role("button", name="Restore version 1").click()
    expect(versions.locator("tbody tr")).to_have_count(3)
    assert console.service.ask("GET", "/v1/schedules/act/versions").json["cron"] == FAR


def a_backfill_is_shown_before_it_is_done(console: Console) -> None:
    console.service.create("act/backfill", cron="0 6 * * *", timezone="America/New_York")
    page = console.open("/schedules/act/backfill")
    page.get_by_role("button", name="Backfill…").click()
    dialog = page.get_by_role("dialog", name="Launch what was left out")
    today = datetime.now(UTC).date()
    dialog.get_by_label("From").fill(f"{today - timedelta(days=5)}T00:00:00")
    dialog.get_by_label("Until").fill(f"{today - timedelta(days=2)}T00:00:00")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.locator("tbody tr")).to_have_count(3)
    expect(dialog.locator("tbody tr").first).to_contain_text("06:00:00 GMT-")
    expect(dialog.locator("tbody tr").first).to_contain_text("there was no such schedule yet")
    assert not console.service.ask("GET", "/v1/launches?schedule=act/backfill").json["items"]
    dialog.get_by_role("button", name="Launch 3 occurrences").click()
    expect(page.get_by_role("region", name="History").locator("tbody tr")).to_have_count(3)
    expect(page.get_by_role("region", name="History")).to_contain_text("backfill")


def a_backfill_that_is_refused_says_why(console: Console) -> None:
    console.expects("400|422")
    console.service.create("act/backwards", cron="0 6 * * *")
    page = console.open("/schedules/act/backwards")
    page.get_by_role("button", name="Backfill…").click()
    dialog = page.get_by_role("dialog", name="Launch what was left out")
    dialog.get_by_label("From").fill("2026-01-02T00:00:00")
    dialog.get_by_label("Until").fill("2026-01-01T00:00:00")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("the end is not after the beginning")


def why_is_answered_in_place(console: Console) -> None:
    console.service.create("why/not", cron="0 6 * * *", timezone="America/New_York")
    page = console.open("/schedules/why/not")
    page.get_by_role("textbox", name="At", exact=True).fill("2026-01-05T06:00:00")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#why-answer")).to_contain_text("The schedule did not exist yet")
    expect(page.locator("#why-answer time")).to_have_text("2026-01-05 06:00:00 GMT-5")


def whoever_only_reads_is_offered_nothing_to_do(guarded_console: Console) -> None:
    service = guarded_console.service
    service.create("rights/one", cron=FAR)
    token = service.ask("POST", "/v1/tokens", {"name": "reader", "scopes": ["read"]}).json["token"]
    page = guarded_console.open("/schedules/rights/one", token=token)
    expect(page.get_by_role("heading", name="rights/one")).to_be_visible()
    expect(page.locator("[data-act], [data-opens], #acts a")).to_have_count(0)


def whoever_operates_may_pause_but_not_delete(guarded_console: Console) -> None:
    service = guarded_console.service
    service.create("rights/two", cron=FAR)
    token = service.ask("POST", "/v1/tokens", {"name": "operator", "scopes": ["operate"]}).json["token"]
    page = guarded_console.open("/schedules/rights/two", token=token)
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    expect(page.get_by_role("button", name="Delete…")).to_have_count(0)
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)


def what_never_was_is_told_as_that(console: Console) -> None:
    console.expects("404")
    page = console.open("/schedules/never/was")
    expect(page.locator("main")).to_contain_text(
        "there is no schedule 'never/was', and no record that there was"
    )


def everybody_can_use_the_page_in_light_and_dark(console: Console) -> None:
    _varied(console, "axe/varied")
    for scheme in ("light", "dark"):
        page = console.open("/schedules/axe/varied", scheme=scheme)
        expect(page.locator("#live-state")).to_have_text("live")
        _check_accessible(page)
        page.get_by_role("button", name="Backfill…").click()
        _check_accessible(page)


def a_phone_shows_the_whole_page_and_scrolls_only_its_charts(console: Console) -> None:
    _varied(console, "phone/varied")
    page = console.open("/schedules/phone/varied", width=390)
    expect(page.get_by_role("button", name="Run now")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    _check_accessible(page)


def the_page_stays_small_with_all_that_it_can_hold(console: Console) -> None:
    _backfilled(console, "size/hourly", cron="7 * * * *", days=30, wait=False)
    eventually(lambda: len(_launches(console, "size/hourly")) >= 200, within_s=60)
    for number in range(12):
        body = {"description": f"version {number}"}
        patch = {"content-type": "application/merge-patch+json"}
        console.service.ask("PATCH", "/v1/schedules/size/hourly", body, patch)
    sizes: dict[str, int] = {}
    page = console.blank()
    page.on(
        "response",
        lambda answer: sizes.update({answer.url: len(answer.body())} if _is_of_page(answer.url) else {}),
    )
    page.goto("/schedules/size/hourly")
    expect(page.locator("#live-state")).to_have_text("live")
    assert sum(sizes.values()) < PAGE_BYTES_MAX, sizes
    page.get_by_role("link", name="5 older versions").click()
    expect(page.get_by_role("region", name="Versions").locator("tbody tr")).to_have_count(13)


def _is_of_page(url: str) -> bool:
    return "/schedules/" in url or "/static/" in url


def _launches(console: Console, id: str) -> list[Any]:
    found: list[Any] = console.service.ask("GET", f"/v1/launches?schedule={id}&limit=1000").json["items"]
    return found


def _backfilled(console: Console, id: str, *, cron: str, days: int, wait: bool = True) -> datetime:
    """A schedule with launches on each of the days before today; the first of them."""
    console.service.create(id, cron=cron)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=days)
    wish = {"from": first.isoformat(), "until": today.isoformat()}
    answer = console.service.ask("POST", f"/v1/schedules/{id}:backfill", wish)
    assert answer.status == 200, answer
    if wait:
        number = answer.json["launches"]
        eventually(lambda: len([x for x in _launches(console, id) if x["state"] == "succeeded"]) == number)
    return first


def _varied(console: Console, id: str) -> None:
    """Something of everything: done, failed, open, paused, edited."""
    _backfilled(console, id, cron="0 6 * * *", days=5)
    put = {"cron": "0 6 * * *", "target": {"kind": "exec", "argv": ["/bin/false"]}, "labels": {"team": "x"}}
    console.service.ask("PUT", f"/v1/schedules/{id}", put)
    console.run(id, until=ENDED)
    console.service.ask("POST", f"/v1/schedules/{id}:pause", {"note": "for the test"})


def _check_accessible(page: Page) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
