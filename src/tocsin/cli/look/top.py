"""``top``: the overview in a terminal, drawn again every other second."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import a_person_looks, print_json
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tocsin.cli.look.overview import Found
    from tocsin.client import Client

EVERY_S = 2.0
_TIMEOUT_S = 10.0
_TROUBLE = ("failed", "in_doubt")
_NEWEST = 5
_PIPE = (100, 40)
"""Columns and rows where there is no window."""


def top(
    once: Annotated[bool, typer.Option("--once", help="Show it once and end, as it does in a pipe.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Watch how the service is doing: what needs a person, launches per minute, lateness, replicas.

    It is drawn again every two seconds, until q or Ctrl-C. Give the addresses of all replicas and it goes on when one
    of them fails. Below the bars a letter marks minutes in which launches failed (F), were in doubt (D), missed (M) or
    late (L).

    Example: tocsin top --url http://a:8400,http://b:8400,http://c:8400
    """
    if as_json:
        print_json(ask(url, _found, timeout_s=_TIMEOUT_S)._asdict())
    elif once or not a_person_looks():
        print("\n".join(_drawn(ask(url, _found, timeout_s=_TIMEOUT_S))))
    else:
        with suppress(KeyboardInterrupt):  # it is how one ends it
            ask(url, _watch, timeout_s=_TIMEOUT_S)


async def _found(client: Client) -> Found:
    from datetime import UTC, datetime, timedelta

    from tocsin.cli.look.overview import Found
    from tocsin.cli.moments import written

    since = written(datetime.now(UTC) - timedelta(days=1))
    return Found(
        *await asyncio.gather(
            client.status(),
            client.cluster(),
            client.activity(),
            client.launch_page(states=_TROUBLE, since=since, limit=_NEWEST),
        )
    )


class _Watched:
    """What was answered last, and since when nothing was. Asking may take its time: whoever draws does not wait."""

    def __init__(self, client: Client, changed: asyncio.Event) -> None:
        self._client = client
        self._changed = changed
        self.found: Found | None = None
        self.note = ""

    async def ask_on(self) -> None:
        """For ever. What cannot be helped by asking again is raised."""
        from datetime import UTC, datetime

        from tocsin.cli.look.overview import clock

        since = clock(datetime.now(UTC))
        while True:
            try:
                self.found = await _found(self._client)
                self.note, since = "", clock(datetime.now(UTC))
            except TocsinError as wrong:
                if not wrong.retryable:
                    raise
                self.note = f"! no answer since {since}, trying again: {wrong.message}"
            self._changed.set()
            await asyncio.sleep(EVERY_S)


async def _watch(client: Client) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    changed = asyncio.Event()
    watched = _Watched(client, changed)
    asking = asyncio.create_task(watched.ask_on(), name="asking")
    asking.add_done_callback(lambda _: changed.set())
    live = Live(console=Console(highlight=False), screen=True, auto_refresh=False)
    try:
        with live, _keys(changed) as is_over:
            while not is_over() and not asking.done():
                picture = "\n".join(_drawn(watched.found, watched.note))
                live.update(Text.from_ansi(picture, no_wrap=True, overflow="crop"), refresh=True)
                await changed.wait()
                changed.clear()
        if asking.done():
            await asking
    finally:
        asking.cancel()


def _drawn(found: Found | None, note: str = "") -> list[str]:
    """The whole window: when and where, what is wrong with that, and the picture."""
    from datetime import UTC, datetime

    from tocsin.cli.look import overview
    from tocsin.cli.present import clipped, painted, printable

    columns, rows = shutil.get_terminal_size(_PIPE) if a_person_looks() else _PIPE
    at = overview.clock(datetime.now(UTC))
    said = [painted(clipped(printable(note), columns), "failed")] if note else []
    if found is None:
        return [f"{at}  waiting for an answer", *said]
    head = clipped(f"{at}  {overview.title(found)}", columns)
    return [head, *said, *overview.lines(found, columns, rows - 1 - len(said))]


@contextmanager
def _keys(changed: asyncio.Event) -> Iterator[Callable[[], bool]]:
    """Keys are heard as they are pressed, not line by line, and a window of another size is drawn at once. Gives what
    tells whether it is over: q was pressed, or the terminal is gone."""
    import os
    import signal
    import termios
    import tty

    loop, pressed = asyncio.get_running_loop(), bytearray()
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else -1

    def hear() -> None:
        try:
            pressed.extend(os.read(terminal, 64) or b"q")
        except OSError:
            pressed.extend(b"q")
        changed.set()

    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    before = termios.tcgetattr(terminal) if terminal >= 0 else []
    if before:
        tty.setcbreak(terminal)
        loop.add_reader(terminal, hear)
    try:
        yield lambda: b"q" in pressed.lower()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        if before:
            loop.remove_reader(terminal)
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)
