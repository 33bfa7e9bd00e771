"""``list``, ``show`` and ``status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tocsin.cli.command import Id, Json, Limit, Url, ask, pairs
from tocsin.cli.complete import schedule_ids
from tocsin.cli.printing import print_json, say, tell_of_more

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import SchedulePage, StatusView
    from tocsin.model.schedule import ScheduleView

_PAGE = 1000


class _Wanted(NamedTuple):
    """Which schedules: the filters of ``Client.schedule_page``."""

    prefix: str
    labels: dict[str, str]
    enabled: bool | None
    target: str | None


def list_schedules(
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Ids that begin so.", autocompletion=schedule_ids)
    ] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--paused", help="Only those.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Only of this kind: exec, http, null.")
    ] = None,
    limit: Limit = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List schedules.

    Example: tocsin list billing/ --label team=finance
    """
    wanted = _Wanted(prefix, pairs(label, "label"), enabled, target)
    page = ask(url, lambda client: _schedules(client, wanted, limit))
    if as_json:
        print_json(page)
        return
    if not page.items:
        say(_none(wanted))
        return
    _show_all(page.items)
    tell_of_more(page.cursor)


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


async def _schedules(client: Client, wanted: _Wanted, limit: int) -> SchedulePage:
    from tocsin.model.answer import SchedulePage

    items: list[ScheduleView] = []
    cursor = ""
    while True:
        size = min(_PAGE, limit - len(items)) if limit else _PAGE
        page = await client.schedule_page(**wanted._asdict(), limit=size, cursor=cursor)
        items += page.items
        cursor = page.cursor
        if not cursor or len(items) == limit:
            return SchedulePage(items, cursor)


def _none(wanted: _Wanted) -> str:
    """Nothing there, or nothing like that?"""
    if wanted == _Wanted("", {}, None, None):
        return "no schedules; add one: tocsin add hello '* * * * *' --shell 'echo hello'"
    if wanted == _Wanted(wanted.prefix, {}, None, None):
        return f"no id begins with {wanted.prefix!r}; 'tocsin list' shows all"
    return "no schedule is like that; 'tocsin list' shows all"


def _show_all(items: list[ScheduleView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    # Where there is little room the next instant is told in the viewer's zone alone.
    is_short = is_narrow()
    columns = (
        Column("ID"),
        Column("CRON", may_be_cut=True),
        Column("ZONE", may_be_cut=True),
        Column(zone_title("NEXT", (view.next for view in items)) if is_short else "NEXT"),
        Column("STATE"),
    )
    rows = (
        (
            view.id,
            view.cron,
            view.timezone,
            short_moment(view.next) if is_short else moment(view.next, view.timezone),
            _state(view),
        )
        for view in items
    )
    table(columns, rows)


def _state(view: ScheduleView) -> str:
    if not view.enabled:
        return "paused"
    return "done" if view.next is None else "enabled"


def _schedule_facts(view: ScheduleView) -> list[tuple[str, str]]:
    """What was written, then what became of it; what has its default is not worth a line."""
    from tocsin.cli.fields import fields_of
    from tocsin.cli.present import away, moment

    written = fields_of(view)
    del written["enabled"]  # below it is told as the state
    payload = written.pop("payload", "")
    note = f" ({view.note})" if view.note and not view.enabled else ""
    return [
        *written.items(),
        ("payload", payload),
        ("resolved", view.resolved if view.resolved != view.cron else ""),
        ("state", f"{_state(view)}{note}"),
        ("next", f"{moment(view.next, view.timezone)} {away(view.next)}" if view.next else ""),
        ("created", moment(view.created_at)),
        ("updated", f"{moment(view.updated_at)} (version {view.version})"),
    ]


def _length(seconds: float) -> str:
    from tocsin.cli.present import coarse
    from tocsin.cron import format_duration

    return format_duration(coarse(round(seconds))) if round(seconds) else "less than 1s"


def _status_facts(found: StatusView) -> list[tuple[str, str]]:
    from tocsin.cli.present import away, moment

    snapshot = "none yet"
    if found.snapshot_sequence is not None:
        snapshot = f"at entry {found.snapshot_sequence}, {_length(found.snapshot_age_s or 0)} old"
    issues = [("" if place else "issues", issue) for place, issue in enumerate(found.issues)]
    return [
        ("replica", f"{found.replica}, {found.role} (leader: {found.leader or 'nobody'}, term {found.term})"),
        ("version", f"{found.version}, zone data {found.tzdata}, up for {_length(found.uptime_s)}"),
        ("journal", f"entry {found.sequence} of {found.incarnation}, digest {found.digest[:16]}"),
        ("schedules", f"{found.schedules} ({found.enabled} enabled)"),
        (
            "launches",
            f"{found.open} open, {found.retrying} waiting for another attempt, {found.stalled} stalled",
        ),
        ("last 24 h", f"{found.failed} failed, {found.in_doubt} in doubt, {found.missed} missed stretches"),
        ("next due", f"{moment(found.next_due)} {away(found.next_due)}"),
        ("lag", f"{found.lag_ms / 1000:.1f} s"),
        ("snapshot", snapshot),
        *(issues or [("issues", "none")]),
    ]
