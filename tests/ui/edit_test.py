"""Create and edit, while one writes: what is told, at which field, in a form or as JSON, and to whom."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, Page, Route, expect
from tests.api.conftest import schedule
from tests.ui.conftest import PHONE, Console
from tests.ui.forms import begun, field, reviewed, said
from tests.ui.forms import started as started

HOSTILE = """<script>alert(1)</script>"'<img src=x onerror=alert(2)>"""


# As one writes


def a_text_is_told_in_words(console: Console):
    page = begun(console.open("/new"), cron="0 9 * * MON-FRI", zone="Europe/Berlin")
    expect(page.locator("#explained")).to_have_text("At 09:00, Monday to Friday, Europe/Berlin.")


def the_next_ten_instants_are_those_that_the_api_tells(console: Console):
    console.service.create("told/ten", cron="30 2 * * *", timezone="Europe/Berlin")
    wanted = console.service.ask("GET", "/v1/schedules/told/ten:upcoming?count=10").json["items"]
    page = begun(console.open("/new"), cron="30 2 * * *", zone="Europe/Berlin")
    rows = said(page).get_by_role("row")
    expect(rows).to_have_count(11)
    expect(rows.nth(0)).to_contain_text("America/New_York")
    moments = page.locator("#said tbody time[data-zone]")
    found = moments.evaluate_all("all => all.map(each => Date.parse(each.dateTime))")
    assert found == page.evaluate("all => all.map(each => Date.parse(each))", wanted)
    expect(moments.first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d 02:30:00 C"))
    yours = page.locator("#said tbody td[data-yours] time").first
    expect(yours).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d (20|21):30:00 GMT"))


def a_time_that_the_clocks_leave_out_or_repeat_is_pointed_out(console: Console):
    page = begun(console.open("/new"), cron="30 2 * * *", zone="Europe/Berlin")
    expect(said(page)).to_contain_text(
        "clocks go from 02:00 to 03:00; the occurrence of 02:30 is launched at 03:00"
    )
    expect(said(page)).to_contain_text("02:30 comes twice and is launched the first time only")
    expect(page.locator("#said .felt")).to_have_count(2)
    field(page, "cron").fill("30 5 * * *")
    expect(said(page)).to_contain_text("none of its occurrences lies between 02:00 and 03:00")
    expect(page.locator("#said .felt")).to_have_count(0)


def a_mistake_is_told_at_its_field(console: Console):
    page = begun(console.open("/new"), cron="0 25 * * *")
    wrong = page.locator("#wrong-cron")
    expect(wrong).to_have_text("Hour: 25 is out of range. Allowed: 0-23.")
    expect(field(page, "cron")).to_have_attribute("aria-invalid", "true")
    assert "wrong-cron" in (field(page, "cron").get_attribute("aria-describedby") or "")
    field(page, "cron").fill("0 23 * * *")
    expect(wrong).to_be_hidden()
    expect(field(page, "cron")).not_to_have_attribute("aria-invalid", "true")


def every_mistake_is_told_and_not_only_the_first(console: Console):
    page = begun(console.open("/new"), id="a b", cron="0 25 * * *", zone="Europe/Atlantis")
    page.get_by_role("radio", name="http").check()
    field(page, "target-url").fill("nowhere")
    page.get_by_text("When it fails").click()
    field(page, "retry-limit").fill("often")
    field(page, "labels").fill("team")
    field(page, "payload").fill("{company: 7}")
    for key in ("id", "cron", "timezone", "target-url", "retry-limit", "labels", "payload"):
        expect(page.locator(f"#wrong-{key}")).to_be_visible()
    expect(page.locator("#wrong-timezone")).to_contain_text("Europe/Atlantis")
    expect(page.locator("#wrong-retry-limit")).to_have_text("It must be a whole number, not text.")


def what_was_not_touched_yet_is_not_called_a_mistake_until_it_is_saved(console: Console):
    page = console.open("/new")
    expect(page.locator("#to-mend")).to_have_text("Still to fill in: Id, Schedule text, Target")
    expect(page.locator("#edit .wrong:visible")).to_have_count(0)
    page.get_by_role("button", name="Review and create").click()
    expect(page.locator("#wrong-id")).to_be_visible()
    expect(field(page, "id")).to_be_focused()


def a_text_that_never_comes_is_refused_as_one_writes(console: Console):
    page = begun(console.open("/new"), cron="0 0 30 2 *")
    expect(page.locator("#wrong-cron")).to_contain_text("never comes")


def a_text_that_is_probably_another_one_is_asked_about(console: Console):
    page = begun(console.open("/new"), cron="* 2 * * *")
    expect(said(page)).to_contain_text("This is every minute from 02:00 to 02:59")
    said(page).get_by_role("button", name="0 2 * * *").click()
    expect(field(page, "cron")).to_have_value("0 2 * * *")
    expect(page.locator("#explained")).to_have_text("At 02:00, every day, UTC.")
    field(page, "cron").fill("*/2 * * * * *")
    expect(said(page)).to_contain_text("times a day")


def a_herd_is_told_and_a_question_mark_offered(started: Callable[..., Console]):
    console = started()
    lines = [json.dumps(schedule(f"herd/{number}", cron="0 9 * * *")) for number in range(1_001)]
    sent = {"content-type": "application/x-ndjson"}
    assert console.service.ask("POST", "/v1/import", "\n".join(lines).encode(), sent, raw=True).status == 200
    page = begun(console.open("/new"), cron="0 9 * * *")
    expect(page.locator("#herd")).to_contain_text(re.compile(r"1\D?001 others at this second"))
    page.get_by_role("button", name="Use ? ? 9 * * *").click()
    expect(field(page, "cron")).to_have_value("? ? 9 * * *")
    expect(page.locator("#herd")).to_be_hidden()
    expect(page.locator("#explained")).to_contain_text(re.compile(r"At 09:\d\d:\d\d, every day"))
    field(page, "cron").fill("0 9 * * *")
    page.get_by_role("button", name="Or a jitter of 5m").click()
    expect(field(page, "jitter")).to_have_value("5m")
    expect(field(page, "jitter")).to_be_focused()
    expect(page.locator("#herd")).to_be_hidden()


def _in_a_full_second(started: Callable[..., Console]) -> Page:
    """A new schedule for a second that has no room for it."""
    console = started("--herd-limit", "2", "--herd-action", "refuse")
    console.expects("400")
    for name in ("one", "two"):
        console.service.create(f"full/{name}", cron="0 9 * * *")
    page = begun(console.open("/new"), cron="0 9 * * *")
    expect(page.locator("#herd")).to_contain_text("This service refuses more than 2 in one second.")
    return page


def a_second_that_the_service_would_refuse_is_told_before_it_is_saved(started: Callable[..., Console]):
    page = _in_a_full_second(started)
    reviewed(page).get_by_role("button", name="Create it").click()
    expect(page.locator("#wrong-cron")).to_contain_text("one second may have 2")
    expect(field(page, "cron")).to_be_focused()


def a_check_that_was_under_way_does_not_take_a_refusal_away(started: Callable[..., Console]):
    page = _in_a_full_second(started)
    held: list[Route] = []
    page.route("**/new/check", lambda route: held.append(route))
    with page.expect_request("**/new/check"):
        field(page, "description").fill("what it is for")
    reviewed(page).get_by_role("button", name="Create it").click()
    expect(page.locator("#wrong-cron")).to_contain_text("one second may have 2")
    for route in held:
        with suppress(Error):  # it was given up
            route.continue_()
    page.unroute("**/new/check")
    # What an answer would do is done by then.
    page.evaluate("fetch('/healthz').then(() => new Promise(requestAnimationFrame))")
    expect(page.locator("#wrong-cron")).to_contain_text("one second may have 2")


def hostile_text_is_text(console: Console):
    console.service.create("hostile/one", description=HOSTILE, payload={"x": HOSTILE}, labels={"a": HOSTILE})
    page = console.open("/schedules/hostile/one:edit")
    expect(field(page, "description")).to_have_value(HOSTILE)
    expect(field(page, "labels")).to_have_value(f"a={HOSTILE}")
    field(page, "cron").fill(HOSTILE)
    expect(page.locator("#wrong-cron")).to_be_visible()
    field(page, "cron").fill("1 1 * * *")
    field(page, "description").fill(f"2{HOSTILE}")
    expect(reviewed(page)).to_contain_text(f"2{HOSTILE}")
    assert page.locator("main img, main script").count() == 0


# Form and JSON


def form_and_json_say_the_same(console: Console):
    page = begun(console.open("/new"), id="both/ways", cron="? 3 * * *", zone="Asia/Tokyo")
    page.get_by_role("radio", name="exec").check()
    page.get_by_label("A program and its arguments").check()
    field(page, "target-argv").fill("/bin/echo\na b")
    field(page, "payload").fill('{"big": 12345678901234567890, "one": 1.0}')
    field(page, "labels").fill("team=ops\ntier=gold")
    page.get_by_role("button", name="As JSON").click()
    text = field(page, "json").input_value()
    assert '12345678901234567890, "one": 1.0' in text
    assert json.loads(text)["target"] == {"kind": "exec", "argv": ["/bin/echo", "a b"]}
    field(page, "json").fill(text.replace('"gold"', '"silver"').replace("a b", "a\\nb"))
    page.get_by_role("button", name="Form").click()
    expect(field(page, "labels")).to_have_value("team=ops\ntier=silver")
    expect(field(page, "payload")).to_have_value('{"big": 12345678901234567890, "one": 1.0}')
    assert json.loads(field(page, "target-argv").input_value()) == ["/bin/echo", "a\nb"]
    reviewed(page).get_by_role("button", name="Create it").click()
    page.wait_for_url("**/schedules/both/ways")
    kept = console.service.ask("GET", "/v1/schedules/both/ways")
    assert b'"big":12345678901234567890,"one":1.0' in kept.body.replace(b" ", b"")
    assert kept.json["target"]["argv"] == ["/bin/echo", "a\nb"]
    assert kept.json["labels"] == {"team": "ops", "tier": "silver"}


def a_mistake_in_the_json_is_told_beneath_it(console: Console):
    page = begun(console.open("/new"))
    page.get_by_role("button", name="As JSON").click()
    field(page, "json").fill('{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "labelz": {}}')
    expect(page.locator("#wrong-json")).to_contain_text(
        "labelz: There is no such field. Did you mean labels?"
    )
    field(page, "json").fill('{"id": ')
    expect(page.locator("#wrong-json")).to_contain_text("This is not JSON")
    page.get_by_role("button", name="Form").click()
    expect(field(page, "json")).to_be_visible()


# What one may do


def whoever_may_not_write_is_told_why_and_given_no_form(guarded_console: Console):
    service = guarded_console.service
    guarded_console.expects("403")
    service.create("seen/only")
    token = service.ask("POST", "/v1/tokens", {"name": "reader", "scopes": ["read"]}).json["token"]
    for path in ("/new", "/schedules/seen/only:edit"):
        page = guarded_console.open(path, token=token)
        expect(page.get_by_role("main")).to_contain_text("the token 'reader' has not the scope 'write'")
        assert page.locator("#edit").count() == 0


def an_id_out_of_reach_is_told(guarded_console: Console):
    made = {"name": "narrow", "scopes": ["write"], "prefixes": ["billing/"]}
    token = guarded_console.service.ask("POST", "/v1/tokens", made).json["token"]
    page = begun(guarded_console.open("/new", token=token), id="payroll/x")
    expect(page.locator("#wrong-id")).to_contain_text("outside of what the token 'narrow' reaches")


def a_kind_that_this_service_does_not_launch_is_not_offered(started: Callable[..., Console]):
    console = started("--allow-exec", "no")
    page = console.open("/new")
    for kind, why in (
        ("exec", "the setting allow_exec forbids them"),
        ("kafka", "the setting kafka is not given"),
    ):
        expect(page.get_by_role("radio", name=kind)).to_be_disabled()
        expect(page.locator(f"#why-{kind}")).to_contain_text(why)
    expect(page.get_by_role("radio", name="http")).to_be_enabled()


# For everybody


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def the_form_with_all_that_it_can_say_breaks_no_rule_of_axe(console: Console, width, scheme):
    page = begun(console.open("/new", width=width, scheme=scheme), cron="* 2 * * *", zone="Europe/Berlin")
    field(page, "description").fill("x")
    page.get_by_role("radio", name="http").check()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    field(page, "target-url").fill("nowhere")
    expect(page.locator("#wrong-target-url")).to_be_visible()
    expect(said(page)).to_contain_text("When the clocks change")
    assert page.evaluate("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    field(page, "target-url").fill("http://127.0.0.1:9/x")
    reviewed(page)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
