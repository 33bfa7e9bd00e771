"""``events``: what happens, as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import a_person_looks, encoded, say
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tocsin.client import Client
    from tocsin.model.event import Event

_COLORS = {
    "succeeded": "green",
    "failed": "red",
    "in_doubt": "red",
    "retrying": "yellow",
    "skipped": "yellow",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "missed": "yellow",
    "returned": "yellow",
    "started": "cyan",
    "running": "cyan",
    "queued": "cyan",
}
_KIND_WIDTH = 18


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    since: Annotated[
        str,
        typer.Option("--since", metavar="ID", help="Only what came after this event; 0: all that is kept."),
    ] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Only of schedules whose ids begin so.")] = "",
    schedule: Annotated[str, typer.Option("--schedule", metavar="ID", help="Only of this schedule.")] = "",
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only these, several or a,b; launch.* is a family.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Tell what happened, as far back as the journal goes; with --follow, what happens from now on.

    Each line ends with the id of its event; --since goes on exactly behind it. The journal is trimmed at every second
    snapshot (serve --snapshot-interval), so it goes back between one and two of these intervals.

    Example: tocsin events --follow --kind launch.failed,launch.in_doubt
    """
    after = since or (None if follow else "0")
    tell = _tell_json if as_json else _teller()

    async def whole(client: Client) -> None:
        found = client.events(
            after=after, prefix=prefix, schedule=schedule or None, kinds=kind or (), follow=follow
        )
        async for event in found:
            tell(event)

    try:
        ask(url, whole)
    except InvalidInput as wrong:
        wrong.field = "--since" if wrong.field == "Last-Event-ID" else wrong.field
        raise
    except KeyboardInterrupt:
        if not follow:
            raise
        raise typer.Exit(0) from None  # it is how one ends it


def _tell_json(event: Event) -> None:
    """One a line."""
    print(encoded(event), flush=True)


def _teller() -> Callable[[Event], None]:
    """Coloured lines before a person's eyes, plain ones in a pipe."""
    if not a_person_looks():
        return _tell_plain
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)

    def tell(event: Event) -> None:
        if not _told_gap(event):
            at, kind, rest = _parts(event)
            style = _COLORS.get(event.kind.partition(".")[2], "")
            told = ((at, "dim"), "  ", (f"{kind:<{_KIND_WIDTH}}", style), "  ", rest, "  ", (event.id, "dim"))
            console.print(Text.assemble(*told))

    return tell


def _tell_plain(event: Event) -> None:
    from tocsin.cli.present import printable

    if not _told_gap(event):
        at, kind, rest = _parts(event)
        print(f"{at}  {kind:<{_KIND_WIDTH}}  {rest}  {printable(event.id)}", flush=True)


def _told_gap(event: Event) -> bool:
    """Not a thing that happened: it goes to stderr. That the beginning is gone is no news to who asked for all."""
    from tocsin.cli.present import printable
    from tocsin.model.event import GAP

    if event.kind != GAP:
        return False
    if event.first_sequence is None:
        say(f"[{printable(event.reason)}]")
    elif event.first_sequence > 1:
        say(f"[entries {event.first_sequence} to {event.last_sequence} of the journal are no longer kept]")
    return True


def _parts(event: Event) -> tuple[str, str, str]:
    from tocsin.cli.present import moment, printable, short_moment

    at = short_moment(event.at) if a_person_looks() else moment(event.at)
    what = event.name or event.schedule or ""
    remarks = ", ".join(filter(None, _remarks(event)))
    return at, event.kind, printable("  ".join(filter(None, (what, remarks))))


def _remarks(event: Event) -> list[str]:
    """Of the rest, what is worth a word."""
    from tocsin.cli.present import moment, short_moment

    attempt = event.attempt or 0
    return [
        f"version {event.version}" if event.version is not None else "",
        f"term {event.term}" if event.term is not None else "",
        event.replica,
        f"{moment(event.since)} to {moment(event.until)}" if event.since and event.until else "",
        f"as {event.state}" if event.kind == "launch.resolved" and event.state else "",
        event.reason,
        f"again at {short_moment(event.retry_at)}" if event.retry_at else "",
        f"attempt {attempt}" if attempt > 1 and "attempt" not in event.reason else "",
        f"by {event.actor}" if event.actor else "",
    ]
