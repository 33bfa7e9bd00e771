"""``bulk pause``, ``bulk resume``, ``bulk run``, ``bulk label`` and ``bulk rm``: the same for many schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from tocsin.cli.asking import check_can_ask, confirm
from tocsin.cli.command import Command, Json, Url, ask, pairs
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.cli.usage import Family
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.lines import BulkLine, Summary
    from tocsin.model.request import BulkRequest, Selector

_SHOWN = 10
Action = Literal["pause", "resume", "run", "delete", "label"]
Prefix = Annotated[str, typer.Option("--prefix", help="Ids that begin so.")]
Label = Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several: all must hold.")]
Everything = Annotated[bool, typer.Option("--all", help="Every schedule there is.")]
Preview = Annotated[bool, typer.Option("--preview", help="Only tell which ones it would be.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what is refused, and the sum.")]
_VERBS = {"pause": "Pause", "resume": "Resume", "run": "Launch", "delete": "Remove", "label": "Label"}

app = typer.Typer(
    help="Do the same to many schedules.",
    cls=Family,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Choice(NamedTuple):
    """Which schedules, and how sure one is."""

    selector: Selector
    yes: bool
    preview: bool
    quiet: bool
    url: str | None
    as_json: bool


@app.command(cls=Command)
def pause(
    prefix: Prefix = "",
    label: Label = None,
    everything: Everything = False,
    note: Annotated[str, typer.Option("--note", help="Why, for whoever finds them paused.")] = "",
    preview: Preview = False,
    yes: Yes = False,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Stop launching many schedules, until they are resumed.

    Example: tocsin bulk pause --label team=finance --note 'the bank is down'
    """
    _all("pause", _choice(prefix, label, everything, preview, yes, quiet, url, as_json), note)


@app.command(cls=Command)
def resume(
    prefix: Prefix = "",
    label: Label = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Launch many paused schedules again, from their next occurrences on.

    Example: tocsin bulk resume --label team=finance
    """
    _all("resume", _choice(prefix, label, everything, preview, yes, quiet, url, as_json))


@app.command(cls=Command)
def run(
    prefix: Prefix = "",
    label: Label = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Launch many schedules now, beside their timelines.

    Example: tocsin bulk run --prefix reports/ --preview
    """
    _all("run", _choice(prefix, label, everything, preview, yes, quiet, url, as_json))


@app.command(cls=Command)
def label(
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="A label that each is to have.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="K", help="A label that none is to have.")
    ] = None,
    prefix: Prefix = "",
    label: Label = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Set or remove labels of many schedules. Each that changes gets a new version.

    Example: tocsin bulk label --set team=finance --unset owner --prefix billing/
    """
    labels: dict[str, str | None] = {**pairs(set_, "set"), **dict.fromkeys(unset or ())}
    if not labels:
        raise InvalidInput(
            "nothing says which labels", field="--set", value="", allowed="--set K=V, --unset K, or both"
        )
    _all("label", _choice(prefix, label, everything, preview, yes, quiet, url, as_json), labels=labels)


@app.command(cls=Command)
def rm(
    prefix: Prefix = "",
    label: Label = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove many schedules. What they have launched goes on; 'tocsin restore' brings one back.

    Example: tocsin bulk rm --prefix trial/
    """
    _all("delete", _choice(prefix, label, everything, preview, yes, quiet, url, as_json))


def _choice(
    prefix: str,
    label: list[str] | None,
    everything: bool,
    preview: bool,
    yes: bool,
    quiet: bool,
    url: str | None,
    as_json: bool,
) -> _Choice:
    from tocsin.model.request import Selector

    labels = pairs(label, "label")
    if everything == bool(prefix or labels):
        raise InvalidInput(
            "all, or only some of them?" if everything else "nothing says which schedules are meant",
            field="--all" if everything else "--prefix",
            value="",
            allowed="--prefix and --label for some, --all for all",
        )
    check_can_ask("do this", yes=yes, preview=preview, as_json=as_json)
    return _Choice(Selector(prefix, labels, everything=everything), yes, preview, quiet, url, as_json)


def _all(
    action: Action, choice: _Choice, note: str = "", labels: dict[str, str | None] | None = None
) -> None:
    from tocsin.model.request import BulkRequest

    count = 0
    if not choice.yes:
        foreseen = BulkRequest(action, choice.selector, preview=True, labels=labels or {})
        count = ask(choice.url, lambda client: _foresee(client, foreseen, choice))
        if choice.preview or not count:
            return
        noun = "this schedule" if count == 1 else f"these {count} schedules"
        confirm(f"{_VERBS[action]} {noun}?")
    wish = BulkRequest(action, choice.selector, note, labels=labels or {})
    summary = ask(choice.url, lambda client: _do(client, wish, count, choice))
    if choice.as_json:
        print_json(summary)
    else:
        say(_counted(summary))
    if summary.counts.get("refused"):
        raise typer.Exit(REFUSED)


async def _foresee(client: Client, wish: BulkRequest, choice: _Choice) -> int:
    """How many it would be, and which ones: all of them under --preview, else the first."""
    from tocsin.model.lines import BulkLine

    count = found = 0
    async for line in client.bulk(wish):
        if not isinstance(line, BulkLine):
            if choice.preview:
                print_json(line) if choice.as_json else say(_counted(line))
            continue
        found += 1
        count += line.result != "unchanged"
        if choice.preview:
            _tell(line, choice)
        elif line.result != "unchanged" and count <= _SHOWN:
            say(f"  - {line.id}")
    if choice.preview:
        return count
    if count > _SHOWN:
        say(f"  and {count - _SHOWN} more; --preview shows all")
    elif not count:
        say(f"nothing to do: {found} unchanged" if found else "nothing to do")
    return count


async def _do(client: Client, wish: BulkRequest, count: int, choice: _Choice) -> Summary:
    from tocsin.cli.several import progress
    from tocsin.model.lines import BulkLine, Summary

    summary = Summary(done=False, counts={})
    with progress("working", count) as advance:
        async for line in client.bulk(wish):
            if isinstance(line, BulkLine):
                _tell(line, choice)
                if line.result != "unchanged":
                    advance()
            else:
                summary = line
    return summary


def _tell(line: BulkLine, choice: _Choice) -> None:
    if choice.quiet and line.error is None:
        return
    if choice.as_json:
        print_json(line)
    elif line.error is None:
        print(f"{line.id} {_worded(line.result)}")
    else:
        from tocsin.model.problem import error_of

        say(f"{line.id} {line.result}: {error_of(line.error)}")


def _counted(summary: Summary) -> str:
    counts = sorted(summary.counts.items())
    return ", ".join(f"{count} {_worded(result)}" for result, count in counts) or "nothing to do"


def _worded(result: str) -> str:
    """At the command line a schedule is removed."""
    return result.replace("deleted", "removed")
