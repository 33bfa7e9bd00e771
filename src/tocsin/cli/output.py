"""``output``: what a launch printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, a_person_looks, ask, print_json, say
from tocsin.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import OutputView

_MAY_HAVE_STARTED = ("started", "running", "retrying", "succeeded", "failed", "cancelled", "in_doubt")
_PAGE = 50


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
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print what a launch printed.

    Example: tocsin output billing/payroll-1767225600
    """
    found = ask(url, lambda client: _output(client, name, attempt))
    if as_json:
        print_json(found)
        return
    if found.launch != name and a_person_looks():
        say(f"[{found.launch}]")
    print_output(found)


def print_output(found: OutputView) -> None:
    """What it printed goes to stdout as it is; what we have to say about it goes to stderr."""
    sys.stdout.write(found.head)
    if found.dropped:
        sys.stdout.flush()
        say(f"[... {found.dropped} bytes were not kept ...]")
    sys.stdout.write(found.tail)
    sys.stdout.flush()
    if not found.complete:
        say("[it is still running]")


async def _output(client: Client, given: str, attempt: int | None) -> OutputView:
    name = given if given and await _is_launch(client, given) else await _newest_started(client, given)
    return await client.output(name, attempt=attempt)


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
