"""``next`` and ``explain``: computed here, no service needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import moments
from tocsin.cli.command import Json
from tocsin.cli.printing import print_json

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.cron import Expression

Text = Annotated[
    str, typer.Argument(metavar="TEXT", help="The schedule text, in quotes.", show_default=False)
]
Zone = Annotated[str, typer.Option("--tz", help="Time zone, such as Europe/Berlin.")]
Identity = Annotated[str, typer.Option("--id", help="Id of the schedule: settles ? and ~.")]


def next_instants(
    text: Text,
    tz: Zone = "UTC",
    start: Annotated[
        str, typer.Option("--from", metavar="MOMENT", help=f"After this moment, {moments.HELP}.")
    ] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many.")] = 5,
    id: Identity = "",
    as_json: Json = False,
) -> None:
    """When is a schedule text due?

    A moment without an offset is meant in the zone of --tz.

    Example: tocsin next '30 2 * * mon-fri' --tz Europe/Berlin --count 3
    """
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    expression = _parse(text, tz, id, now)
    if start:
        after = moments.parse_moment(start, field="--from", zone=expression.timezone, now=now)
        expression = _parse(text, tz, id, after)
    else:
        after = now
    found = expression.upcoming(after, count)
    if as_json:
        print_json({**_json(expression), "items": found})
        return
    if not found:
        print("never again")
    for instant in found:
        print(_line(instant, expression.timezone))


def explain(text: Text, tz: Zone = "UTC", id: Identity = "", as_json: Json = False) -> None:
    """What does a schedule text mean, in words?

    Example: tocsin explain '0 9 1-7 * mon' --tz America/New_York
    """
    expression = _parse(text, tz, id, None)
    if as_json:
        print_json(_json(expression))
        return
    print(expression.explain())
    if expression.resolved != text:
        print(f"which is settled as: {expression.resolved}")
        if not id and ("?" in text or "~" in text):
            print("(with --id ID you see what it is for that schedule)")


def _parse(text: str, tz: str, id: str, anchor: datetime | None) -> Expression:
    from tocsin.cron import Expression

    return Expression.parse(text, timezone=tz, identity=id, anchor=anchor)


def _json(expression: Expression) -> dict[str, object]:
    return {
        "cron": expression.text,
        "timezone": expression.timezone,
        "resolved": expression.resolved,
        "explanation": expression.explain(),
    }


def _line(instant: datetime, zone: str) -> str:
    """In the viewer's zone, in the schedule's if that differs, and how far away."""
    from tocsin.cli.present import away, moment

    return f"{moment(instant, zone, weekday=True)}  {away(instant)}"
