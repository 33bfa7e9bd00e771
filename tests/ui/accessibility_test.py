"""Everybody can use it: rules of axe on every page, by keyboard alone, on a phone, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.receivers import hanging_up
from tests.ui.conftest import PHONE, Console, settled
from tests.ui.sample import Names, fill, pages, stop

KINDS = tuple(pages(Names("", "", "", "")))
_FITS = "document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth"
_STICKS_OUT = """[...document.querySelectorAll("main *")]
  .filter(it => it.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(it => it.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def filled(service) -> Iterator[dict[str, str]]:
    with hanging_up() as port:
        names = fill(service, port)
        yield pages(names)
        stop(service, names)


def _check(page: Page, *rules: str) -> None:
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = Axe().run(page, options={"resultTypes": ["violations"], **only})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("kind", KINDS)
def a_page_can_be_read_by_everybody_in_light_and_dark_and_on_a_phone(console: Console, filled, kind):
    page = console.open(filled[kind])
    settled(page)
    assert page.title().endswith(" · Tocsin")
    assert page.locator("h1").count() == 1
    _check(page)
    page.emulate_media(color_scheme="dark")
    _check(page, "color-contrast")
    page.set_viewport_size({"width": PHONE, "height": 800})
    assert page.evaluate(_FITS), page.evaluate(_STICKS_OUT)


def the_login_can_be_read_by_everybody_in_light_and_dark(guarded_console: Console):
    guarded_console.expects("401")
    page = guarded_console.open("/")
    _check(page)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        _check(page)


def the_main_paths_are_walked_by_keyboard_alone(console, filled):
    page = console.open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    _tab_to(page, "a[href='/launches']")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/launches$"))
    _tab_to(page, f"a[href='{filled['launch-running']}']")
    page.keyboard.press("Enter")
    expect(page.locator("#printed")).to_contain_text("copied block")
    _tab_to(page, "[data-opens=cancelling]")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why?")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel this launch")).to_be_focused()


def light_and_dark_are_chosen_and_remembered(console):
    page = console.open("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(ground) != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(ground) != light


def _tab_to(page: Page, selector: str) -> None:
    """By Tab, as somebody without a mouse; backwards where the page begins again."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the keyboard does not reach {selector}")
