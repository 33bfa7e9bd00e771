"""The list of schedules: found as one types, done to many at once, true while somebody looks at it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.api.conftest import Service, eventually, schedule
from tests.ui.conftest import PHONE, Console

NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module", autouse=True)
def filled(service: Service) -> None:
    """Two hundred schedules, of four teams, some of them paused."""
    made = [
        schedule(
            f"{('billing', 'etl', 'mail', 'reports')[n % 4]}/job-{n:03}",
            labels={"team": ("finance", "growth")[n % 2], **({"tier": "gold"} if n % 50 == 7 else {})},
            target={"kind": "http", "url": "http://127.0.0.1:9/x"} if n % 5 == 0 else {"kind": "null"},
            timezone="Europe/Berlin",
            enabled=n % 10 != 3,
        )
        for n in range(200)
    ]
    brought(service, made)


def brought(service: Service, made: list[Any]) -> None:
    body = b"".join(json.dumps(each).encode() + b"\n" for each in made)
    assert service.ask("POST", "/v1/import", body, NDJSON, raw=True).status == 200


def names(page: Page) -> Any:
    return page.locator("table.schedules a.name")


def tick(page: Page, *ids: str) -> None:
    for id in ids:
        page.get_by_role("checkbox", name=f"Select {id}", exact=True).check()


def answer(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()


# To find


def ids_are_found_as_they_are_typed_and_the_address_follows(console: Console) -> None:
    page = console.open("/schedules")
    expect(names(page)).to_have_count(50)
    page.keyboard.press("/")
    page.keyboard.type("mail/job-01")
    expect(names(page)).to_have_text(["mail/job-010", "mail/job-014", "mail/job-018"])
    expect(page).to_have_url(re.compile(r"/schedules\?q=mail%2Fjob-01$"))
    expect(page.get_by_role("status").filter(has_text="3 schedules")).to_have_count(1)
    page.reload()
    expect(names(page)).to_have_count(3)
    expect(page.get_by_role("searchbox")).to_have_value("mail/job-01")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("label:tier=gold", 4),
        ("label:tier", 4),
        ("etl/ label:team=finance", 0),
        ("target:http state:paused", 0),
        ("mail/ target:http", 10),
        ("state:paused billing/", 0),
        ("*B-07 state:enabled", 9),
        ("job-19", 10),
    ],
)
def a_search_says_what_it_wants_in_a_few_words(console: Console, text: str, count: int) -> None:
    page = console.open("/schedules")
    page.get_by_role("searchbox").fill(text)
    expect(names(page)).to_have_count(count)


def what_is_not_understood_finds_nothing_and_says_why(console: Console) -> None:
    page = console.open("/schedules?q=target:htp")
    expect(page.locator("#found")).to_have_text("there is no target 'htp': exec, http, kafka, nats, null.")
    expect(names(page)).to_have_count(0)


def the_selects_write_into_the_search_and_show_what_stands_there(console: Console) -> None:
    page = console.open("/schedules?q=etl/")
    page.get_by_label("State").select_option("paused")
    expect(page.get_by_role("searchbox")).to_have_value("etl/ state:paused")
    expect(names(page)).to_have_count(10)
    page.get_by_role("searchbox").fill("etl/ target:http")
    expect(page.get_by_label("State")).to_have_value("")
    expect(page.get_by_label("Target")).to_have_value("http")
    expect(names(page)).to_have_count(10)


def a_page_leads_to_the_next_and_back_goes_back(console: Console) -> None:
    page = console.open("/schedules")
    expect(names(page).first).to_have_text("billing/job-000")
    page.get_by_role("link", name="Next page").click()
    expect(names(page).first).to_have_text("etl/job-001")
    expect(page.locator("#found")).to_be_focused()
    page.go_back()
    expect(names(page).first).to_have_text("billing/job-000")


def the_order_is_by_id_either_way_or_by_the_next_instant(console: Console) -> None:
    console.service.create("soonest", cron="0 0 1 1 *")
    page = console.open("/schedules")
    page.get_by_role("button", name="Schedule").click()
    expect(names(page).first).to_have_text("soonest")
    expect(names(page).nth(1)).to_have_text("reports/job-199")
    page.get_by_role("button", name="Next").click()
    expect(names(page).first).to_have_text("soonest")
    expect(page).to_have_url(re.compile("sort=next"))
    expect(page.get_by_label("Order")).to_have_value("next")
    assert console.service.ask("DELETE", "/v1/schedules/soonest").status == 204


def much_is_looked_through_part_by_part_until_something_is_found(
    console: Console, start: Any, tmp_path: Any
) -> None:
    """Twenty-five thousand, which is more than one answer looks into; two of them are wanted."""
    console.service = start(tmp_path / "data")
    made = [
        schedule(f"many/{n:05}", labels={"rare": "yes"} if n in (5, 24_000) else {}) for n in range(25_000)
    ]
    brought(console.service, made)
    page = console.open("/schedules?q=label:rare")
    expect(names(page)).to_have_text(["many/00005", "many/24000"])
    expect(page.locator("#found")).to_have_text("2, and no more.")
    page.close()  # the service goes before the browser does


# What a row tells


def a_row_tells_its_next_instant_in_both_zones(console: Console) -> None:
    page = console.open("/schedules?q=billing/job-000")
    moments = page.locator("td.coming time")
    expect(moments.nth(1)).to_have_text(re.compile(r"^20\d\d-02-28 18:00:00 GMT-5$"))
    expect(moments.nth(2)).to_have_text(re.compile(r"^20\d\d-02-29 00:00:00 CET$"))


def the_last_outcomes_stand_in_a_row_and_each_leads_to_its_launch(console: Console) -> None:
    console.service.create("seen/fails", target={"kind": "exec", "shell": "exit 3"})
    launch = console.run("seen/fails", until=("failed",))
    page = console.open("/schedules?q=seen/fails")
    group = page.get_by_role("group", name="Last outcomes: 1 failed; the newest failed")
    square = group.get_by_role("link")
    expect(square).to_have_attribute("href", f"/launches/{launch['name']}")
    assert "failed, by hand, 20" in square.locator("title").text_content()
    assert "exit status 3" in square.locator("title").text_content()
    page.get_by_role("searchbox").fill("state:trouble")
    expect(names(page)).to_have_text(["seen/fails"])


def rows_stay_true_and_what_is_selected_stays_selected(console: Console) -> None:
    console.service.create("live/one")
    page = console.open("/schedules?q=live/")
    tick(page, "live/one")
    box = page.get_by_role("checkbox", name="Select live/one")
    expect(box).to_be_focused()
    console.run("live/one", until=("succeeded",))
    expect(page.get_by_role("group", name="Last outcomes: 1 succeeded")).to_be_visible()
    assert console.service.ask("POST", "/v1/schedules/live/one:pause", {"note": "elsewhere"}).status == 200
    expect(page.locator("td.coming")).to_contain_text("paused")
    expect(box).to_be_checked()
    expect(box).to_be_focused()


def what_is_new_comes_by_itself_while_nobody_does_anything(console: Console) -> None:
    page = console.open("/schedules?q=arrives/")
    expect(page.locator("#found")).to_have_text("No schedule matches.")
    expect(page.locator("#live-state")).to_have_text("live")
    console.service.create("arrives/now")
    expect(names(page)).to_have_text(["arrives/now"])


# What is done to many


def many_are_paused_with_a_note_and_it_can_be_undone(console: Console) -> None:
    page = console.open("/schedules?q=reports/job-0 state:enabled")
    tick(page, "reports/job-007", "reports/job-011")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog", name="Pause 2 schedules?")
    expect(dialog).to_contain_text("reports/job-011")
    dialog.get_by_label("Why").fill("the bank is down")
    answer(page, "Pause 2 schedules")
    expect(page.get_by_text("2 schedules paused.")).to_be_visible()
    paused = console.service.ask("GET", "/v1/schedules/reports/job-007").json
    assert (paused["enabled"], paused["note"]) == (False, "the bank is down")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    assert console.service.ask("GET", "/v1/schedules/reports/job-011").json["enabled"] is True


def those_that_are_that_already_are_left_alone(console: Console) -> None:
    page = console.open("/schedules?q=billing/job-00")
    tick(page, "billing/job-000", "billing/job-004")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Nothing to do: they are resumed already.")).to_be_visible()


def all_that_match_are_deleted_by_their_exact_count_and_brought_back(console: Console) -> None:
    brought(console.service, [schedule(f"trial/{n:03}", labels={"n": str(n)}) for n in range(60)])
    page = console.open("/schedules?q=trial/")
    page.get_by_role("checkbox", name="Select all on this page").check()
    expect(page.locator("#selected")).to_have_text("50 selected")
    page.get_by_role("button", name="Select all that match").click()
    expect(page.locator("#selected")).to_have_text("60 selected")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog", name="Delete 60 schedules?")
    expect(dialog).to_contain_text("trial/000")
    expect(dialog).to_contain_text("and 55 more")
    expect(dialog.get_by_role("button", name="Leave it")).to_be_focused()
    answer(page, "Delete 60 schedules")
    expect(page.get_by_text("60 schedules deleted.")).to_be_visible()
    expect(names(page)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    expect(names(page)).to_have_count(50)
    assert console.service.ask("GET", "/v1/schedules/trial/059").json["labels"] == {"n": "59"}


def whoever_leaves_it_has_changed_nothing(console: Console) -> None:
    page = console.open("/schedules?q=etl/job-001")
    tick(page, "etl/job-001")
    page.get_by_role("button", name="Delete…").click()
    answer(page, "Leave it")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert console.service.ask("GET", "/v1/schedules/etl/job-001").status == 200
    expect(page.locator("#selected")).to_have_text("1 selected")


def a_label_is_set_on_many_and_undo_gives_each_what_it_had(console: Console) -> None:
    page = console.open("/schedules?q=mail/job-02")
    tick(page, "mail/job-022", "mail/job-026")
    console.service.ask("PATCH", "/v1/schedules/mail/job-026", {"labels": {"owner": "ann"}})
    page.get_by_role("button", name="Label…").click()
    dialog = page.get_by_role("dialog", name="Label 2 schedules?")
    dialog.get_by_label("Label").fill("owner")
    dialog.get_by_label("Value").fill("bob")
    dialog.get_by_label("Value").press("Enter")
    expect(page.get_by_text("2 schedules labelled.")).to_be_visible()
    expect(page.get_by_role("button", name="owner=bob")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    labels = [console.service.ask("GET", f"/v1/schedules/mail/job-02{n}").json["labels"] for n in (2, 6)]
    assert [each.get("owner") for each in labels] == [None, "ann"]


def many_are_run_now(console: Console) -> None:
    page = console.open("/schedules?q=etl/job-05")
    tick(page, "etl/job-053", "etl/job-057")
    page.get_by_role("button", name="Run now…").click()
    answer(page, "Run 2 schedules")
    expect(page.get_by_text("2 schedules launched.")).to_be_visible()
    expect(page.locator(".squares")).to_have_count(2)


def what_was_deleted_elsewhere_is_told_when_it_is_refused(console: Console) -> None:
    console.service.create("vanishes/one")
    console.service.create("vanishes/two")
    page = console.open("/schedules?q=vanishes/")
    tick(page, "vanishes/one", "vanishes/two")
    assert console.service.ask("DELETE", "/v1/schedules/vanishes/one").status == 204
    page.get_by_role("button", name="Run now…").click()
    answer(page, "Run 2 schedules")
    expect(page.get_by_text("1 schedule launched.")).to_be_visible()
    expect(page.get_by_text("1 schedule was refused. vanishes/one: there is no schedule")).to_be_visible()


# Who may what


@pytest.mark.parametrize(
    ("scopes", "offered"),
    [
        (["read"], []),
        (["operate"], ["Pause…", "Resume", "Run now…"]),
        (["write"], ["Label…", "Delete…"]),
    ],
)
def what_one_may_not_do_is_not_offered(
    guarded_console: Console, scopes: list[str], offered: list[str]
) -> None:
    service = guarded_console.service
    name = "-".join(scopes)
    service.ask("PUT", "/v1/schedules/theirs/one", schedule("theirs/one"))
    service.ask("PUT", "/v1/schedules/others/one", schedule("others/one"))
    wish = {"name": name, "scopes": scopes, "prefixes": ["theirs/"]}
    token = service.ask("POST", "/v1/tokens", wish).json["token"]
    page = guarded_console.open("/schedules", token=token)
    expect(names(page)).to_have_text(["theirs/one"])
    boxes = page.get_by_role("checkbox", name="Select theirs/one")
    expect(boxes).to_have_count(1 if offered else 0)
    if offered:
        boxes.check()
    buttons = page.locator("[data-bulk]")
    expect(buttons).to_have_text(offered)
    expect(page.get_by_role("link", name="New schedule")).to_have_count(1 if "write" in scopes else 0)


# For everybody


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def a_list_with_a_selection_breaks_no_rule_of_axe(console: Console, width: int, scheme: str) -> None:
    page = console.open("/schedules?q=billing/", width=width, scheme=scheme)
    tick(page, "billing/job-000")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def squares_are_one_stop_for_the_keyboard_and_arrows_move_in_them(console: Console) -> None:
    console.service.create("keys/one", cron="@every 1s", target={"kind": "null"})
    eventually(lambda: len(console.service.ask("GET", "/v1/launches?schedule=keys/one").json["items"]) > 2)
    assert console.service.ask("POST", "/v1/schedules/keys/one:pause", {}).status == 200
    page = console.open("/schedules?q=keys/")
    page.keyboard.press("j")
    expect(names(page).first).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", name="Select keys/one")).to_be_checked()
    page.keyboard.press("Tab")
    squares = page.locator(".squares a")
    expect(squares.last).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(squares.nth(-2)).to_be_focused()


def the_page_is_small(console: Console) -> None:
    """Of fifty rows with twelve squares each, the whole page; scripts and style come beside it."""
    made = [schedule(f"full/{'x' * 30}-{n:02}", cron="@every 1s", target={"kind": "null"}) for n in range(50)]
    brought(console.service, made)
    eventually(
        lambda: (
            len(console.service.ask("GET", f"/v1/launches?schedule={made[-1]['id']}").json["items"]) >= 12
        ),
        within_s=30,
    )
    console.service.ask("POST", "/v1/bulk", {"action": "pause", "selector": {"prefix": "full/"}})
    page = console.blank()
    sizes: list[int] = []
    page.on("response", lambda got: sizes.append(len(got.body())) if "/live" not in got.url else None)
    page.goto("/schedules?q=full/")
    expect(page.locator(".squares a")).to_have_count(600)
    page.wait_for_load_state("load")
    assert sum(sizes) < 200_000, sizes
