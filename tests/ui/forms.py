"""How tests fill in the form of a schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.api.conftest import Service
from tests.ui.conftest import Console


@pytest.fixture
def started(
    start: Callable[..., Service], tmp_path: Path, chromium, trouble
) -> Iterator[Callable[..., Console]]:
    """The console of a service of its own, with these options."""
    opened: list[Console] = []

    def one(*options: str) -> Console:
        opened.append(Console(start(tmp_path / "data", *options), chromium, trouble))
        return opened[-1]

    yield one
    for context in (each for console in opened for each in console.contexts):
        context.close()


def field(page: Page, name: str) -> Locator:
    return page.locator(f"#field-{name}")


def said(page: Page) -> Locator:
    return page.get_by_role("complementary", name="What it would do")


def begun(page: Page, id: str = "ops/sweep", cron: str = "30 2 * * *", zone: str = "") -> Page:
    """A new one with a target that is always allowed."""
    field(page, "id").fill(id)
    field(page, "cron").fill(cron)
    field(page, "timezone").fill(zone)
    page.get_by_role("radio", name="null").check()
    return page


def reviewed(page: Page) -> Locator:
    page.get_by_role("button", name=re.compile("^Review")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog
