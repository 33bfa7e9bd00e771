"""``backfill``: launch what was left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tocsin.cli import moments
from tocsin.cli.asking import check_can_ask, confirm
from tocsin.cli.command import Id, Json, Url, ask
from tocsin.cli.printing import print_json, say
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.client import Client
    from tocsin.model.history import BackfillView, PastView

_UNCERTAIN = "so it may have been launched"


class _Wish(NamedTuple):
    """What was asked for, with the moments that its words mean: the same for the preview and for the deed."""

    id: str
    since: str
    until: str
    unrecorded: bool
    zone: str


def backfill(
    id: Id,
    since: Annotated[
        str,
        typer.Option("--from", metavar="T", help=f"The first moment, {moments.HELP}.", show_default=False),
    ],
    until: Annotated[str, typer.Option("--until", metavar="T", help="Before this moment.")] = "now",
    preview: Annotated[bool, typer.Option("--preview", help="Only tell what would be launched.")] = False,
    unrecorded: Annotated[
        bool,
        typer.Option("--unrecorded", help="Also what may have been launched and is not recorded any more."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Launch what was skipped, missed or paused in a time that has passed.

    It first tells what it would launch, and what it would not, and why. Then they start one at a time, the oldest
    first. What was launched is never launched again. A moment without an offset is meant in the zone of the schedule.

    Example: tocsin backfill billing/payroll --from -3d --preview
    """
    for field, text in (("--from", since), ("--until", until)):
        moments.check_moment(text, field=field)
    check_can_ask("launch them", yes=yes, preview=preview, as_json=as_json)
    wish, foreseen = ask(url, lambda client: _foresee(client, id, since, until, unrecorded))
    if as_json and preview:
        print_json(foreseen)
        return
    if not as_json:
        _show(foreseen, wish.zone)
    if preview:
        return
    if not as_json and not foreseen.launches:
        say("there is nothing to launch")
        return
    if not yes:
        confirm(f"Launch {_occurrences(foreseen.launches)}, one at a time, the oldest first?")
    done = ask(url, lambda client: _backfill(client, wish, preview=False))
    if as_json:
        print_json(done)
    else:
        print(f"{_launches(done.launches)} asked for; 'tocsin launches {id}' shows how they go")


async def _foresee(
    client: Client, id: str, since: str, until: str, unrecorded: bool
) -> tuple[_Wish, BackfillView]:
    """What it would do. Now is one moment, for this and for what follows it."""
    zone = (await client.schedule(id)).timezone
    begin = moments.parse_moment(since, field="--from", zone=zone)
    end = moments.parse_moment(until, field="--until", zone=zone)
    if begin >= end:
        raise _backwards(since, until, begin, zone)
    wish = _Wish(id, moments.written(begin), moments.written(end), unrecorded, zone)
    return wish, await _backfill(client, wish, preview=True)


def _backwards(since: str, until: str, begin: datetime, zone: str) -> InvalidInput:
    """Nobody who gave one moment is told off for the other."""
    from tocsin.cli.present import moment

    if until == "now":
        message, allowed = f"{moment(begin, zone)} has not come yet", "a moment that has passed"
    else:
        message, allowed = f"it is not before --until {until}", "a moment before it"
    return InvalidInput(message, field="--from", value=since, allowed=allowed)


async def _backfill(client: Client, wish: _Wish, *, preview: bool) -> BackfillView:
    return await client.backfill(wish.id, wish.since, wish.until, preview=preview, unrecorded=wish.unrecorded)


def _show(found: BackfillView, zone: str) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    if not found.items:
        print("there is no occurrence in that time")
        return
    is_short = is_narrow()

    def told(at: datetime) -> str:
        return short_moment(at) if is_short else moment(at, zone)

    ends = [found.items[0].at, found.items[-1].at]
    columns = (
        Column("COUNT"),
        Column("WHAT"),
        Column("WHY", may_be_cut=True),
        Column(zone_title("FIRST", ends) if is_short else "FIRST"),
        Column("LAST"),
    )
    rows = (
        (
            str(len(group)),
            "launch" if group[0].launch else "leave out",
            group[0].why,
            told(group[0].at),
            told(group[-1].at),
        )
        for group in _grouped(found.items)
    )
    table(columns, rows)
    print(f"{_occurrences(found.launches)} would be launched, {found.left_out} left out")
    if any(item.why.endswith(_UNCERTAIN) for item in found.items):
        say("--unrecorded launches also those that may have been launched")
    if found.more:
        last = moments.written(found.items[-1].at)
        say(f"there are more occurrences behind {last} than one request covers: ask again from there")


def _grouped(items: Iterable[PastView]) -> list[list[PastView]]:
    """By what becomes of them and why; what is launched first."""
    groups: dict[tuple[bool, str], list[PastView]] = {}
    for item in items:
        groups.setdefault((not item.launch, item.why), []).append(item)
    return [groups[key] for key in sorted(groups)]


def _occurrences(count: int) -> str:
    return "1 occurrence" if count == 1 else f"{count} occurrences"


def _launches(count: int) -> str:
    return "1 launch is" if count == 1 else f"{count} launches are"
