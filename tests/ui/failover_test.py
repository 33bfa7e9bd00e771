"""A page outlives replicas: three of them on real etcd, one killed while somebody looks."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page, expect
from tests.cluster.waiting import until

PATIENCE_MS = 60_000
_NEWER = """since => [...document.querySelectorAll("a[href*='/launches/tick/']")]
  .some(link => Number(link.href.split("-").pop()) > since)"""


def _marked(page: Page) -> Page:
    expect(page.locator("#live-state")).to_have_text("live", timeout=PATIENCE_MS)
    page.evaluate("window.neverLoadedAgain = true")
    return page


def _stayed(page: Page) -> bool:
    return bool(page.evaluate("window.neverLoadedAgain === true"))


def a_page_on_a_follower_goes_on_when_the_leader_is_killed(replicas, at):
    leader = replicas.until_healthy()
    console = at(replicas.followers()[0])
    console.expects("503|504")  # while nobody leads
    overview = _marked(console.open("/"))
    launches = _marked(console.open("/launches"))
    launches.wait_for_function(_NEWER, arg=0, timeout=PATIENCE_MS)
    leader.kill()
    new = replicas.until_leader(other_than=leader.name)
    led_since = int(time.time())
    for page in (overview, launches):
        expect(page.locator("#live-state")).to_have_attribute("data-leader", new.name, timeout=PATIENCE_MS)
        expect(page.locator("#live-state")).to_have_text("live", timeout=PATIENCE_MS)
        expect(page.locator("#cut-off")).to_be_hidden()
    expect(overview.locator("#notices")).to_contain_text(f"{new.name} leads now (term ")
    launches.wait_for_function(_NEWER, arg=led_since, timeout=PATIENCE_MS)
    assert _stayed(overview)
    assert _stayed(launches)


def a_page_on_the_killed_replica_tells_so_and_goes_on_when_it_is_back(replicas, at):
    replicas.until_healthy()
    killed = replicas.followers()[0]
    console = at(killed)
    console.expects("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to fetch|50[34]|ERR_NETWORK|ERR_SOCKET")
    page = console.open("/launches?schedule=tick/second")
    banner = page.locator("#cut-off")
    until(lambda: page.reload() and banner.locator("a").count() == 2, "all to be known there")
    _marked(page)
    killed.kill()
    expect(banner).to_be_visible(timeout=PATIENCE_MS)
    expect(banner).to_contain_text(f"{killed.name} does not answer.")
    expect(page.locator("#live-state")).to_have_text("reconnecting")
    others = {replica.name: replica for replica in replicas if replica is not killed}
    assert set(banner.get_by_role("link").all_inner_texts()) == set(others)
    name, other = others.popitem()
    there = banner.get_by_role("link", name=name).get_attribute("href")
    assert there == f"{other.url}/launches?schedule=tick/second"
    back_since = int(time.time())
    killed.start()
    expect(banner).to_be_hidden(timeout=PATIENCE_MS)
    expect(page.locator("#live-state")).to_have_text("live", timeout=PATIENCE_MS)
    page.wait_for_function(_NEWER, arg=back_since, timeout=PATIENCE_MS)
    assert _stayed(page)


def the_output_of_a_launch_is_read_on_whichever_replica_one_looks(replicas, at):
    leader = replicas.until_healthy()
    body = {
        "id": "print/here",
        "cron": "0 0 29 2 *",
        "target": {"kind": "exec", "shell": "echo printed on $(hostname)"},
    }
    leader.call("PUT", "/v1/schedules/print/here", body)
    name = leader.call("POST", "/v1/schedules/print/here:run")["name"]
    for replica in replicas.followers():
        page = at(replica).open(f"/launches/{name}")
        expect(page.locator("#printed")).to_contain_text("printed on ")
        expect(page.locator(".facts")).to_contain_text(re.compile(rf"Replica\s*{leader.name}"))
        expect(page.locator(".steps")).to_contain_text("is acknowledged by a majority of the replicas")
