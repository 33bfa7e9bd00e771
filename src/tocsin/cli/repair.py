"""``repair due``: next instants that were computed under a clock that was ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.asking import check_can_ask, confirm
from tocsin.cli.command import Command, Json, Url, ask
from tocsin.cli.printing import print_json
from tocsin.cli.usage import Family

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.client import Client
    from tocsin.model.clock import RepairView

app = typer.Typer(
    help="Put right what a wrong clock has left behind.",
    cls=Family,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def repair() -> None:
    """Put right what a wrong clock has left behind."""


@app.command(cls=Command)
def due(
    prefix: Annotated[str, typer.Option("--prefix", help="Only schedules whose id begins like this.")] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only tell which ones it would be.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Compute next instants anew, of schedules that do not launch because a clock was ahead and was put back.

    Each gets its next instant after now that was not launched. A schedule whose next instant is right stays as it is,
    so it may be repeated at any time.

    Example: tocsin repair due --preview
    """
    check_can_ask("repair them", yes=yes, preview=preview, as_json=as_json)
    if preview or not yes:
        foreseen = ask(url, lambda client: _whole(client, prefix, preview=True))
        _tell(foreseen, as_json)
        if preview or not foreseen.repaired:
            return
        confirm(f"Compute the next instants of {_schedules(foreseen.repaired)} anew?")
    _tell(ask(url, lambda client: _whole(client, prefix, preview=False)), as_json)


async def _whole(client: Client, prefix: str, *, preview: bool) -> RepairView:
    """All parts of it as one."""
    from msgspec.structs import replace

    whole = part = await client.repair_due(prefix=prefix, preview=preview)
    while part.after:
        part = await client.repair_due(prefix=prefix, preview=preview, after=part.after)
        whole = replace(
            whole,
            looked_at=whole.looked_at + part.looked_at,
            repaired=whole.repaired + part.repaired,
            items=[*whole.items, *part.items][:100],
            after=part.after,
        )
    return whole


def _tell(found: RepairView, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from tocsin.cli.present import Column, table

    if found.items:
        rows = ((item.schedule, _moment(item.was), _moment(item.next)) for item in found.items)
        table((Column("SCHEDULE", may_be_cut=True), Column("NEXT WAS (UTC)"), Column("NEXT IS (UTC)")), rows)
    what = "would be repaired" if found.preview else "repaired"
    print(f"{_schedules(found.repaired)} {what}, of {found.looked_at} looked at")


def _moment(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _schedules(count: int) -> str:
    return "1 schedule" if count == 1 else f"{count} schedules"
