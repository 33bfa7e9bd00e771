"""The overview: what needs a person first, then what happens, live, and what is to come."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.api.conftest import Service, eventually, schedule
from tests.receivers import hanging_up
from tests.ui.conftest import Console
from tests.ui.sample import doubtful, ended, run

from tocsin.replica.absence import ABSENCE_MS

BAD = {"kind": "exec", "shell": "echo the ledger is locked >&2; exit 3"}


@pytest.fixture
def fresh(start, tmp_path, chromium, trouble) -> Iterator[Console]:
    """A service of its own: nothing has happened here yet."""
    console = Console(start(tmp_path / "data"), chromium, trouble)
    yield console
    console.close()


@pytest.fixture(scope="module")
def dropping() -> Iterator[int]:
    with hanging_up() as port:
        yield port


def needs(page: Page):
    return page.get_by_role("region", name="What needs a person")


def legend(page: Page, words: str):
    return page.locator("#activity .legend li", has_text=words).locator("b")


def fails(service: Service, id: str) -> str:
    service.ask("PUT", f"/v1/schedules/{id}", schedule(id, target=BAD))
    return str(ended(service, run(service, id)["name"])["name"])


def chart(page: Page):
    return page.locator("#activity svg.bars")


def loaded(page: Page) -> Page:
    """With what is to come."""
    expect(legend(page, "to come")).not_to_have_text("–")
    return page


# What needs a person


def where_all_is_well_one_calm_line_says_so(fresh):
    page = fresh.open()
    expect(needs(page)).to_have_text(re.compile(r"✓\s+Nothing needs you\."))
    expect(needs(page)).to_have_class(re.compile("all-well"))


def what_failed_stands_first_with_its_reason_and_leads_to_the_launch(console):
    name = fails(console.service, "billing/ledger")
    page = console.open()
    expect(page.locator("main section").first).to_have_attribute("id", "needs")
    row = needs(page).get_by_role("listitem").filter(has_text=name).last
    expect(row).to_contain_text("exit status 3")
    row.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing/ledger")


def a_schedule_that_fails_again_and_again_is_named_once(fresh):
    fresh.service.create("again/often", cron="* * * * * *", target=BAD)
    page = fresh.open()
    rows = needs(page).locator(".plain li", has_text="again/often-")
    others = rows.get_by_role("link", name=re.compile(r"and [2-9]\d* more of this schedule"))
    expect(others).to_have_attribute("href", "/schedules/again/often")
    expect(rows).to_have_count(1)


def a_launch_in_doubt_asks_for_a_persons_word(console, dropping):
    name = doubtful(console.service, "doubt/hook", dropping)
    page = console.open()
    expect(needs(page)).to_contain_text("in doubt.")
    expect(needs(page)).to_contain_text("say what became of it")
    expect(needs(page).get_by_role("link", name=name)).to_have_attribute("href", f"/launches/{name}")


def what_was_missed_while_nobody_was_in_office_is_named_with_its_schedule(start, tmp_path, chromium, trouble):
    former = start(tmp_path / "data")
    former.create("missed/tick", cron="* * * * * *", missed="skip")
    former.stop()
    stopped_s = time.time()
    absence_s = ABSENCE_MS / 1000 + 1  # less than that is only late
    eventually(lambda: time.time() > stopped_s + absence_s)
    console = Console(start(tmp_path / "data"), chromium, trouble)
    page = console.open()
    expect(needs(page)).to_contain_text("1 stretch of occurrences was missed and given up")
    expect(needs(page).get_by_role("link", name="missed/tick")).to_have_attribute(
        "href", "/schedules/missed/tick"
    )
    console.close()


def what_begins_to_need_a_person_appears_by_itself(fresh):
    page = fresh.open()
    expect(needs(page)).to_contain_text("Nothing needs you.")
    page.evaluate("window.neverLoadedAgain = true")
    name = fails(fresh.service, "late/trouble")
    expect(needs(page)).to_contain_text(name)
    expect(needs(page)).to_have_class(re.compile("needs"))
    assert page.evaluate("window.neverLoadedAgain")


def the_links_to_all_of_a_kind_lead_somewhere(console, dropping):
    fails(console.service, "links/failed")
    doubtful(console.service, "links/doubt", dropping)
    console.service.create("links/open", target={"kind": "exec", "shell": "sleep 600"})
    run(console.service, "links/open")
    page = console.open()
    for link in page.locator("main a[href^='/launches?']").all():
        address = link.get_attribute("href")
        assert address is not None
        assert console.service.ask("GET", address, headers={"accept": "text/html"}).status == 200, address


# The chart


def a_launch_is_in_the_chart_moments_after_it_happened(fresh):
    fresh.service.create("now/and-then")
    page = loaded(fresh.open())
    expect(legend(page, "started on time")).to_have_text("0")
    expect(page.locator("#live-state")).to_have_text("live")
    ended(fresh.service, run(fresh.service, "now/and-then")["name"])
    expect(legend(page, "started on time")).to_have_text("1")
    expect(chart(page).locator("rect.s-started")).to_have_count(1)
    expect(chart(page)).to_have_attribute("aria-label", re.compile("1 started, 1 succeeded"))


def what_failed_hangs_below_the_line(console):
    fails(console.service, "chart/below")
    page = console.open()
    ground = chart(page).locator("line.ground").bounding_box()
    failed = chart(page).locator("rect.s-failed").last.bounding_box()
    assert ground is not None
    assert failed is not None
    assert failed["y"] >= ground["y"]
    assert failed["height"] >= 4


@pytest.mark.parametrize(
    ("span", "words"), [("hour", "minute"), ("day", "quarter of an hour"), ("week", "hour")]
)
def one_looks_back_an_hour_a_day_or_a_week(console, span, words):
    page = console.open()
    page.get_by_role("link", name=f"Last {span}").click()
    expect(page.get_by_role("heading", name=f"Launches per {words}", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=f"Last {span}")).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("img", name=f"Launches per {words} of the last {span}")).to_be_visible()


def what_is_to_come_goes_on_behind_now(fresh):
    for number in range(5):
        fresh.service.create(f"minutely/{number}", cron="* * * * *")
    page = loaded(fresh.open())
    now = chart(page).locator("line.mark").bounding_box()
    bars = chart(page).locator("rect.s-forecast")
    expect(bars.last).to_be_visible()
    assert now is not None
    assert all(box["x"] >= now["x"] - 20 for box in (bar.bounding_box() for bar in bars.all()) if box)
    # An hour of five each minute, but for the minute that is under way.
    told = int(legend(page, "to come").inner_text().replace("\u202f", "").replace(" ", ""))
    assert 5 * 58 <= told <= 5 * 60


def the_chart_does_not_jump_when_what_is_to_come_has_been_counted(fresh):
    fresh.service.create("jump/not", cron="* * * * *")
    first = fresh.open(java_script_enabled=False)  # so it stays as it was first answered
    expect(chart(first)).to_contain_text("counting what is to come")
    later = loaded(fresh.open())
    expect(chart(later).locator("rect.s-forecast").first).to_be_visible()
    expect(chart(later)).not_to_contain_text("counting")
    assert first.locator("#activity-frame").bounding_box() == later.locator("#activity-frame").bounding_box()


def what_is_to_come_is_counted_once_for_all_who_watch(fresh):
    fresh.service.create("once/for-all", cron="* * * * *")
    loaded(fresh.open())
    second = fresh.open()
    expect(legend(second, "to come")).not_to_have_text("–")
    assert second.locator("#activity-frame").get_attribute("data-lazy") is None


def hours_are_those_of_the_reader(fresh):
    fresh.open().wait_for_function("document.cookie.includes('zone=')")
    page = fresh.contexts[-1].new_page()
    page.goto("/?span=day")
    expect(page.locator("#activity")).to_contain_text("Times are in America/New_York.")


# How things stand


def the_oldest_open_launches_are_named_first(fresh):
    for id in ("open/first", "open/second"):
        fresh.service.create(id, target={"kind": "exec", "shell": "sleep 600"})
        run(fresh.service, id)
    card = fresh.open().get_by_role("region", name="Open launches")
    expect(card.locator(".plain a")).to_have_text([re.compile("^open/first-"), re.compile("^open/second-")])
    expect(card).to_contain_text(re.compile(r"(Running|Started)\s*[12]"))


def lateness_schedules_and_what_is_next_are_told(fresh):
    fresh.service.create("tick/second", cron="* * * * * *")
    fresh.service.create("paused/one", enabled=False)
    page = fresh.open()
    card = page.get_by_role("region", name="Schedules")
    expect(card).to_contain_text(re.compile(r"Held\s*2\s*Enabled\s*1\s*Next due"))
    expect(card).to_contain_text(re.compile(r"99 of 100 within\s*[\d.]+ m?s"))


def a_machine_on_its_own_is_told_as_one(console):
    card = console.open().get_by_role("region", name="This machine")
    expect(card).to_contain_text("Leads")
    expect(card).to_contain_text("no place for any")


# Who may see what


def whoever_reaches_a_part_is_shown_no_foreign_name(guarded_console):
    service = guarded_console.service
    own, foreign = fails(service, "mine/bad"), fails(service, "theirs/bad")
    service.create("theirs/open", target={"kind": "exec", "shell": "sleep 600"})
    run(service, "theirs/open")
    body = {"name": "reader", "scopes": ["read"], "prefixes": ["mine"]}
    token = service.ask("POST", "/v1/tokens", body).json["token"]
    page = loaded(guarded_console.open(token=token))
    expect(needs(page)).to_contain_text(own)
    assert foreign in guarded_console.open(token=service.token).content()
    assert "theirs" not in page.content()
    expect(page.get_by_text("named only where your token reaches")).to_be_visible()
