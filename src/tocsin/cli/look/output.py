"""``output``: what a launch printed."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import REFUSED, a_person_looks, print_json, say
from tocsin.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchDetail, OutputView

_MAY_HAVE_STARTED = ("started", "running", "retrying", "succeeded", "failed", "cancelled", "in_doubt")
_PAGE = 50
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed: with them an output could rename the terminal's window, overwrite what
stands there, or type for whoever looks. And those that turn the direction of the writing: with them it could show
another text than it holds."""


def output(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|ID",
            help="Name of the launch; or id of a schedule: its newest launch that was started.",
            show_default=False,
        ),
    ],
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="By default the last.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until it has ended; the exit status is how.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="As it is, with the control characters that a terminal obeys.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print what a launch printed.

    Control characters other than tab and line feed are printed as escapes such as \\x1b, unless --raw is given.

    With --follow also what it prints from now on, all attempts of it; then the exit status is 0 if it succeeded,
    else 1.

    Example: tocsin output billing/payroll-1767225600
    """
    if follow:
        _follow(url, name, attempt, as_json, raw=raw)
        return
    found = ask(url, lambda client: _output(client, name, attempt))
    if as_json:
        print_json(found)
        return
    if found.launch != name and a_person_looks():
        say(f"[{found.launch}]")
    print_output(found, raw=raw)


def print_output(found: OutputView, *, raw: bool = False) -> None:
    """What it printed, and whether that is all."""
    write_output(found, raw=raw)
    if not found.complete:
        say("[it is still running]")


def write_output(found: OutputView, *, raw: bool) -> None:
    """To stdout, with a mark where a part is missing: no file ever looks whole that is not."""
    sys.stdout.write(found.head if raw else escaped(found.head))
    if found.dropped:
        sys.stdout.write(f"\n[... {found.dropped} bytes were not kept ...]\n")
    sys.stdout.write(found.tail if raw else escaped(found.tail))
    sys.stdout.flush()


def escaped(text: str) -> str:
    """As a terminal may be given it. A line that ends with CR LF ends with LF."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text.replace("\r\n", "\n"))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _follow(url: str | None, given: str, attempt: int | None, as_json: bool, *, raw: bool) -> None:
    if as_json:
        raise InvalidInput(
            "what is followed is printed as it comes, not as JSON",
            field="--json",
            value="--follow",
            allowed="one of --json and --follow",
        )

    async def whole(client: Client) -> LaunchDetail:
        from tocsin.cli.look.follow import Follower

        name = await _name(client, given)
        if name != given and a_person_looks():
            say(f"[{name}]")
        return await Follower(client, name, attempt, raw=raw).follow()

    ended = ask(url, whole)
    if ended.state != "succeeded":
        say(f"[{ended.state}{': ' + ended.reason if ended.reason else ''}]")
        raise typer.Exit(REFUSED)


async def _output(client: Client, given: str, attempt: int | None) -> OutputView:
    return await client.output(await _name(client, given), attempt=attempt)


async def _name(client: Client, given: str) -> str:
    """Of the launch that is meant."""
    return given if given and await _is_launch(client, given) else await _newest_started(client, given)


async def _is_launch(client: Client, given: str) -> bool:
    try:
        await client.launch(given)
    except (NotFound, InvalidInput):
        return False
    return True


async def _newest_started(client: Client, id: str) -> str:
    """Its name. A schedule that was removed still has its launches."""
    from tocsin.model.ids import check_id

    check_id(id, field="name")  # an empty one would find the launches of all schedules
    cursor = ""
    while True:
        page = await client.launch_page(schedule=id, states=_MAY_HAVE_STARTED, limit=_PAGE, cursor=cursor)
        for launch in page.items:
            if launch.started_at is not None:
                return launch.name
        cursor = page.cursor
        if not cursor:
            raise await _nothing_there(client, id)


async def _nothing_there(client: Client, id: str) -> NotFound:
    try:
        await client.schedule(id)
    except (NotFound, InvalidInput):
        return NotFound(
            f"{id!r} is neither the name of a launch nor the id of a schedule",
            hint="'tocsin launches' lists the names, 'tocsin list' the ids",
        )
    return NotFound(f"no launch of {id!r} was started yet", hint=f"'tocsin why {id}' tells more")
