"""The whole way of one schedule, by browser alone: made, changed, run, watched, failed, understood."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def a_schedule_is_made_changed_run_watched_and_its_failure_understood(console, tmp_path):
    go_on = tmp_path / "go-on"
    page = console.open("/schedules")
    page.get_by_role("link", name=re.compile("New")).first.click()
    _until_ready(page)

    page.get_by_label("Id", exact=True).fill("story/ledger")
    page.get_by_label("Schedule text").fill("0 9 * * MON-FRI")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.locator("#kind-exec").check()
    page.get_by_label("Shell line").fill("echo first version")
    expect(page.locator("#explained")).to_contain_text("09:00")
    page.get_by_role("button", name="Review and create").click()
    expect(page.get_by_role("dialog")).to_contain_text("Create story/ledger")
    page.locator("#save").click()
    page.wait_for_url("**/schedules/story/ledger")
    expect(page.get_by_role("heading", level=1)).to_contain_text("story/ledger")

    page.get_by_role("link", name="Edit").first.click()
    _until_ready(page)
    script = (
        f"echo opening the ledger; until [ -e {go_on} ]; do sleep 0.05; done; echo it is locked >&2; exit 3"
    )
    page.get_by_label("Shell line").fill(script)
    page.get_by_role("button", name="Review and save").click()
    expect(page.get_by_role("dialog")).to_contain_text("echo first version")
    page.locator("#save").click()
    page.wait_for_url("**/schedules/story/ledger")
    assert console.service.ask("GET", "/v1/schedules/story/ledger").json["version"] == 2

    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.locator("a[href^='/launches/story/ledger-']").first.click()
    expect(page.locator("#launch .state")).to_contain_text("running")
    expect(page.locator("#printed")).to_have_text("opening the ledger\n")
    expect(page.locator(".facts")).to_contain_text("version 2")

    go_on.touch()
    expect(page.locator("#printed")).to_have_text("opening the ledger\nit is locked\n")
    expect(page.locator("#launch .state")).to_contain_text("failed")
    expect(page.locator("#launch .why")).to_contain_text("It was launched and failed: exit status 3")

    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("main")).to_contain_text("story/ledger")


def _until_ready(page: Page) -> None:
    """The form is filled in by its script, over whatever is there: a person is slower than that."""
    page.wait_for_load_state("load")
    expect(page.locator("#zones option").first).to_be_attached()
