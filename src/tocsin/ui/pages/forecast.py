"""What is to come: the hours of a week, the minutes of a day, the worst seconds and who meets in them.

The figures are those of ``GET /v1/forecast``. With millions of schedules they take seconds to count, so the page comes
first, and each part when it is ready.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from litestar import Request, Response
from litestar.params import QueryParameter

from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service
from tocsin.errors import InvalidInput
from tocsin.model.forecast import WORST_MAX, ForecastView, WorstSecond
from tocsin.state.counts import counts
from tocsin.ui.answer import page, render
from tocsin.ui.charts import heat
from tocsin.ui.outlook import Counted, Wanted, outlook_of
from tocsin.ui.words import number, number_of
from tocsin.ui.zone import zone_of

DAY_S = 86_400
DAYS = 7
_CROWDS_NAMED, _CROWDS_OF_DAY = 5, 3
_MINUTES_NAMED = 5
_MAINLY = 0.1
"""Texts with a smaller part of a second's launches are not what it is about."""
_ARE_MANY = 100_000
"""From so many schedules on a reader is told that it takes a while."""

_Day = Annotated[str, QueryParameter()]


@page("/forecast")
async def forecast(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, day: _Day = ""
) -> Response[str]:
    zone, today = zone_of(request), _today(request, service)
    held = await service.replica.read(counts, service.now_ms())
    return render(
        "forecast.html",
        request,
        service,
        caller,
        zone_name=str(zone),
        day=_day(day, today),
        days=_days(today),
        enabled=held.enabled,
        are_many=held.enabled >= _ARE_MANY,
    )


@page("/forecast/week")
async def week(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Response[str]:
    """Hour by hour, the worst seconds, and what would help."""
    zone = zone_of(request)
    wanted = Wanted(DAYS * DAY_S, _hour_s(zone, service.now_ms()), WORST_MAX, caller.prefixes)
    found = await outlook_of(service).made(wanted)
    days = heat.by_day(found.view.buckets, zone)
    links = {each: f"/forecast?day={each.isoformat()}#day" for each in days}
    shades = heat.Shades.of(cell for row in days.values() for cell in row.values())
    return render(
        "parts/forecast_week.html",
        request,
        service,
        caller,
        **_told(found, _CROWDS_NAMED),
        table=heat.hours(days, shades, links, f"Launches by hour and day, in {zone}"),
        steps=shades.steps(),
        peak=_peak(found.view),
    )


@page("/forecast/day")
async def of_day(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, day: _Day = ""
) -> Response[str]:
    """One day, minute by minute."""
    zone, chosen = zone_of(request), _day(day, _today(request, service))
    begin_s, end_s = _midnight_s(chosen, zone), _midnight_s(chosen + timedelta(days=1), zone)
    wanted = Wanted(end_s - begin_s, 60, WORST_MAX, caller.prefixes, begin_s)
    found = await outlook_of(service).made(wanted)
    cells = heat.by_minute(found.view.buckets, zone)
    shades = heat.Shades.of(cells.values())
    named = [(f"{at // 60:02d}:{at % 60:02d}", cell) for at, cell in heat.fullest(cells, _MINUTES_NAMED)]
    gist = f"{chosen:%A}: {number_of(found.view.launches, 'launch', 'launches')}"
    gist += f"; the fullest minute is {named[0][0]}, with {number(named[0][1].launches)}" if named else ""
    return render(
        "parts/forecast_day.html",
        request,
        service,
        caller,
        **_told(found, _CROWDS_OF_DAY),
        map=heat.minutes(cells, shades, gist),
        gist=gist,
        named=named,
        steps=shades.steps(),
        rows=_rows(cells),
    )


HANDLERS = (forecast, week, of_day)


class Crowd(NamedTuple):
    """Those who meet in a second, and all the seconds in which the same do."""

    second: WorstSecond
    moments: list[datetime]


def _crowds(view: ForecastView, most: int) -> list[Crowd]:
    """What is due at nine every day is told once, also if a few others come and go."""
    found: dict[tuple[str, ...], Crowd] = {}
    for second in view.worst:
        mainly = tuple(cause.name for cause in second.texts if cause.launches >= _MAINLY * second.launches)
        found.setdefault(mainly, Crowd(second, [])).moments.append(second.at)
    return list(found.values())[:most]


def _told(found: Counted, most: int) -> dict[str, Any]:
    return {"view": found.view, "counted_ms": found.at_ms, "crowds": _crowds(found.view, most)}


def _peak(view: ForecastView) -> int:
    return max((bucket.worst for bucket in view.buckets), default=0)


def _rows(cells: dict[int, heat.Cell]) -> list[tuple[str, int, str]]:
    """Hour by hour in words, for who cannot see the map: launches, and the fullest minute."""
    rows = []
    for hour in range(24):
        within = {at: cell for at, cell in cells.items() if at // 60 == hour and cell.launches}
        worst = heat.fullest(within, 1)
        told = f":{worst[0][0] % 60:02d} with {number(worst[0][1].launches)}" if worst else "none"
        rows.append((f"{hour:02d}:00", sum(cell.launches for cell in within.values()), told))
    return rows


# Days and hours of the reader


def _today(request: Request[Any, Any, Any], service: Service) -> date:
    return datetime.fromtimestamp(service.now_ms() / 1000, zone_of(request)).date()


def _days(today: date) -> list[date]:
    return [today + timedelta(days=place) for place in range(DAYS + 1)]


def _day(text: str, today: date) -> date:
    """The one that was asked for; without a wish, tomorrow."""
    if not text:
        return today + timedelta(days=1)
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    # Somebody whose zone is not known yet may be a day ahead or behind.
    if found is None or not today - timedelta(days=1) <= found <= today + timedelta(days=DAYS + 1):
        last = today + timedelta(days=DAYS)
        raise InvalidInput(
            f"{text[:40]!r} is no day that is counted", field="day", value=text, allowed=f"{today} to {last}"
        )
    return max(found, today)


def _midnight_s(day: date, zone: ZoneInfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def _hour_s(zone: ZoneInfo, now_ms: int) -> int:
    """How long a bucket is, so that hours of that zone are made of whole ones."""
    moments = (datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(days=place) for place in (0, DAYS))
    offsets_s = [int((at.astimezone(zone).utcoffset() or timedelta()).total_seconds()) for at in moments]
    return 900 if any(offset % 3_600 for offset in offsets_s) else 3_600
