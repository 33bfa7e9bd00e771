"""``why``: the reason of a launch, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tocsin.cli import moments
from tocsin.cli.command import Command, Id, Json, Url, ask
from tocsin.cli.printing import print_json
from tocsin.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.client import Client
    from tocsin.model.answer import WhyView
    from tocsin.model.schedule import ScheduleView


class Why(Command):
    """``-3d`` is a moment here and not an option, as it is behind ``--from``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [moments.spelled_out(word) for word in args])


class _Answer(NamedTuple):
    found: WhyView
    yet_to_come: str = ""
    """Said instead of the answer when nothing has happened so far."""


def why(
    id: Id,
    at: Annotated[
        str, typer.Argument(metavar="AT", help=f"The moment, {moments.HELP}.", show_default=False)
    ] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Why was it launched at an instant, or why not? By default: its newest launch or occurrence.

    A moment without an offset is meant in the zone of the schedule.

    Example: tocsin why billing/payroll '2026-01-01 02:00'
    """
    found, yet_to_come = ask(url, lambda client: _why(client, id, at))
    if as_json:
        print_json(found)
        return
    from tocsin.cli.present import moment, printable

    if yet_to_come:
        print(yet_to_come)
    else:
        print(f"{found.schedule} at {moment(found.at)}:")
        print(printable(found.answer))


async def _why(client: Client, id: str, at: str) -> _Answer:
    at = await moments.written_moment(client, at, field="at", schedule=id, whole_seconds=True)
    return _Answer(await client.why(id, at)) if at else await _why_newest(client, id)


async def _why_newest(client: Client, id: str) -> _Answer:
    from tocsin.model.ids import check_id

    check_id(id)  # an empty one would find the launches of all schedules
    page = await client.launch_page(schedule=id, limit=1)
    instants = [launch.scheduled_at for launch in page.items]
    try:
        view = await client.schedule(id)
    except NotFound as gone:
        instants = instants or await _last_moment(client, id)
        if not instants:
            raise gone from None
    else:
        instants += _last_occurrence(view)
        if not instants:
            return await _why_not_yet(client, view)
    return _Answer(await client.why(id, _written(max(instants))))


async def _last_moment(client: Client, id: str) -> list[datetime]:
    """Of a schedule that was removed: the second after that. That it was removed is then the answer."""
    from datetime import timedelta

    try:
        kept = (await client.versions(id)).items
    except NotFound:
        return []
    return [version.until + timedelta(seconds=1) for version in kept[:1] if version.until is not None]


async def _why_not_yet(client: Client, view: ScheduleView) -> _Answer:
    from tocsin.cli.present import away, moment

    # What is paused has no next instant; its text has.
    first = view.next or next(iter((await client.upcoming(view.id, count=1)).items), None)
    if first is None:
        return _Answer(
            await client.why(view.id, _written(view.created_at)), "no occurrence yet, and none to come"
        )
    told = f"at {moment(first, view.timezone)}, {away(first)}"
    text = f"the first is {told}" if view.enabled else f"it is paused; the first would be {told}"
    return _Answer(await client.why(view.id, _written(first)), f"no occurrence yet; {text}")


def _last_occurrence(view: ScheduleView) -> list[datetime]:
    """The last instant up to now that the schedule was there for, or that waits, if there is one."""
    import math
    from datetime import UTC, datetime

    from tocsin.cron import Expression

    begin = max(filter(None, (view.created_at, view.start)))
    end = min(filter(None, (datetime.now(UTC), view.end)))
    expression = Expression.parse(view.resolved, timezone=view.timezone)
    found = expression.last_unix(math.ceil(begin.timestamp()) - 1, math.floor(end.timestamp()))
    if found is None:
        return [view.next] if view.next is not None and view.next <= end else []
    return [datetime.fromtimestamp(found, UTC)]


def _written(instant: datetime) -> str:
    return str(int(instant.timestamp()))
