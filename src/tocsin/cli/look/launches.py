"""``launches``: what was launched, and what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import moments
from tocsin.cli.command import Json, Limit, Url, ask
from tocsin.cli.complete import schedule_ids
from tocsin.cli.printing import print_json, say, tell_of_more
from tocsin.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchPage
    from tocsin.model.launch import LaunchView

_PAGE = 1000
_LATE_MS = 1000
"""What is later than this is worth a word where there is little room."""


def launches(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Only of this schedule.", autocompletion=schedule_ids)
    ] = "",
    schedule: Annotated[str, typer.Option("--schedule", metavar="ID", help="The same.")] = "",
    state: Annotated[list[str] | None, typer.Option("--state", help="Only these, several or a,b.")] = None,
    since: Annotated[
        str, typer.Option("--since", help=f"Occurrences from this moment on, {moments.HELP}.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="Occurrences before this moment.")] = "",
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List launches, the newest first.

    A moment without an offset is meant in the zone of the schedule, or in yours where none is named.

    Example: tocsin launches billing/payroll --state failed,in_doubt
    """
    wanted = _one_of(id, schedule)
    page = ask(url, lambda client: collected(client, wanted, state or [], since, until, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        say("no launches")
        return
    _show(page.items)
    tell_of_more(page.cursor)


def _one_of(id: str, schedule: str) -> str:
    if id and schedule and id != schedule:
        raise InvalidInput(
            f"{id!r} and {schedule!r} are two schedules", field="schedule", value=schedule, allowed="one id"
        )
    return id or schedule


async def collected(
    client: Client, schedule: str, states: list[str], since: str, until: str, limit: int
) -> LaunchPage:
    """As many as are wanted, of as many pages as that takes."""
    from tocsin.model.answer import LaunchPage

    since = await moments.written_moment(client, since, field="since", schedule=schedule)
    until = await moments.written_moment(client, until, field="until", schedule=schedule)
    items: list[LaunchView] = []
    cursor = ""
    while True:
        wanted = min(_PAGE, limit - len(items)) if limit else _PAGE
        page = await client.launch_page(
            schedule=schedule, states=states, since=since, until=until, limit=wanted, cursor=cursor
        )
        items += page.items
        cursor = page.cursor
        if not cursor or len(items) == limit:
            break
    if schedule and not items:
        await _check_known(client, schedule)
    return LaunchPage(items, cursor)


async def _check_known(client: Client, schedule: str) -> None:
    """No launches of what was never there is a slip of the pen. One that was removed may have launches left."""
    try:
        await client.schedule(schedule)
    except NotFound:
        if not (await client.launch_page(schedule=schedule, limit=1)).items:
            raise


def _show(items: list[LaunchView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    if is_narrow():
        columns = (
            Column("NAME"),
            Column("STATE"),
            Column(zone_title("STARTED", (view.started_at for view in items))),
            Column("TOOK"),
            Column("REASON", may_be_cut=True),
        )
        table(columns, ((*_begin(v), short_moment(v.started_at), _took(v), _remark(v)) for v in items))
    else:
        titles = ("NAME", "STATE", "STARTED", "TOOK", "LATE", "ATTEMPT", "REASON")
        rows = ((*_begin(v), moment(v.started_at), _took(v), *_end(v)) for v in items)
        table([Column(title) for title in titles], rows)


def _begin(view: LaunchView) -> tuple[str, str]:
    return view.name, view.state


def _end(view: LaunchView) -> tuple[str, str, str]:
    late = "" if view.lateness_ms is None else f"{view.lateness_ms} ms"
    return late, str(view.attempt), view.reason


def _took(view: LaunchView) -> str:
    if view.started_at is None or view.ended_at is None:
        return ""
    from tocsin.cron import format_duration

    seconds = (view.ended_at - view.started_at).total_seconds()
    return f"{seconds:.2f}s" if seconds < 60 else format_duration(round(seconds))


def _remark(view: LaunchView) -> str:
    """The reason, and of the rest what is out of the ordinary."""
    from tocsin.cron import format_duration

    late_ms = view.lateness_ms or 0
    parts = (
        view.reason,
        f"attempt {view.attempt}" if view.attempt > 1 and "attempt" not in view.reason else "",
        f"{format_duration(late_ms // 1000)} late" if late_ms >= _LATE_MS else "",
    )
    return ", ".join(filter(None, parts))
