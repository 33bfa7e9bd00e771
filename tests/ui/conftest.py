"""The console in a real browser: Debian's Chromium, driven by Playwright, before a real service.

    def a_schedule_is_found_by_its_label(console):
        console.service.create("billing/payroll", labels={"team": "billing"})
        page = console.open("/schedules?label=team=billing")
        expect(page.get_by_role("link", name="billing/payroll")).to_be_visible()

Every page is watched. What the browser complains of fails the test at its end: an error of a script, a request that
failed or was answered with a refusal, one to somebody else, something that the policy of the page forbids. What a test
brings about on purpose it announces: ``console.expects("409")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from tests.api.conftest import Service, eventually
from tests.api.conftest import service as service
from tests.api.conftest import start as start
from tests.api.logins import log_in
from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import on_loopback
from tests.needs import program

COOKIE = "tocsin"
PATIENCE_MS = 30_000
PHONE = 390
VIEWER_ZONE = "America/New_York"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
"""Root has no sandbox, a container little shared memory, and nobody a screen."""
_ABORTED = "net::ERR_ABORTED"
"""How a request ends that the browser itself no longer wants: the page it was for is gone."""


class Trouble:
    """What the browser complained of."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._expected: list[str] = []

    def expects(self, pattern: str) -> None:
        self._expected.append(pattern)

    def follow(self, page: Page, host: str) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda wrong: self._found.append(f"error of a script: {wrong}"))
        page.on("requestfailed", self._failed)
        page.on("request", lambda request: self._check_host(request.url, host))

    def check(self) -> None:
        left = [told for told in self._found if not any(re.search(each, told) for each in self._expected)]
        assert not left, "the browser complained:\n" + "\n".join(left)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Any) -> None:
        if request.failure != _ABORTED:
            self._found.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _check_host(self, url: str, host: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != host:
            self._found.append(f"a request to somebody else: {url}")


class Console:
    """A service, and a browser before it. Every ``open`` is a reader of its own, with a cookie jar of its own."""

    def __init__(self, service: Service, chromium: Browser, trouble: Trouble) -> None:
        self.service = service
        self.contexts: list[BrowserContext] = []
        self._chromium = chromium
        self._trouble = trouble

    def open(
        self, path: str = "/", *, token: str = "", width: int = 1280, scheme: str = "light", **more: Any
    ) -> Page:
        """A page of the console, loaded. ``token``: of somebody who has logged in. ``more`` is for the context."""
        page = self.blank(token=token, width=width, scheme=scheme, **more)
        page.goto(self.service.url + path)
        return page

    def blank(self, *, token: str = "", width: int = 1280, scheme: str = "light", **more: Any) -> Page:
        """The same before anything is asked for; ``goto`` needs the whole address, or just its path."""
        context = self._chromium.new_context(
            base_url=self.service.url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            locale="en-GB",
            timezone_id=VIEWER_ZONE,
            reduced_motion="reduce",
            **more,
        )
        self.contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        if token:
            kept = log_in(self.service, token) if self.service.token else token
            cookie = {"name": COOKIE, "value": kept, "url": self.service.url, "httpOnly": True}
            context.add_cookies([cookie])
        host = urlsplit(self.service.url).netloc
        context.on("page", lambda page: self._trouble.follow(page, host))
        return context.new_page()

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    def expects(self, pattern: str) -> None:
        """Complaints that this regular expression is found in are no fault in this test."""
        self._trouble.expects(pattern)

    def run(self, id: str, *, until: tuple[str, ...] = ()) -> dict[str, Any]:
        """Run a schedule now; the launch, when it is in one of these states."""
        answer = self.service.ask("POST", f"/v1/schedules/{id}:run")
        assert answer.status == 202, answer
        name = answer.json["name"]

        def look() -> Any:
            found = self.service.ask("GET", f"/v1/launches/{name}").json
            return found if not until or found["state"] in until else None

        return eventually(look)


def settled(page: Page) -> None:
    """Until it is live and every part that is loaded behind it is there."""
    expect(page.locator("#live-state")).to_have_text("live")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for all tests of a module, and no longer: while Playwright is there, no other event loop can run here."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program("chromium", "chromium"), args=OPTIONS, handle_sigint=False
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that wants tokens and may run programs, asked with the token of its admin."""
    options = ("--tokens", "always", "--allow-exec", "yes", "--exec-users", "*")
    running = Service(tmp_path_factory.mktemp("guarded") / "data", *options)
    running.token = (running.data / "admin.token").read_text().strip()
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def trouble() -> Iterator[Trouble]:
    found = Trouble()
    yield found
    found.check()


@pytest.fixture
def console(service: Service, chromium: Browser, trouble: Trouble) -> Iterator[Console]:
    """The console of a service without tokens: one service for all tests of a module."""
    yield from _closing(Console(service, chromium, trouble))


@pytest.fixture
def guarded_console(guarded: Service, chromium: Browser, trouble: Trouble) -> Iterator[Console]:
    """The same of a service that wants tokens; ``console.service.token`` is the one of its admin."""
    yield from _closing(Console(guarded, chromium, trouble))


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three on real etcd, with a launch every second."""
    program("etcd", "etcd-server")
    cluster = Cluster(tmp_path_factory.mktemp("replicas"), on_loopback("abc"))
    try:
        cluster.start()
        body = {"id": "tick/second", "cron": "* * * * * *", "target": {"kind": "null"}}
        cluster.until_leader().call("POST", "/v1/schedules", body)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def at(chromium: Browser, trouble: Trouble) -> Iterator[Callable[[Replica], Console]]:
    """A browser before that replica."""
    opened: list[Console] = []

    def console(replica: Replica) -> Console:
        opened.append(Console(replica, chromium, trouble))
        return opened[-1]

    yield console
    for each in opened:
        each.close()


def _closing(opened: Console) -> Iterator[Console]:
    yield opened
    opened.close()
