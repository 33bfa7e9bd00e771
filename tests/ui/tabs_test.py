"""Many tabs: a browser holds few connections to one host, and tabs that nobody looks at must not keep them."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.ui.conftest import settled

CONNECTIONS_MAX = 6
"""Of Chromium to one host, for all tabs together."""
_TURN = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def _look_away(page: Page) -> None:
    page.evaluate(_TURN, True)


def as_many_tabs_as_one_likes_can_be_open(console):
    first = console.open("/")
    settled(first)
    tabs = [first]
    for _ in range(CONNECTIONS_MAX + 2):
        _look_away(tabs[-1])
        tabs.append(first.context.new_page())
        tabs[-1].goto("/cluster")
        settled(tabs[-1])


def a_tab_that_is_looked_at_again_is_as_new(console):
    console.service.create("tabs/one", target={"kind": "exec", "shell": "sleep 600"})
    name = console.run("tabs/one", until=("running",))["name"]
    page = console.open(f"/launches/{name}")
    settled(page)
    expect(page.locator("#launch .state")).to_contain_text("running")
    _look_away(page)
    console.service.ask("POST", f"/v1/launches/{name}:cancel")
    page.evaluate(_TURN, False)
    expect(page.locator("#launch .state")).to_contain_text("cancelled")
    expect(page.locator("#live-state")).to_have_text("live")
    expect(page.locator("#cut-off")).to_be_hidden()
