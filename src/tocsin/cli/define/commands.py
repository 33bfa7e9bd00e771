"""``apply`` and ``rm``: schedules come, change and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.complete import schedule_ids
from tocsin.cli.printing import REFUSED, say

if TYPE_CHECKING:
    from tocsin.cli.define.documents import Document
    from tocsin.cli.define.prune import Surplus

Files = Annotated[
    list[str],
    typer.Option("--file", "-f", metavar="FILE|DIR|-", help="Several. - is stdin: YAML or JSON."),
]


def apply(
    file: Files,
    diff: Annotated[bool, typer.Option("--diff", help="Send nothing: show what would change.")] = False,
    days: Annotated[
        int, typer.Option("--days", min=1, max=366, help="How far --diff looks for launches.")
    ] = 14,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what has the --label but is in no file.")
    ] = False,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="K=V", help="What --prune looks after. Several.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")] = False,
    prune_all: Annotated[
        bool, typer.Option("--prune-all", help="Do not ask either if all or most would be removed.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create or update schedules from YAML, JSON or TOML files.

    Every document is checked before the first one is sent. What was paused stays paused, unless a document says
    enabled: true. --prune asks before anything is changed, and removes nothing when anything was refused.
    With it a file that cannot be read, or has no schedule in it, is a mistake; and to remove all that carries the
    label, or more than half of ten and more, takes an answer of its own, or --prune-all.

    --diff ends with 0 if nothing would change, 4 if something would, 1 if something was refused.

    Example: tocsin apply -f schedules/ --diff
    """
    from tocsin.cli.define import prune as pruning
    from tocsin.cli.define.documents import read_documents

    labels = pruning.pruned_labels(prune, label)
    if prune and not diff:
        pruning.check_can_ask(yes or prune_all)
    pruning.check_prune_all(prune, prune_all)
    documents = read_documents(file, prune=prune)
    pruning.check_labelled(documents, labels)
    if diff:
        _show_differences(documents, labels, days, url, as_json)
    else:
        found = ask(url, lambda client: pruning.surplus(client, documents, labels)) if labels else None
        if found is not None and not pruning.agreed(found, yes=yes, prune_all=prune_all):
            say("nothing was changed and nothing was removed")
            raise typer.Exit(REFUSED)
        _apply(documents, found, url, as_json)


def rm(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="Ids of schedules.", show_default=False, autocompletion=schedule_ids
        ),
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove schedules. What they have launched goes on; 'tocsin restore' brings one back.

    Example: tocsin rm hello billing/payroll
    """
    from tocsin.cli.define.prune import remove_all

    if not ask(url, lambda client: remove_all(client, dict.fromkeys(ids), as_json)):
        raise typer.Exit(REFUSED)


def _apply(documents: list[Document], found: Surplus | None, url: str | None, as_json: bool) -> None:
    from tocsin.cli.define.apply import apply_all
    from tocsin.cli.define.prune import remove_all

    is_well = ask(url, lambda client: apply_all(client, documents, as_json))
    if not is_well:
        if found is not None:
            say("nothing was removed, because not everything could be applied")
        raise typer.Exit(REFUSED)
    # Whoever edits one of them meanwhile still wants it.
    versions = {view.id: view.version for view in (found.views if found else [])}
    if versions and not ask(url, lambda client: remove_all(client, versions, as_json)):
        raise typer.Exit(REFUSED)


def _show_differences(
    documents: list[Document], labels: dict[str, str], days: int, url: str | None, as_json: bool
) -> None:
    from tocsin.cli.define.diff import DIFFERENT, differences

    found = ask(url, lambda client: differences(client, documents, labels, days, as_json))
    if found["refused"]:
        raise typer.Exit(REFUSED)
    if set(found) - {"unchanged"}:
        raise typer.Exit(DIFFERENT)
