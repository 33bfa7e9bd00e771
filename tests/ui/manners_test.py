"""What every page keeps to: nothing from elsewhere, nothing inside that could be script, little to carry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Response, expect
from tests.receivers import hanging_up
from tests.ui.conftest import Console, settled
from tests.ui.sample import Names, fill, pages, stop

BYTES_MAX = 200_000
KINDS = tuple(pages(Names("", "", "", "")))


@pytest.fixture(scope="module")
def filled(service) -> Iterator[dict[str, str]]:
    with hanging_up() as port:
        names = fill(service, port)
        yield pages(names)
        stop(service, names)


@pytest.mark.parametrize("kind", KINDS)
def a_page_asks_nobody_else_and_is_small(console: Console, filled, kind):
    page = console.blank()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(filled[kind])
    settled(page)
    assert {urlsplit(answer.url).netloc for answer in answers} == {urlsplit(console.service.url).netloc}
    sizes = {
        answer.url: len(answer.body()) for answer in answers if urlsplit(answer.url).path not in ("/live",)
    }
    assert sum(sizes.values()) < BYTES_MAX, sizes


@pytest.mark.parametrize("kind", [*KINDS, "missing", "wrong"])
def a_page_lets_the_browser_run_nothing_but_our_files(service, filled, kind):
    path = {"missing": "/launches/nobody-1", "wrong": "/nowhere"}.get(kind) or filled[kind]
    answer = service.ask("GET", path, headers={"Accept": "text/html"})
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    text = answer.body.decode()
    assert not re.search(r"<script(?![^>]* src=\"/static/)", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=\"|javascript:", text)
    assert not re.search(r"(?:src|href|action|data-[a-z]+)=\"(?:https?:)?//(?!127\.0\.0\.1)", text)


def files_of_a_page_are_kept_by_the_browser_and_change_their_address_with_their_content(service):
    text = service.ask("GET", "/", headers={"Accept": "text/html"}).body.decode()
    for address in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text):
        assert "?v=" in address
        assert "immutable" in service.ask("GET", address).headers["cache-control"]
        assert service.ask("GET", address.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert service.ask("GET", "/static/nothing.js").status == 404
    assert service.ask("GET", "/static/..%2fanswer.py").status == 404


def what_somebody_writes_into_names_and_notes_stays_text(console):
    nasty = "<img src=x onerror=alert(1)>\"'</script>{{ 7*7 }}"
    service = console.service
    target = {"kind": "exec", "shell": "echo '<b>bold</b>'"}
    service.create("nasty/one", description=nasty, labels={"note": "x"}, target=target)
    service.ask("POST", "/v1/schedules/nasty/one:pause", {"note": nasty})
    name = console.run("nasty/one", until=("succeeded",))["name"]
    for path in (
        "/schedules/nasty/one",
        f"/launches/{name}",
        "/schedules?prefix=nasty",
        "/schedules/nasty/one:edit",
    ):
        page = console.open(path)
        settled(page)
        assert page.locator("img[src=x], main script").count() == 0, path
    expect(console.open(f"/launches/{name}").locator("#printed")).to_have_text("<b>bold</b>\n")


def an_unknown_address_is_told_on_a_page(console):
    console.expects("404")
    page = console.open("/nowhere/at/all")
    expect(page.get_by_role("link", name="To the overview")).to_be_visible()


def programs_are_refused_as_ever(service):
    answer = service.ask("GET", "/launches/nobody-1", headers={"Accept": "application/json"})
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
