"""``next`` and ``explain``: computed here, no service needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, print_json

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
    start: Annotated[str, typer.Option("--from", help="After this moment (RFC 3339 or unix).")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many.")] = 5,
    id: Identity = "",
    as_json: Json = False,
) -> None:
    """When is a schedule text due?

    Example: tocsin next '30 2 * * mon-fri' --tz Europe/Berlin --count 3
    """
    from datetime import UTC, datetime

    after = moment_given(start, "from") if start else datetime.now(UTC)
    expression = _parse(text, tz, id, after)
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


def moment_given(text: str, field: str) -> datetime:
    """RFC 3339 or unix seconds, as typed by a person."""
    from datetime import UTC, datetime

    from tocsin.errors import InvalidInput

    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{text!r} is not a moment",
            field=field,
            value=text,
            allowed="2026-01-31T09:00:00Z or unix seconds",
        ) from None
    return found.astimezone(UTC)


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
