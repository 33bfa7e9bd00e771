"""The page of the cluster: one machine, and three replicas on real etcd."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.ui.conftest import Console

PATIENCE_MS = 60_000


def card(page: Page, name: str):
    return page.get_by_role("region", name=name, exact=True)


def replica(page: Page, name: str):
    return page.locator("#replicas tbody tr").filter(
        has=page.get_by_role("rowheader", name=re.compile(f"^{name}\\b"))
    )


# One machine


def a_machine_on_its_own_is_told_what_that_means(console):
    page = console.open("/cluster")
    expect(page.get_by_role("heading", level=1)).to_have_text("This machine")
    expect(card(page, "Who leads")).to_contain_text("while it is down nothing is launched")
    expect(card(page, "Journal")).to_contain_text(re.compile(r"SQLite, a file on this machine, \d+ kB"))
    expect(card(page, "Backups")).to_contain_text("There is no place for backups.")
    expect(page.get_by_role("button", name="Step down")).to_have_count(0)


def a_backup_is_made_with_a_button(start, tmp_path, chromium, trouble):
    place = tmp_path / "shelf"
    console = Console(start(tmp_path / "data", "--backup", place.as_uri()), chromium, trouble)
    page = console.open("/cluster")
    expect(card(page, "Backups")).to_contain_text("none yet")
    card(page, "Backups").get_by_role("button", name="Make one").click()
    page.get_by_role("dialog").get_by_role("button", name="Make it").click()
    expect(page.locator("#notices")).to_contain_text("The backup is there.")
    expect(card(page, "Backups")).to_contain_text(re.compile(r"ago, of entry \d+"))
    expect(card(page, "Snapshots").locator("tbody tr")).to_have_count(1)
    assert list(place.rglob("*.db.zst"))
    console.close()


def limits_are_shown_where_there_are_any(start, tmp_path, chromium, trouble):
    file = tmp_path / "limits.yaml"
    file.write_text("- label: team=payroll\n  rate: 5/s\n  concurrency: 7\n")
    console = Console(start(tmp_path / "data", "--limits", str(file)), chromium, trouble)
    limits = card(console.open("/cluster"), "Limits")
    expect(limits.get_by_role("row", name="team=payroll 5/s bursts of 1 7 0.0 0 0")).to_be_visible()
    console.close()


def who_is_no_admin_is_offered_nothing_to_press(guarded_console):
    service = guarded_console.service
    body = {"name": "operator", "scopes": ["read", "write", "operate"]}
    token = service.ask("POST", "/v1/tokens", body).json["token"]
    page = guarded_console.open("/cluster", token=token)
    expect(card(page, "Journal")).to_be_visible()
    expect(page.locator("main button")).to_have_count(0)


# Three replicas


def every_replica_is_shown_with_its_role_and_how_far_it_is(replicas, at):
    leader = replicas.until_healthy()
    page = at(replicas.followers()[0]).open("/cluster")
    expect(card(page, "Who leads")).to_contain_text(re.compile(rf"Leads\s*{leader.name}\s*Term\s*\d+"))
    expect(card(page, "Who leads")).to_contain_text("3 of 3")
    expect(card(page, "Who leads")).to_contain_text("✓ equal", timeout=PATIENCE_MS)
    expect(replica(page, leader.name)).to_contain_text("★ leader")
    for other in replicas.followers():
        expect(replica(page, other.name)).to_contain_text("follower")
        expect(replica(page, other.name)).to_contain_text("right")


def snapshots_are_shown_with_who_holds_them(replicas, at):
    replicas.until_healthy()
    page = at(replicas.followers()[0]).open("/cluster")
    row = card(page, "Snapshots").locator("tbody tr").filter(has_text="a, b, c").first
    expect(row).to_contain_text(re.compile(r"kB\s*a, b, c\s*[0-9a-f]{9}"), timeout=PATIENCE_MS)


def the_page_of_a_cluster_breaks_no_rule_of_axe(replicas, at):
    replicas.until_healthy()
    for scheme in ("light", "dark"):
        page = at(replicas.until_leader()).open("/cluster", scheme=scheme)
        expect(page.locator("#live-state")).to_have_text("live")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def a_replica_that_is_gone_is_told_and_comes_back_by_itself(replicas, at):
    replicas.until_healthy()
    leader, (gone, other) = replicas.until_leader(), replicas.followers()
    page, overview = at(other).open("/cluster"), at(other).open("/")
    gone.kill()
    expect(replica(page, gone.name)).to_contain_text("✕ does not answer", timeout=PATIENCE_MS)
    expect(card(page, "Who leads")).to_contain_text("if one more is lost, nothing is launched")
    expect(overview.locator("#needs")).to_contain_text(f"does not answer ({gone.name})", timeout=PATIENCE_MS)
    expect(replica(page, leader.name)).to_contain_text("★ leader")
    gone.start()
    expect(replica(page, gone.name)).to_contain_text("follower", timeout=PATIENCE_MS)


def the_leader_steps_down_after_it_was_named(replicas, at):
    leader = replicas.until_healthy()
    console = at(replicas.followers()[0])
    console.expects("503|504")  # while nobody leads
    page = console.open("/cluster")
    card(page, "Who leads").get_by_role("button", name="Step down").click()
    dialog = page.get_by_role("dialog", name=f"Have {leader.name} step down?")
    for heir in replicas.followers():
        expect(dialog).to_contain_text(heir.name)
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_be_hidden()
    assert replicas.until_leader().name == leader.name
    expect(page.get_by_role("button", name="Step down")).to_be_focused()
    card(page, "Who leads").get_by_role("button", name="Step down").click()
    dialog.get_by_role("button", name=f"Have {leader.name} step down").click()
    expect(page.locator("#notices")).to_contain_text(f"{leader.name} has stepped down.", timeout=PATIENCE_MS)
    new = replicas.until_leader(other_than=leader.name)
    expect(replica(page, new.name)).to_contain_text("★ leader", timeout=PATIENCE_MS)


def a_question_that_was_left_does_not_keep_the_page_from_being_true(replicas, at):
    leader = replicas.until_healthy()
    console = at(replicas.followers()[0])
    console.expects("503|504")
    page = console.open("/cluster")
    button = page.get_by_role("button", name="Step down")
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    expect(button).to_be_focused()
    leader.call("POST", "/v1/cluster:step-down")
    new = replicas.until_leader(other_than=leader.name)
    expect(button).to_have_attribute("data-ask", f"Have {new.name} step down?", timeout=PATIENCE_MS)
    expect(button).to_be_focused()
