"""The page of a launch: its steps, its output while it runs, and what a person does about it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.api.conftest import eventually
from tests.receivers import hanging_up
from tests.ui.conftest import Console
from tests.ui.sample import doubtful, ended, run


@pytest.fixture(scope="module")
def dropping() -> Iterator[int]:
    """The port of a receiver that takes every call and hangs up without a word."""
    with hanging_up() as port:
        yield port


def _shell(console: Console, id: str, script: str, **more: object) -> str:
    """The name of a launch of this script."""
    console.service.create(id, target={"kind": "exec", "shell": script}, **more)
    return run(console.service, id)["name"]


def _page(console: Console, name: str, query: str = "") -> Page:
    page = console.open(f"/launches/{name}{query}")
    page.evaluate("window.neverLoadedAgain = true")
    return page


def _stayed(page: Page) -> bool:
    return bool(page.evaluate("window.neverLoadedAgain === true"))


def every_step_is_told_with_its_time_and_who_was_in_office(console):
    name = _shell(
        console, "steps/all", "echo no luck; exit 3", retry={"limit": 1, "backoff": "1s", "jitter": 0}
    )
    ended(console.service, name)
    page = _page(console, name)
    steps = page.locator(".steps li")
    told = [text.split("\n")[0] for text in steps.all_inner_texts()]
    assert [title for title in told if title != "Accepted by its target"] == [
        "Asked for by hand",
        "Attempt 1 decided",
        "Acknowledged, then handed over",
        "Attempt 1 ended",
        "Attempt 2 decided",
        "Acknowledged, then handed over",
        "Failed",
    ]
    expect(steps.nth(0)).to_contain_text("by local")
    expect(steps.nth(1)).to_contain_text(re.compile(r"\d\d:\d\d:\d\d\.\d{3} GMT-[45] \+\d+ ms · \S+, term 1"))
    expect(steps.nth(2)).to_contain_text("Nothing reaches a target before the entry is safe on disk")
    expect(steps.nth(2).locator("time")).to_have_count(0)
    expect(steps.nth(3)).to_contain_text("exit status 3")
    expect(page.locator("#launch")).to_contain_text("By hand. It was launched and failed: exit status 3")
    expect(page.get_by_role("img", name=re.compile("attempt 1 took .*; attempt 2 took"))).to_be_visible()
    for fact in ("Exit status\n3", "Attempt\n2\nof at most 2", "version 1\nthe present one, exec"):
        assert fact in page.locator(".facts").inner_text()


def output_is_followed_while_it_runs_and_the_end_is_seen_without_a_reload(console, tmp_path):
    go_on = tmp_path / "go-on"
    name = _shell(
        console, "output/live", f"echo first; until [ -e {go_on} ]; do sleep 0.05; done; echo second"
    )
    page = _page(console, name)
    expect(page.locator("#printed")).to_have_text("first\n")
    expect(page.locator("#launch .state")).to_contain_text("running")
    expect(page.locator("#output-words")).to_have_text("Attempt 1 is running: this goes on by itself.")
    go_on.touch()
    expect(page.locator("#printed")).to_have_text("first\nsecond\n")
    expect(page.locator("#output-words")).to_have_text("All that is kept of attempt 1.")
    expect(page.locator("#launch .state")).to_contain_text("succeeded")
    expect(page).to_have_title("succeeded: output/live · Tocsin")
    expect(page.locator(".steps")).to_contain_text("Succeeded")
    assert _stayed(page)


def whoever_scrolls_up_is_left_there(console, tmp_path):
    go_on = tmp_path / "go-on"
    name = _shell(
        console, "output/scrolled", f"seq 500; until [ -e {go_on} ]; do sleep 0.05; done; echo more; seq 100"
    )
    page = _page(console, name)
    printed = page.locator("#printed")
    expect(printed).to_contain_text("500")
    at_end = "pre => pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24"
    assert printed.evaluate(at_end)
    printed.evaluate("pre => { pre.scrollTop = 40; }")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_be_visible()
    go_on.touch()
    expect(printed).to_contain_text("more")
    assert printed.evaluate("pre => pre.scrollTop") == 40
    follow.click()
    expect(follow).to_be_hidden()
    assert printed.evaluate(at_end)


def what_a_terminal_would_obey_is_harmless_text(console):
    script = r"printf '\033[31mred\033[0m \033]0;title\007bell\007 <script>alert(1)</script> \342\200\256gnp\r\nend\n'"
    page = _page(console, ended(console.service, _shell(console, "output/escapes", script))["name"])
    expect(page.locator("#printed")).to_have_text("red bell␇ <script>alert(1)</script> <U+202E>gnp\nend\n")
    assert page.locator("#printed script").count() == 0


def an_escape_that_comes_in_two_pieces_is_taken_out_too(console, tmp_path):
    go_on = tmp_path / "go-on"
    script = f"printf 'one \\033[3'; until [ -e {go_on} ]; do sleep 0.05; done; printf '1mtwo'"
    page = _page(console, _shell(console, "output/pieces", script))
    expect(page.locator("#printed")).to_have_text("one ")
    go_on.touch()
    expect(page.locator("#printed")).to_have_text("one two")


def of_very_much_output_the_beginning_and_the_end_are_shown(console):
    page = _page(console, ended(console.service, _shell(console, "output/huge", "seq 200000"))["name"])
    printed = page.locator("#printed")
    expect(printed).to_contain_text("bytes were not kept")
    text = printed.inner_text()
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("199999\n200000\n")
    assert len(text) < 150_000


def each_attempt_has_an_output_of_its_own(console, tmp_path):
    seen = tmp_path / "seen"
    script = f'echo "this is attempt $TOCSIN_ATTEMPT"; until [ -e {seen} ]; do sleep 0.1; done; exit 1'
    name = _shell(console, "output/attempts", script, retry={"limit": 1, "backoff": "1s", "jitter": 0})
    page = _page(console, name)
    expect(page.locator("#printed")).to_have_text("this is attempt 1\n")
    seen.touch()
    expect(page.locator("#printed")).to_have_text("this is attempt 2\n")
    assert _stayed(page)
    page.get_by_role("link", name="attempt 1").click()
    expect(page.locator("#printed")).to_have_text("this is attempt 1\n")
    expect(page.get_by_role("link", name="attempt 1")).to_have_attribute("aria-current", "true")


def where_nothing_was_printed_it_is_told_why(console, dropping):
    silent = ended(console.service, _shell(console, "output/silent", "true"))["name"]
    expect(_page(console, silent).locator("#output-words")).to_have_text("Attempt 1 printed nothing.")
    called = doubtful(console.service, "output/http", dropping)
    expect(_page(console, called).locator("#output")).to_contain_text(
        "A target of kind http captures no output"
    )


def a_running_launch_is_cancelled_with_a_reason(console):
    name = _shell(console, "acts/long", "sleep 600")
    page = _page(console, name)
    page.get_by_role("button", name="Cancel this launch").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text(f"Cancel {name}?")
    asked.get_by_role("button", name="Leave it").click()
    expect(asked).to_be_hidden()
    page.get_by_role("button", name="Cancel this launch").click()
    page.get_by_label("Why?").fill("not needed <b>any</b> more")
    asked.get_by_role("button", name="Cancel the launch").click()
    expect(page.locator("#notices")).to_contain_text("It is told to stop.")
    expect(page.locator("#launch .state")).to_contain_text("cancelled")
    expect(page.locator(".steps")).to_contain_text("Cancelling asked for by local not needed <b>any</b> more")
    expect(page.get_by_role("button", name="Cancel this launch")).to_have_count(0)
    assert _stayed(page)


def a_launch_in_doubt_is_cancelled_and_stays_in_doubt(console, dropping):
    name = doubtful(console.service, "acts/doubt-cancelled", dropping)
    page = _page(console, name)
    page.get_by_role("button", name="Cancel this launch").click()
    page.get_by_label("Why?").fill("enough")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the launch").click()
    expect(page.locator("#notices")).to_contain_text("if its replica tells that it runs")
    expect(page.locator(".steps")).to_contain_text("Cancelling asked for by local enough")
    expect(page.locator("#launch .state")).to_contain_text("in doubt")


def a_doubt_is_ended_by_saying_what_became_of_it(console, dropping):
    name = doubtful(console.service, "acts/doubt", dropping)
    page = _page(console, name)
    expect(page.locator("#launch")).to_contain_text("It is in doubt whether it was launched")
    page.get_by_label("It succeeded").check()
    page.get_by_label("How do you know?").fill("the bank has it")
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator("#launch .state")).to_contain_text("succeeded")
    expect(page.locator(".steps")).to_contain_text("Resolved by local succeeded: the bank has it")
    expect(page.get_by_role("heading", name="What became of it?")).to_have_count(0)
    view = console.service.ask("GET", f"/v1/launches/{name}").json
    assert (view["state"], view["reason"]) == ("succeeded", "resolved: the bank has it")


def a_doubtful_launch_is_called_again_under_its_name(console, dropping):
    page = _page(console, doubtful(console.service, "acts/again", dropping))
    page.get_by_label("Call it again").check()
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".steps")).to_contain_text("Attempt 2 decided")
    expect(page.locator(".steps")).to_contain_text("Resolved by local launched again")


def what_somebody_is_filling_in_is_left_alone(console, dropping):
    page = _page(console, doubtful(console.service, "acts/filling", dropping))
    page.get_by_label("How do you know?").fill("the bank")
    page.locator("#launch .of").click()
    with page.expect_response(lambda answer: answer.url == page.url):
        console.service.create("acts/one-more")
    expect(page.get_by_label("How do you know?")).to_have_value("the bank")


def launches_of_a_schedule_lead_to_each_other(console):
    first = ended(console.service, _shell(console, "beside/one", "true"))["name"]
    _next_second(first)
    second = console.run("beside/one", until=("succeeded",))["name"]
    page = _page(console, first)
    expect(page.get_by_text("no earlier one")).to_be_visible()
    page.get_by_role("link", name="Later").click()
    expect(page).to_have_url(re.compile(re.escape(second)))
    page.get_by_role("link", name="Earlier").click()
    expect(page).to_have_url(re.compile(re.escape(first)))
    expect(page.get_by_role("link", name="beside/one")).to_have_attribute("href", "/schedules/beside/one")


def run_now_leads_to_the_new_launch(console):
    first = ended(console.service, _shell(console, "acts/run", "echo done"))["name"]
    page = _page(console, first)
    _next_second(first)
    page.get_by_role("button", name="Run now again").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url(lambda url: "/launches/acts/run-" in url and not url.endswith(first))
    expect(page.locator("#notices")).to_contain_text("Started.")
    expect(page.locator("#printed")).to_have_text("done\n")


def a_refusal_is_told_in_full(console):
    console.expects("409")
    name = _shell(console, "acts/forbid", "sleep 600", overlap="forbid")
    page = _page(console, name)
    _next_second(name)
    page.get_by_role("button", name="Run now again").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page.locator(".notice.is-bad")).to_contain_text(
        "its overlap policy is 'forbid'. wait for it, or cancel it"
    )
    console.service.ask("POST", f"/v1/launches/{name}:cancel")


def a_launch_that_is_not_there_is_told_on_a_page(console):
    console.expects("404")
    page = console.open("/launches/nobody-1767225600")
    expect(page.locator("main")).to_contain_text("there is no launch 'nobody-1767225600'")
    expect(page.get_by_role("link", name="To the overview")).to_be_visible()


def a_deleted_schedule_leaves_its_launches_readable(console):
    name = ended(console.service, _shell(console, "gone/one", "echo kept"))["name"]
    assert console.service.ask("DELETE", "/v1/schedules/gone/one").status in (200, 204)
    page = _page(console, name)
    expect(page.locator("#launch")).to_contain_text("deleted since")
    expect(page.locator("#printed")).to_have_text("kept\n")
    expect(page.get_by_role("button", name="Run now again")).to_have_count(0)


def _next_second(name: str) -> None:
    """Launches by hand are named by the second: one more needs another."""
    taken = int(name.removesuffix("-manual").rpartition("-")[2])
    eventually(lambda: time.time() >= taken + 1)
