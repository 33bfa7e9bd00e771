"""The list of launches: the newest first, by state, schedule and time, true while somebody looks at it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.api.conftest import Service, eventually, schedule
from tests.ui.conftest import PHONE, Console

ENDED = ("succeeded", "failed")


@pytest.fixture(scope="module", autouse=True)
def filled(service: Service) -> None:
    """One that succeeded, two that failed, one that runs for as long as the tests do; one after the other."""
    ends = {"a/good": "succeeded", "a/bad": "failed", "b/bad": "failed", "b/long": "running"}
    for id, state in ends.items():
        shell = "exit 3" if state == "failed" else "sleep 600"
        service.create(
            id, target={"kind": "null"} if state == "succeeded" else {"kind": "exec", "shell": shell}
        )
        assert service.ask("POST", f"/v1/schedules/{id}:run").status == 202
        address = f"/v1/launches?schedule={id}&state={state}"
        eventually(lambda address=address: service.ask("GET", address).json["items"])


def shown(page: Page) -> Any:
    return page.locator("table.launches th.id a")


def the_newest_come_first_and_each_leads_to_itself_and_its_schedule(console: Console) -> None:
    page = console.open("/launches")
    expect(shown(page).first).to_have_text("b/long")
    row = page.get_by_role("row").filter(has_text="b/bad")
    expect(row).to_contain_text("exit status 3")
    expect(row.get_by_role("link", name="b/bad", exact=True)).to_have_attribute("href", "/schedules/b/bad")
    expect(row.get_by_role("link", name="failed: launch b/bad")).to_have_attribute(
        "href", re.compile(r"^/launches/b/bad-\d+-manual$")
    )


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("state=failed", ["b/bad", "a/bad"]),
        ("state=trouble", ["b/bad", "a/bad"]),
        ("state=in_doubt", []),
        ("state=open", ["b/long"]),
        ("state=succeeded,running", ["b/long", "a/good"]),
        ("schedule=a/", ["a/bad", "a/good"]),
        ("schedule=a/&state=failed", ["a/bad"]),
        ("schedule=b/long", ["b/long"]),
        ("since=1 h&schedule=b/", ["b/long", "b/bad"]),
        ("until=1 h", []),
        ("since=2030-01-01", []),
        ("since=2020-01-01T00:00:00%2B02:00&until=2030-01-01 00:00&state=failed", ["b/bad", "a/bad"]),
    ],
)
def a_filter_leaves_what_holds_it(console: Console, query: str, ids: list[str]) -> None:
    page = console.open(f"/launches?{query}")
    expect(shown(page)).to_have_text(ids)


def what_is_filled_in_finds_at_once_and_the_address_follows(console: Console) -> None:
    page = console.open("/launches")
    page.get_by_label("State").select_option("failed or in doubt")
    expect(shown(page)).to_have_text(["b/bad", "a/bad"])
    page.get_by_label("Schedule").fill("a/")
    expect(shown(page)).to_have_text(["a/bad"])
    expect(page).to_have_url(re.compile(r"state=trouble&schedule=a%2F$"))
    page.reload()
    expect(page.get_by_label("State")).to_have_value("trouble")
    expect(shown(page)).to_have_text(["a/bad"])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("state=broken", "there is no state 'broken'"),
        ("since=yesterday", "'yesterday' is not a moment"),
        ("schedule=-x", "no id begins with '-x'"),
    ],
)
def what_is_not_understood_finds_nothing_and_says_why(console: Console, query: str, words: str) -> None:
    page = console.open(f"/launches?{query}")
    expect(page.locator("#found")).to_contain_text(words)
    expect(shown(page)).to_have_count(0)


def a_launch_that_starts_comes_by_itself(console: Console) -> None:
    console.service.create("new/one")
    page = console.open("/launches?schedule=new/one")
    expect(page.locator("#found")).to_have_text("No launch matches.")
    expect(page.locator("#live-state")).to_have_text("live")
    console.run("new/one", until=ENDED)
    expect(shown(page)).to_have_text(["new/one"])
    expect(page.get_by_role("row").last).to_contain_text("succeeded")


def a_long_history_has_pages_and_back_goes_back(console: Console) -> None:
    made = [schedule(f"page/{n:03}") for n in range(70)]
    body = b"".join(json.dumps(each).encode() + b"\n" for each in made)
    console.service.ask("POST", "/v1/import", body, {"content-type": "application/x-ndjson"}, raw=True)
    console.service.ask("POST", "/v1/bulk", {"action": "run", "selector": {"prefix": "page/"}})
    page = console.open("/launches?schedule=page/")
    expect(shown(page)).to_have_count(50)
    first = shown(page).first.text_content()
    page.get_by_role("link", name="Older ones").click()
    expect(shown(page)).to_have_count(20)
    expect(page.locator("#found")).to_be_focused()
    page.go_back()
    expect(shown(page)).to_have_count(50)
    expect(shown(page).first).to_have_text(first or "")


def only_what_a_token_reaches_is_shown(guarded_console: Console) -> None:
    service = guarded_console.service
    for id in ("mine/one", "other/one"):
        service.create(id)
        assert service.ask("POST", f"/v1/schedules/{id}:run").status == 202
    wish = {"name": "mine", "scopes": ["read"], "prefixes": ["mine/"]}
    token = service.ask("POST", "/v1/tokens", wish).json["token"]
    page = guarded_console.open("/launches", token=token)
    expect(shown(page)).to_have_text(["mine/one"])
    page.goto("/launches?schedule=other/one")
    expect(page.locator("#found")).to_have_text("No launch matches.")


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def the_list_breaks_no_rule_of_axe_and_fits(console: Console, width: int, scheme: str) -> None:
    page = console.open("/launches", width=width, scheme=scheme)
    expect(shown(page).first).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
