"""``history``: who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Limit, Url, ask
from tocsin.cli.complete import schedule_ids
from tocsin.cli.printing import print_json, say, tell_of_more

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.history import RecordPage, RecordView

_PAGE = 1000


def history(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Only about this schedule.", autocompletion=schedule_ids),
    ] = "",
    actor: Annotated[str, typer.Option("--actor", metavar="NAME", help="Only what they did.")] = "",
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Who did what, the newest first: changes of schedules, launches by hand, tokens.

    Example: tocsin history billing/payroll
    """
    page = ask(url, lambda client: _records(client, id, actor, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        say("nothing is recorded")
        return
    _show(page.items)
    tell_of_more(page.cursor)


async def _records(client: Client, id: str, actor: str, limit: int) -> RecordPage:
    from tocsin.model.history import RecordPage

    items: list[RecordView] = []
    cursor = ""
    while True:
        wanted = min(_PAGE, limit - len(items)) if limit else _PAGE
        page = await client.history_page(
            schedule=id or None, actor=actor or None, limit=wanted, cursor=cursor
        )
        items += page.items
        cursor = page.cursor
        if not cursor or len(items) == limit:
            break
    if id and not items:
        await client.versions(id)  # what never was is a slip of the pen, and this says so
    return RecordPage(items, cursor)


def _show(items: list[RecordView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    is_short = is_narrow()
    columns = (
        Column(zone_title("WHEN", (record.at for record in items)) if is_short else "WHEN"),
        Column("WHO", may_be_cut=True),
        Column("WHAT"),
        # The name of a launch begins with its schedule.
        Column("ABOUT", may_be_cut=True),
        Column("VERSION"),
        Column("NOTE", may_be_cut=True),
    )
    rows = (
        (
            short_moment(record.at) if is_short else moment(record.at),
            record.actor,
            record.act,
            record.launch or record.about,
            "" if record.version is None else str(record.version),
            record.note,
        )
        for record in items
    )
    table(columns, rows)
