"""``launch``: one launch, with all that is recorded about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.operate.single import Name
from tocsin.cli.printing import print_json, say
from tocsin.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.client import Client
    from tocsin.model.answer import LaunchDetail
    from tocsin.model.launch import StepView


def launch(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Show a launch and every step of it.

    Example: tocsin launch billing/payroll-1767225600
    """
    view, zone = ask(url, lambda client: launch_in_zone(client, name))
    if as_json:
        print_json(view)
        return
    show_launch(view, zone)
    if view.started_at is not None:
        say(f"what it printed: tocsin output {view.name}")


async def launch_in_zone(client: Client, name: str) -> tuple[LaunchDetail, str]:
    """The launch, and the zone of its schedule; empty: the schedule is gone."""
    view = await client.launch(name)
    try:
        return view, (await client.schedule(view.schedule)).timezone
    except NotFound:
        return view, ""


def show_launch(view: LaunchDetail, zone: str) -> None:
    """All that is known about it."""
    from tocsin.cli.present import facts

    facts(_facts(view, zone))
    if view.steps:
        print()
        _show_steps(view.steps)


def _facts(view: LaunchDetail, zone: str) -> list[tuple[str, str]]:
    from tocsin.cli.present import away, moment

    told = f"{view.state}{': ' + view.reason if view.reason else ''}"
    late = "" if view.lateness_ms is None else f", {view.lateness_ms} ms late"
    return [
        ("launch", view.name),
        ("schedule", f"{view.schedule} (version {view.version})"),
        ("occurrence", moment(view.scheduled_at, zone)),
        ("state", told),
        ("attempt", str(view.attempt) if view.attempt else ""),
        ("exit status", "" if view.exit_code is None else str(view.exit_code)),
        ("started", f"{moment(view.started_at)}{late}" if view.started_at else ""),
        ("ended", moment(view.ended_at) if view.ended_at else ""),
        ("again", f"{moment(view.retry_at)}, {away(view.retry_at)}" if view.retry_at else ""),
        ("replica", f"{view.replica} (term {view.term})" if view.replica else ""),
    ]


def _show_steps(steps: list[StepView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    is_short = is_narrow()
    columns = (
        Column(zone_title("WHEN", (step.at for step in steps)) if is_short else "WHEN"),
        Column("WHAT"),
        Column("ATTEMPT"),
        Column("WHO", may_be_cut=True),
        Column("NOTE", may_be_cut=True),
    )
    rows = (
        (
            _exactly(step.at, short_moment(step.at) if is_short else moment(step.at)),
            step.step,
            "" if step.attempt is None else str(step.attempt),
            step.actor,
            step.note,
        )
        for step in steps
    )
    table(columns, rows)


def _exactly(at: datetime, told: str) -> str:
    """With milliseconds: most of a launch happens within one second."""
    return re.sub(r"([0-9]{2}:[0-9]{2}:[0-9]{2})", rf"\1.{at.microsecond // 1000:03d}", told, count=1)
