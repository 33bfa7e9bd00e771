"""``pause``, ``resume``, ``run`` and ``cancel``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Id, Json, Url, ask
from tocsin.cli.complete import launch_names
from tocsin.cli.look.output import print_output
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.errors import NotFound

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchDetail

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the launch.", show_default=False, autocompletion=launch_names
    ),
]
_LOOK_EVERY_S = 0.2
_ENDED = ("succeeded", "failed", "skipped", "cancelled", "in_doubt")


def pause(
    id: Id,
    note: Annotated[str, typer.Option("--note", help="Why, for whoever finds it paused.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Stop launching a schedule, until it is resumed.

    Example: tocsin pause billing/payroll --note 'the bank is down'
    """
    view = ask(url, lambda client: client.pause(id, note))
    if as_json:
        print_json(view)
    else:
        print(f"{view.id} is paused; 'tocsin resume {view.id}' goes on")


def resume(id: Id, url: Url = None, as_json: Json = False) -> None:
    """Launch a paused schedule again, from its next occurrence on.

    Example: tocsin resume billing/payroll
    """
    view = ask(url, lambda client: client.resume(id))
    if as_json:
        print_json(view)
        return
    from tocsin.cli.present import away, moment

    when = f"next: {moment(view.next, view.timezone)}, {away(view.next)}" if view.next else "nothing is left"
    print(f"{view.id} goes on; {when}")


def run(
    id: Id,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended; print what it printed.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Launch a schedule now, beside its timeline.

    With --wait the exit status is 0 if it succeeded, else 1; how it goes is told on stderr. Ctrl-C ends the waiting,
    not the launch.

    Example: tocsin run billing/payroll --wait
    """
    begun: list[str] = []
    try:
        view = ask(url, lambda client: _run(client, id, wait, as_json, begun.append))
    except KeyboardInterrupt:
        for name in begun:
            say(f"{name} goes on: 'tocsin output {name} --follow' shows how, 'tocsin cancel {name}' stops it")
        raise
    if as_json:
        print_json(view)
    elif not wait:
        print(f"{view.name} {view.state}")
    if wait and view.state != "succeeded":
        raise typer.Exit(REFUSED)


def cancel(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the record.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Stop a launch that has not ended.

    A launch in doubt stays in doubt; it is stopped if the replica that was to call it tells that it runs. If it was
    called again, that is so of the last call only.

    Example: tocsin cancel billing/payroll-1767225600
    """
    view = ask(url, lambda client: client.cancel(name, reason))
    if as_json:
        print_json(view)
    elif view.state == "in_doubt":
        print(f"{view.name} in_doubt: {view.reason}")
    else:
        print(f"{view.name} {view.state if view.state in _ENDED else 'is being stopped'}")


async def _run(
    client: Client, id: str, wait: bool, as_json: bool, has_begun: Callable[[str], None]
) -> LaunchDetail:
    started = await client.run(id)
    has_begun(started.name)
    tells = wait and not as_json
    if tells:
        say(started.name)
    view = await client.launch(started.name)
    if wait:
        view = await _ended(client, view, tells)
    if tells:
        await _print_output(client, view)
        say(_how_it_is(view))
    return view


async def _ended(client: Client, view: LaunchDetail, tells: bool) -> LaunchDetail:
    """Wait until it has ended, and tell of each state on the way."""
    import asyncio

    told = ""
    while view.state not in _ENDED:
        now = _how_it_is(view)
        if tells and now != told:
            say(now)
        told = now
        await asyncio.sleep(_LOOK_EVERY_S)
        view = await client.launch(view.name)
    return view


def _how_it_is(view: LaunchDetail) -> str:
    """``retrying: exit status 1, again at 12:00:03 (attempt 2)``."""
    from tocsin.cli.present import short_moment

    again = f"again at {short_moment(view.retry_at)}" if view.state == "retrying" and view.retry_at else ""
    remarks = ", ".join(filter(None, (view.reason, again)))
    attempt = f" (attempt {view.attempt})" if view.attempt > 1 and "attempt" not in view.reason else ""
    return view.state + (f": {remarks}" if remarks else "") + attempt


async def _print_output(client: Client, view: LaunchDetail) -> None:
    try:
        print_output(await client.output(view.name))
    except NotFound:
        return  # its target captures none
