"""Pictures of every page, and how much each weighs and how soon it is seen.

    python -m tests.ui.pictures DIR [COUNT]

starts a service with something to look at, and COUNT more schedules, and writes each page to DIR in light, dark and as
wide as a phone. What it prints is the time to the first paint in a browser that knows the files of the console
already, and in one that does not, and the bytes of all answers to the latter.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Response, expect, sync_playwright
from tests.api.conftest import Service
from tests.needs import program
from tests.receivers import hanging_up
from tests.ui.conftest import OPTIONS, PHONE, Console, Trouble, settled
from tests.ui.sample import fill, pages, stop

_BATCH = 20_000
LOOKS = (("light", 1280), ("dark", 1280), ("phone", PHONE))
_PAINT = (
    "performance.getEntriesByType('paint').find(it => it.name === 'first-contentful-paint')?.startTime ?? NaN"
)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)  # a forecast of millions takes its time
    with tempfile.TemporaryDirectory() as scratch, hanging_up() as port:
        service = Service(Path(scratch) / "data")
        try:
            if count:
                _import(service, count)
            names = fill(service, port)
            with sync_playwright() as playwright:
                path = program("chromium", "chromium")
                chromium = playwright.chromium.launch(executable_path=path, args=OPTIONS)
                for name, address in pages(names).items():
                    _look(chromium, service, name, address, folder)
                chromium.close()
            stop(service, names)
        finally:
            service.stop()


def _look(chromium: Browser, service: Service, name: str, address: str, folder: Path) -> None:
    for look, width in LOOKS:
        trouble = Trouble()
        console = Console(service, chromium, trouble)
        page = console.blank(width=width, scheme="dark" if look == "dark" else "light")
        answers: list[Response] = []
        if look == "light":
            page.on("response", lambda answer, answers=answers: answers.append(answer))
        page.goto(service.url + address)
        settled(page)
        if look == "light":
            _tell(name, page, answers)
        page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)
        console.close()
        trouble.check()


def _tell(name: str, page: Page, answers: list[Response]) -> None:
    first = page.evaluate(_PAINT)
    weight = sum(len(each.body()) for each in list(answers) if urlsplit(each.url).path != "/live")
    page.reload()
    settled(page)
    again = page.evaluate(_PAINT)
    print(f"{name:20} {first:6.0f} ms, again {again:6.0f} ms, {weight / 1000:6.1f} kB", flush=True)


def _import(service: Service, count: int) -> None:
    """Schedules that are due once a day, in a few hundred folders."""
    for first in range(0, count, _BATCH):
        lines = b"".join(_line(number) for number in range(first, min(count, first + _BATCH)))
        kind = {"content-type": "application/x-ndjson"}
        answer = service.ask("POST", "/v1/import", lines, kind, raw=True)
        assert answer.status == 200, answer.body[:500]


def _line(number: int) -> bytes:
    wish = {
        "id": f"many/{number % 300:03d}/{number:07d}",
        "cron": f"{number % 60} {number % 24} * * *",
        "target": {"kind": "null"},
    }
    return json.dumps(wish).encode() + b"\n"


if __name__ == "__main__":
    main()
