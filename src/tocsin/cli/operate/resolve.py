"""``resolve``: somebody says what became of a launch that is in doubt."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.complete import names_in_doubt
from tocsin.cli.printing import print_json, say
from tocsin.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from tocsin.model.answer import LaunchDetail

_ASKED = "What became of it? (succeeded, failed, skipped; relaunch: call it again; empty: leave it)"
_NOTE_ASKED = "How do you know? (for the record; empty: no note)"
_LISTED = "'tocsin launches --state in_doubt' lists what is"


class Outcome(enum.StrEnum):
    """What can be said of it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    RELAUNCH = "relaunch"


def resolve(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the launch.", show_default=False, autocompletion=names_in_doubt
        ),
    ],
    outcome: Annotated[
        Outcome | None,
        typer.Option("--as", help="What became of it; relaunch: call it again.", show_default=False),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="How one knows, for the record.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Say what became of a launch that is in doubt, or have it called again under its own name.

    Without --as it shows what is known and asks. 'tocsin launches --state in_doubt' lists what waits for this.

    Example: tocsin resolve billing/payroll-1767225600 --as succeeded --note 'the bank has it'
    """
    chosen = outcome or _asked_for(url, name, as_json)
    if chosen is None:
        say("it is still in doubt")
        return
    if outcome is None and not note:
        note = typer.prompt(_NOTE_ASKED, default="", show_default=False, err=True).strip()
    try:
        view = ask(url, lambda client: client.resolve(name, chosen.value, note))
    except Refused as refused:
        if type(refused) is Refused:
            refused.hint = f"{refused.hint}: {_LISTED}" if refused.hint else _LISTED
        raise
    if as_json:
        print_json(view)
    elif chosen is Outcome.RELAUNCH:
        print(f"{view.name} is called again; 'tocsin launch {view.name}' shows how it goes")
    else:
        print(f"{view.name} {view.state}")


def _asked_for(url: str | None, name: str, as_json: bool) -> Outcome | None:
    """What the person at the terminal says, who sees all that is known."""
    if as_json or not sys.stdin.isatty():
        raise InvalidInput(
            "nobody can be asked here what became of it",
            field="--as",
            value="",
            allowed=", ".join(Outcome),
            hint=f"'tocsin launch {name}' shows what is known",
        )
    from tocsin.cli.look.launch import launch_in_zone, show_launch

    view, zone = ask(url, lambda client: launch_in_zone(client, name))
    _check_doubtful(view)
    show_launch(view, zone)
    while True:
        said = typer.prompt(_ASKED, default="", show_default=False, err=True).strip().lower()
        if not said:
            return None
        if said in list(Outcome):
            return Outcome(said)
        say(f"{said!r} is not one of {', '.join(Outcome)}")


def _check_doubtful(view: LaunchDetail) -> None:
    if view.state != "in_doubt":
        raise Refused(
            f"{view.name} is not in doubt: {view.state}",
            hint=_LISTED,
        )
