"""The login: who gets in, where it leads, what the browser keeps, and what is not offered to whom."""

from __future__ import annotations

import http.client
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from tests.api.access_test import token
from tests.api.conftest import Service
from tests.needs import program
from tests.ui.conftest import COOKIE, Console, Trouble
from tests.ui.sample import ended, run


@pytest.fixture(scope="module")
def launched(guarded: Service) -> dict[str, str]:
    """The names of two launches: one of team a, one of team b."""
    found = {}
    for team in ("a", "b"):
        guarded.create(f"{team}/hello", target={"kind": "exec", "shell": f"echo hello from {team}"})
        found[team] = ended(guarded, run(guarded, f"{team}/hello")["name"])["name"]
    return found


def _kept(page: Page) -> list[dict[str, Any]]:
    """The cookies that hold a token."""
    return [cookie for cookie in page.context.cookies() if cookie["name"] == COOKIE]


def _log_in(page: Page, text: str) -> None:
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Log in").click()


def without_a_token_one_is_led_to_the_login_and_then_to_where_one_wanted(guarded_console, launched):
    wanted = f"/launches/{launched['a']}?attempt=1"
    page = guarded_console.open(wanted)
    expect(page).to_have_url(re.compile(r"/login\?to=/launches/a/hello-"))
    expect(page.get_by_label("Token")).to_be_focused()
    _log_in(page, guarded_console.service.token)
    expect(page).to_have_url(guarded_console.service.url + wanted)
    expect(page.locator("#printed")).to_have_text("hello from a\n")
    expect(page.get_by_role("button", name="Log out admin")).to_be_visible()


def a_wrong_token_is_told_and_can_be_given_again(guarded_console):
    guarded_console.expects("401")
    page = guarded_console.open("/")
    _log_in(page, "tocsin_0123456789ab_" + "x" * 43)
    expect(page.get_by_role("alert")).to_contain_text("this token is not valid")
    assert _kept(page) == []
    _log_in(page, f"  {guarded_console.service.token}\n")
    expect(page).to_have_url(guarded_console.service.url + "/")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def the_browser_keeps_the_token_where_no_script_sees_it(guarded_console):
    page = guarded_console.open("/")
    _log_in(page, guarded_console.service.token)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    (cookie,) = _kept(page)
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (
        COOKIE,
        True,
        "Lax",
        "/",
    )
    assert "tocsin" not in page.evaluate("document.cookie")
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert guarded_console.service.token not in page.content() + kept


def whoever_logs_out_is_out(guarded_console):
    page = guarded_console.open("/", token=guarded_console.service.token)
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))
    assert _kept(page) == []
    page.goto("/")
    expect(page).to_have_url(re.compile("/login"))


@pytest.fixture
def over_tls(tmp_path, start, chromium, trouble: Trouble) -> Iterator[Console]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    line = [program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*line, *named, *files], check=True, capture_output=True)
    options = ("--tokens", "always", "--tls-cert", str(cert), "--tls-key", str(key))
    running = start(tmp_path / "data", *options)
    running.token = (running.data / "admin.token").read_text().strip()
    opened = Console(running, chromium, trouble)
    yield opened
    opened.close()


def over_tls_the_cookie_is_sent_over_tls_only(over_tls):
    page = over_tls.open("/", ignore_https_errors=True)
    _log_in(page, over_tls.service.token)
    expect(page.locator("#live-state")).to_have_text("live")
    (cookie,) = _kept(page)
    assert cookie["secure"]


def a_reader_is_offered_nothing_to_do(guarded_console, launched):
    service = guarded_console.service
    reads = token(service, "wall-board", "read")
    service.create("c/long", target={"kind": "exec", "shell": "sleep 600"})
    name = run(service, "c/long")["name"]
    page = guarded_console.open(f"/launches/{name}", token=reads)
    expect(page.locator("#launch .state")).to_contain_text("running")
    expect(page.locator("#live-state")).to_have_text("live")
    for path in (f"/launches/{name}", "/", "/schedules", "/schedules/c/long", "/launches", "/cluster"):
        page.goto(path)
        expect(page.get_by_role("heading").first).to_be_visible()
        offered = page.locator("[data-act], form[method=post]:not([action='/logout'])")
        assert offered.count() == 0, (path, offered.first.evaluate("it => it.outerHTML"))
    may = guarded_console.open(f"/launches/{name}", token=token(service, "on-call", "operate"))
    expect(may.get_by_role("button", name="Cancel this launch")).to_be_visible()
    service.ask("POST", f"/v1/launches/{name}:cancel")


def nothing_of_others_is_shown_to_whoever_has_a_prefix(guarded_console, launched):
    guarded_console.expects("403")
    page = guarded_console.open(
        "/launches", token=token(guarded_console.service, "of-a", "read", prefixes=("a/",))
    )
    expect(page.locator("main")).to_contain_text("a/hello")
    expect(page.locator("main")).not_to_contain_text("b/hello")
    for path in ("/schedules", "/"):
        page.goto(path)
        expect(page.get_by_role("heading").first).to_be_visible()
        assert "b/hello" not in page.content()
    for path in (f"/launches/{launched['b']}", "/schedules/b/hello", "/launches/b/never-1767225600"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 403, path
        assert "hello from b" not in page.content()


def a_revoked_token_leads_back_to_the_login(guarded_console):
    guarded_console.expects("401")
    service = guarded_console.service
    page = guarded_console.open("/", token=token(service, "leaving", "read"))
    expect(page.locator("#live-state")).to_have_text("live")
    (id,) = (
        each["id"] for each in service.ask("GET", "/v1/tokens").json["items"] if each["name"] == "leaving"
    )
    assert service.ask("DELETE", f"/v1/tokens/{id}").status in (200, 204)
    expect(page).to_have_url(re.compile("/login"))


ELSEWHERE = (
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "javascript:alert(1)",
    "/\t/evil.example",
    "/\r\nSet-Cookie: tocsin=x",
    "\\\\evil.example",
    "/login?to=/login",
    "evil",
    "",
)


def _posted(service: Service, path: str, fields: dict[str, str], **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    try:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        connection.request("POST", path, urlencode(fields), {**kind, **headers})
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


@pytest.mark.parametrize("to", ELSEWHERE)
def the_login_leads_nowhere_else(guarded, to):
    answer = _posted(guarded, "/login", {"token": guarded.token, "to": to})
    assert (answer.status, answer.getheader("location")) == (303, "/")
    assert len(answer.headers.get_all("set-cookie")) == 1
    shown = guarded.as_("").ask("GET", f"/login?{urlencode({'to': to})}").body.decode()
    assert 'name="to" value="/"' in shown


def an_address_in_any_script_survives_the_login(guarded):
    answer = _posted(guarded, "/login", {"token": guarded.token, "to": "/schedules?prefix=käse/☃"})
    assert answer.status == 303
    assert answer.getheader("location").isascii()
    assert answer.getheader("location").startswith("/schedules?prefix=k")


def a_foreign_page_cannot_log_anybody_in(guarded):
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{guarded.port + 1}"):
        assert _posted(guarded, "/login", {"token": guarded.token, "to": "/"}, Origin=origin).status == 403
        assert _posted(guarded, "/logout", {}, Origin=origin).status == 403


def where_no_token_is_needed_there_is_no_login(console):
    page = console.open("/login?to=/schedules")
    expect(page).to_have_url(console.service.url + "/")
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)


def a_cookie_of_another_service_does_no_harm(console):
    page = console.open("/", token="tocsin_0123456789ab_" + "x" * 43)
    expect(page.locator("#live-state")).to_have_text("live")
