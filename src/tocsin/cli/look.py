"""``list``, ``show``, ``launches``, ``output``, ``why`` and ``status``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Id, Json, Url, ask, pairs, print_json
from tocsin.cli.operate import Name

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchPage, OutputView, SchedulePage, StatusView, WhyView
    from tocsin.model.launch import LaunchView
    from tocsin.model.schedule import ScheduleView

_PAGE = 1000
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="How many at most; 0: all.")]


def list_schedules(
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Ids that begin so.")] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--paused", help="Only those.")] = None,
    limit: Limit = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List schedules.

    Example: tocsin list billing/ --label team=finance
    """
    labels = pairs(label, "label")
    page = ask(url, lambda client: _schedules(client, prefix, labels, enabled, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        _note("no schedules; add one: tocsin add hello '* * * * *' --shell 'echo hello'")
        return
    from tocsin.cli.present import table

    table(("ID", "CRON", "ZONE", "NEXT", "STATE"), (_schedule_row(view) for view in page.items))
    _tell_of_more(page.cursor)


def show(id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show all there is to know about a schedule.

    Example: tocsin show billing/payroll
    """
    view = ask(url, lambda client: client.schedule(id))
    if as_json:
        print_json(view)
        return
    from tocsin.cli.present import facts

    facts(_schedule_facts(view))


def launches(
    schedule: Annotated[str, typer.Option("--schedule", metavar="ID", help="Only of this schedule.")] = "",
    state: Annotated[list[str] | None, typer.Option("--state", help="Only these, several or a,b.")] = None,
    since: Annotated[str, typer.Option("--since", help="Occurrences from this moment on.")] = "",
    until: Annotated[str, typer.Option("--until", help="Occurrences before this moment.")] = "",
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List launches, the newest first.

    Example: tocsin launches --schedule billing/payroll --state failed,in_doubt
    """
    page = ask(url, lambda client: _launches(client, schedule, state or [], since, until, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        _note("no launches")
        return
    from tocsin.cli.present import table

    columns = ("NAME", "STATE", "STARTED", "TOOK", "LATE", "ATTEMPT", "REASON")
    table(columns, (_launch_row(view) for view in page.items))
    _tell_of_more(page.cursor)


def output(
    name: Name,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="By default the last.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print what a launch printed.

    Example: tocsin output billing/payroll-1767225600
    """
    found = ask(url, lambda client: client.output(name, attempt=attempt))
    if as_json:
        print_json(found)
    else:
        print_output(found)


def why(
    id: Id,
    at: Annotated[str, typer.Argument(metavar="[AT]", help="RFC 3339, unix seconds, or HH:MM today.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Why was it launched at an instant, or why not? By default: the last occurrence before now.

    HH:MM is meant in the zone of the schedule.

    Example: tocsin why billing/payroll 2026-01-01T02:00:00Z
    """
    found = ask(url, lambda client: _why(client, id, at))
    if as_json:
        print_json(found)
        return
    from tocsin.cli.present import moment, printable

    print(f"{found.schedule} at {moment(found.at)}:")
    print(printable(found.answer))


def status(url: Url = None, as_json: Json = False) -> None:
    """How is the service doing?

    Example: tocsin status
    """
    found = ask(url, lambda client: client.status())
    if as_json:
        print_json(found)
        return
    from tocsin.cli.present import facts

    facts(_status_facts(found))


def print_output(found: OutputView) -> None:
    """What it printed goes to stdout as it is; what we have to say about it goes to stderr."""
    sys.stdout.write(found.head)
    if found.dropped:
        sys.stdout.flush()
        _note(f"[... {found.dropped} bytes were not kept ...]")
    sys.stdout.write(found.tail)
    sys.stdout.flush()
    if not found.complete:
        _note("[it is still running]")


async def _schedules(
    client: Client, prefix: str, labels: dict[str, str], enabled: bool | None, limit: int
) -> SchedulePage:
    from tocsin.model.answer import SchedulePage

    items: list[ScheduleView] = []
    cursor = ""
    while True:
        wanted = min(_PAGE, limit - len(items)) if limit else _PAGE
        page = await client.schedule_page(
            prefix=prefix, labels=labels, enabled=enabled, limit=wanted, cursor=cursor
        )
        items += page.items
        cursor = page.cursor
        if not cursor or len(items) == limit:
            return SchedulePage(items, cursor)


async def _launches(
    client: Client, schedule: str, states: list[str], since: str, until: str, limit: int
) -> LaunchPage:
    from tocsin.model.answer import LaunchPage

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
            return LaunchPage(items, cursor)


async def _why(client: Client, id: str, at: str) -> WhyView:
    if re.fullmatch(r"[0-2]?[0-9]:[0-5][0-9](:[0-5][0-9])?", at):
        at = _today(at, (await client.schedule(id)).timezone)
    return await client.why(id, at or None)


def _today(clock: str, zone: str) -> str:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from tocsin.errors import InvalidInput

    hour, minute, second = (*map(int, clock.split(":")), 0)[:3]
    if hour > 23:
        raise InvalidInput(f"{clock!r} is no time of day", field="at", value=clock, allowed="00:00 to 23:59")
    today = datetime.now(ZoneInfo(zone)).replace(hour=hour, minute=minute, second=second, microsecond=0)
    return today.isoformat()


def _schedule_row(view: ScheduleView) -> tuple[str, ...]:
    from tocsin.cli.present import moment

    state = "enabled" if view.enabled else "paused"
    return (view.id, view.cron, view.timezone, moment(view.next, view.timezone), state)


def _launch_row(view: LaunchView) -> tuple[str, ...]:
    from tocsin.cli.present import moment

    took = ""
    if view.started_at is not None and view.ended_at is not None:
        took = f"{(view.ended_at - view.started_at).total_seconds():.2f} s"
    late = "" if view.lateness_ms is None else f"{view.lateness_ms} ms"
    return (view.name, view.state, moment(view.started_at), took, late, str(view.attempt), view.reason)


def _schedule_facts(view: ScheduleView) -> list[tuple[str, str]]:
    """What was written, then what became of it; what has its default is not worth a line."""
    import msgspec

    from tocsin.cli.command import encoded
    from tocsin.cli.present import away, moment

    written = msgspec.to_builtins(view)
    hidden = ("next", "created_at", "updated_at", "enabled", "note", "payload", "resolved", "version")
    lines = [
        (name, value if isinstance(value, str) else encoded(value))
        for name, value in written.items()
        if name not in hidden and value not in (None, "", {})
    ]
    state = "enabled" if view.enabled else f"paused {view.note and '(' + view.note + ')'}"
    return [
        *lines,
        ("payload", "" if view.payload is None else encoded(view.payload)),
        ("resolved", view.resolved if view.resolved != view.cron else ""),
        ("state", state.strip()),
        ("next", f"{moment(view.next, view.timezone)} {away(view.next)}"),
        ("created", moment(view.created_at)),
        ("updated", f"{moment(view.updated_at)} (version {view.version})"),
    ]


def _status_facts(found: StatusView) -> list[tuple[str, str]]:
    from tocsin.cli.present import away, moment

    snapshot = "none yet"
    if found.snapshot_sequence is not None:
        snapshot = f"at entry {found.snapshot_sequence}, {found.snapshot_age_s} s old"
    issues = [("" if place else "issues", issue) for place, issue in enumerate(found.issues)]
    return [
        ("replica", f"{found.replica} (leader: {found.leader}, term {found.term})"),
        ("version", f"{found.version}, zone data {found.tzdata}, up for {found.uptime_s} s"),
        ("journal", f"entry {found.sequence} of {found.incarnation}, digest {found.digest[:16]}"),
        ("schedules", f"{found.schedules} ({found.enabled} enabled)"),
        ("launches", f"{found.open} open, {found.retrying} waiting for another attempt"),
        ("last 24 h", f"{found.failed} failed, {found.in_doubt} in doubt"),
        ("next due", f"{moment(found.next_due)} {away(found.next_due)}"),
        ("snapshot", snapshot),
        *(issues or [("issues", "none")]),
    ]


def _tell_of_more(cursor: str) -> None:
    if cursor:
        _note("there are more: --limit 0 shows all")


def _note(text: str) -> None:
    print(text, file=sys.stderr)
