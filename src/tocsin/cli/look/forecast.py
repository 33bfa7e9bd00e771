"""``forecast``: how many launches are to come, when it is worst, and what would help."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import moments
from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import a_person_looks, print_json, say

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.client import Client
    from tocsin.model.forecast import Bucket, Cause, ForecastView

_TIMEOUT_S = 600.0
"""Tens of millions of schedules take their time."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PIPE_WIDTH, _BAR_MIN = 100, 8
_LENGTH = re.compile(r"\+?([0-9]+[wdhms][0-9wdhms]*)")


def forecast(
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only schedules whose ids begin so.", show_default=False)
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="T", help="From here on, such as '2026-01-31 09:00' or +2h; by default now."
        ),
    ] = "",
    until: Annotated[
        str, typer.Option("--to", metavar="T", help="Up to here, or for so long: 7d; by default 24h.")
    ] = "",
    bucket: Annotated[
        str,
        typer.Option("--bucket", metavar="TIME", help="How long a bar is: 1s, 1m, 1h; by default few bars."),
    ] = "",
    worst: Annotated[
        int, typer.Option("--worst", min=0, max=20, help="How many of the worst seconds are named.")
    ] = 3,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """How many launches are to come, which seconds are the fullest, who meets in them, and what would help.

    Counted as planned, paused schedules left out: what is missed, skipped or retried is not in it.

    Example: tocsin forecast --to 7d --bucket 1h
    """
    found = ask(url, lambda client: _asked(client, prefix, since, until, bucket, worst), timeout_s=_TIMEOUT_S)
    if as_json:
        print_json(found)
        return
    _plot(found)
    _tell_of_worst(found)
    _tell_of_remedies(found)
    for note in found.notes:
        say(note)


async def _asked(
    client: Client, prefix: str, since: str, until: str, bucket: str, worst: int
) -> ForecastView:
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC)
    begin = now
    if since:
        ahead = _length_s(since, "from") if since.startswith("+") else None
        begin = moments.parse_moment(since, field="from") if ahead is None else now + timedelta(seconds=ahead)
    length_s = _length_s(until, "to") if until else 86_400
    end = moments.parse_moment(until, field="to") if length_s is None else begin + timedelta(seconds=length_s)
    return await client.forecast(
        since=moments.written(begin.replace(microsecond=0)) if since else "",
        until=moments.written(end.replace(microsecond=0)) if until else "",
        bucket=bucket,
        prefix=prefix,
        worst=worst,
    )


def _length_s(text: str, field: str) -> int | None:
    """``7d`` and ``+7d`` are lengths; None: it is a moment."""
    from tocsin.cron import parse_duration

    shape = _LENGTH.fullmatch(text.strip())
    return None if shape is None else parse_duration(shape[1], field=field)


def _plot(found: ForecastView) -> None:
    """A bar a bucket, as wide as there is room for."""
    times = [_label(bucket.at, found) for bucket in found.buckets]
    peak = max(found.buckets, key=lambda bucket: bucket.worst)
    numbers = [f"{bucket.launches:,}" for bucket in found.buckets]
    worsts = [f"{bucket.worst:,}/s" for bucket in found.buckets]
    edges = [
        max(map(len, [title, *column]))
        for title, column in (("", times), ("LAUNCHES", numbers), ("WORST", worsts))
    ]
    columns = shutil.get_terminal_size().columns if a_person_looks() else _PIPE_WIDTH
    mark = "  ◀ peak" if peak.worst else ""
    room = max(_BAR_MIN, columns - sum(edges) - 6 - len(mark))
    highest = max(bucket.launches for bucket in found.buckets)
    print(f"{_zone(found):<{edges[0]}}  {'LAUNCHES':>{edges[1]}}  {'WORST':>{edges[2]}}")
    for time, bucket, number, worst in zip(times, found.buckets, numbers, worsts, strict=True):
        bar = _bar(bucket, highest, room)
        marked = f"{bar:<{room}}{mark}" if bucket is peak else bar
        print(f"{time:<{edges[0]}}  {number:>{edges[1]}}  {worst:>{edges[2]}}  {marked}".rstrip())
    print(f"\n{found.launches:,} launches of {found.schedules:,} schedules")


def _bar(bucket: Bucket, highest: int, room: int) -> str:
    """In eighths of a column; something is always more than nothing."""
    if not bucket.launches:
        return ""
    eighths = max(1, bucket.launches * room * 8 // highest)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _label(at: datetime, found: ForecastView) -> str:
    form = "%H:%M" if found.bucket_s % 60 == 0 else "%H:%M:%S"
    is_long = (found.until - found.since).total_seconds() > 86_400
    return f"{at.astimezone():{'%a %m-%d ' + form if is_long else form}}"


def _zone(found: ForecastView) -> str:
    return found.since.astimezone().tzname() or ""


def _tell_of_worst(found: ForecastView) -> None:
    from tocsin.cli.present import moment, printable

    for second in found.worst:
        print(f"\n{second.launches:,} launches at {moment(second.at, weekday=True)}")
        for title, causes in (
            ("texts", second.texts),
            ("prefixes", second.prefixes),
            ("labels", second.labels),
        ):
            if causes:
                print(printable(f"  {title:<9} {_causes(causes)}"))
        if second.schedules:
            print(printable(f"  {'such as':<9} {', '.join(second.schedules[:3])}"))


def _causes(causes: list[Cause]) -> str:
    return ", ".join(f"{cause.name}: {cause.launches:,}" for cause in causes)


def _tell_of_remedies(found: ForecastView) -> None:
    from tocsin.cli.present import moment

    if not found.remedies:
        return
    number = found.remedies[0].schedules
    print(f"\nIf the {number:,} cron schedules that meet in the worst seconds were changed:")
    width = max(len(remedy.change) for remedy in found.remedies)
    for remedy in found.remedies:
        told = f"{remedy.before:,} -> {remedy.after:,} launches in the worst second"
        print(f"  {remedy.change:<{width}}  {told} (then at {moment(remedy.at)})")
