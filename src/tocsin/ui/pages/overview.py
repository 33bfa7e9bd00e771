"""What an operator leaves open on the wall: first what needs a person, then what happens, then how things stand.

Nothing here walks through schedules. What is to come is drawn as soon as it is counted, and until then there is room
left for it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Any, Literal, NamedTuple

from litestar import Request, Response
from litestar.params import QueryParameter
from markupsafe import Markup

from tocsin.api.door.access import WhoAsks
from tocsin.api.resources import health
from tocsin.api.service import Given, Service
from tocsin.errors import TocsinError
from tocsin.model.activity import MINUTE_MS, Activity, ActivityView
from tocsin.model.launch import LaunchView
from tocsin.model.token import Caller
from tocsin.state import lookout, minutes
from tocsin.state.counts import DAY_MS
from tocsin.ui.answer import page, render
from tocsin.ui.charts.bars import Bar, Now, Part, stacked
from tocsin.ui.charts.scale import Times
from tocsin.ui.neighbours import look_around
from tocsin.ui.outlook import Counted, Wanted, outlook_of
from tocsin.ui.pages.standing import backup_of
from tocsin.ui.words import number, number_of
from tocsin.ui.zone import zone_of

HOUR_MS = 60 * MINUTE_MS
_NAMED = 5
_TO_COME_S = 25 * 3_600
"""An hour more than is shown: what was counted a while ago still reaches far enough."""
SpanName = Literal["hour", "day", "week"]


class Span(NamedTuple):
    """How much of the past is shown, of the time to come, and how long a bar is."""

    words: str
    past_ms: int
    ahead_ms: int
    bucket_ms: int
    bucket_words: str


SPANS: dict[SpanName, Span] = {
    "hour": Span("hour", HOUR_MS, HOUR_MS, MINUTE_MS, "minute"),
    "day": Span("day", DAY_MS, DAY_MS, 15 * MINUTE_MS, "quarter of an hour"),
    "week": Span("week", 7 * DAY_MS, DAY_MS, HOUR_MS, "hour"),
}
_Wish = Annotated[SpanName, QueryParameter()]


class Named(NamedTuple):
    """The launches that are named on the page."""

    failed: list[lookout.Trouble]
    in_doubt: list[lookout.Trouble]
    open: list[LaunchView]


@page("/")
async def overview(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, span: _Wish = "hour"
) -> Response[str]:
    found = await health.look(service, caller.prefixes)
    named = await service.replica.read(_named, found.now_ms, caller.prefixes)
    around = await look_around(service)
    to_come = outlook_of(service).known(_wanted(caller))
    return render(
        "overview.html",
        request,
        service,
        caller,
        issues=health.issues_by_kind(service, found, caller.prefixes),
        found=found,
        named=named,
        cluster=around.view,
        snapshot=service.replica.snapshotter.newest,
        backup=backup_of(service),
        has_forecast=to_come is not None,
        **await _drawn(request, service, span, to_come),
    )


@page("/overview/chart")
async def chart(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, span: _Wish = "hour"
) -> Response[str]:
    """The chart with what is to come, when that has been counted."""
    to_come: Counted | None = None
    with contextlib.suppress(TocsinError):  # many are asking: the page goes on without, and asks again
        to_come = await outlook_of(service).made(_wanted(caller))
    drawn = await _drawn(request, service, span, to_come)
    return render("parts/activity.html", request, service, caller, **drawn)


HANDLERS = (overview, chart)


def _wanted(caller: Caller) -> Wanted:
    return Wanted(_TO_COME_S, 60, 0, caller.prefixes)


def _named(db: sqlite3.Connection, now_ms: int, within: Sequence[str]) -> Named:
    return Named(
        lookout.newest_trouble(db, "failed", now_ms - DAY_MS, within, _NAMED),
        lookout.newest_trouble(db, "in_doubt", now_ms - DAY_MS, within, _NAMED),
        lookout.oldest_open(db, within, _NAMED),
    )


# The chart


async def _drawn(
    request: Request[Any, Any, Any], service: Service, name: SpanName, to_come: Counted | None
) -> dict[str, Any]:
    """What the part with the chart needs."""
    span, now_ms, zone = SPANS[name], service.now_ms(), zone_of(request)
    begin_ms = now_ms // span.bucket_ms * span.bucket_ms + span.bucket_ms - span.past_ms
    activity = await service.replica.read(minutes.activity, begin_ms, now_ms, span.bucket_ms)
    ahead = _ahead(to_come, span, now_ms)
    return {
        "span": name,
        "spans": SPANS,
        "activity": activity,
        "zone_name": str(zone),
        "ahead": sum(ahead.values()) if to_come else None,
        "chart": _chart(activity, ahead, span, now_ms, zone, is_counted=to_come is not None),
    }


def _ahead(to_come: Counted | None, span: Span, now_ms: int) -> dict[int, int]:
    """Launches to come by the beginning of their bar: of the one that is under way, only from the next minute on."""
    if to_come is None:
        return {}
    found: dict[int, int] = {}
    until_ms = _end_ms(span, now_ms)
    for bucket in to_come.view.buckets:
        at_ms = int(bucket.at.timestamp() * 1000)
        if now_ms // MINUTE_MS * MINUTE_MS < at_ms < until_ms:
            begin_ms = at_ms // span.bucket_ms * span.bucket_ms
            found[begin_ms] = found.get(begin_ms, 0) + bucket.launches
    return found


def _end_ms(span: Span, now_ms: int) -> int:
    """Behind the last whole bar."""
    return (now_ms + span.ahead_ms) // span.bucket_ms * span.bucket_ms


def _chart(
    activity: ActivityView,
    ahead: dict[int, int],
    span: Span,
    now_ms: int,
    zone: tzinfo,
    *,
    is_counted: bool,
) -> Markup:
    past = {int(item.at.timestamp() * 1000): item for item in activity.items}
    bars = [
        _bar(at_ms, past.get(at_ms), ahead.get(at_ms, 0), span, zone)
        for at_ms in sorted({*past, *(at_ms for at_ms, count in ahead.items() if count)})
    ]
    times = Times(int(activity.since.timestamp() * 1000), _end_ms(span, now_ms))
    now = Now(now_ms, "" if is_counted else "counting what is to come …")
    return stacked(bars, times, zone, label=_gist(activity, ahead, span, is_counted), now=now)


def _bar(at_ms: int, item: Activity | None, to_come: int, span: Span, zone: tzinfo) -> Bar:
    above, below, told = [], [], []
    if item is not None:
        above = [
            Part("started", item.started - item.late),
            Part("late", item.late),
            Part("skipped", item.skipped),
            Part("missed", item.missed),
        ]
        below = [Part("failed", item.failed), Part("in_doubt", item.in_doubt)]
        told = _happened(item)
    if to_come:
        above.append(Part("forecast", to_come))
        told.append(f"{number(to_come)} to come")
    form = "%a %d %b %H:%M" if span.past_ms > HOUR_MS else "%H:%M"
    when = f"{datetime.fromtimestamp(at_ms / 1000, zone):{form}}"
    return Bar(at_ms, at_ms + span.bucket_ms, f"{when}: {', '.join(told) or 'nothing'}", above, below)


def _happened(item: Activity) -> list[str]:
    """In words, without what there was none of."""
    told = (
        (item.started, "started"),
        (item.late, "of them late"),
        (item.succeeded, "succeeded"),
        (item.failed, "failed"),
        (item.in_doubt, "in doubt"),
        (item.cancelled, "cancelled"),
        (item.skipped, "skipped"),
        (item.missed, "missed"),
    )
    return [f"{number(count)} {words}" for count, words in told if count]


def _gist(activity: ActivityView, ahead: dict[int, int], span: Span, is_counted: bool) -> str:
    happened = ", ".join(_happened(activity.totals)) or "nothing was launched"
    to_come = f"; {number_of(sum(ahead.values()), 'launch', 'launches')} to come" if is_counted else ""
    return f"Launches per {span.bucket_words} of the last {span.words}: {happened}{to_come}"
