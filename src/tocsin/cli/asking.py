"""Before much is done at once: somebody says yes, at the terminal or ahead of time."""

from __future__ import annotations

import sys

import typer

from tocsin.cli.printing import REFUSED, say
from tocsin.errors import InvalidInput


def check_can_ask(what: str, *, yes: bool, preview: bool, as_json: bool = False) -> None:
    """Before anything is asked of the service: who cannot be asked must have said what they want."""
    if yes and preview:
        raise InvalidInput(
            "one shows, the other does",
            field="--yes",
            value="--preview",
            allowed="one of --yes and --preview",
        )
    if yes or preview or (sys.stdin.isatty() and not as_json):
        return
    raise InvalidInput(
        f"nobody can be asked here whether to {what}",
        field="--yes",
        value="",
        allowed="--yes to do it, --preview to see what it would do",
    )


def confirm(question: str) -> None:
    """Ask the person at the terminal; no is the end."""
    if not typer.confirm(question, err=True):
        say("nothing was done")
        raise typer.Exit(REFUSED)
