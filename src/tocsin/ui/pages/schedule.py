"""One schedule: what it is, what became of its launches, who changed it, and what can be done with it."""

from __future__ import annotations

import sqlite3
from datetime import date
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

from litestar import Request, Response
from litestar.params import FromPath, QueryParameter

from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given
from tocsin.cron.zones import zone
from tocsin.decide.timeline import plan
from tocsin.errors import InvalidInput, NotFound
from tocsin.model.history import VersionView
from tocsin.model.ids import launch_name
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule, ScheduleView
from tocsin.state import chronicle, outcomes, queries, views
from tocsin.state.outcomes import Attempt, Days, Row
from tocsin.ui.answer import page, render
from tocsin.ui.pages import schedule_charts as charts
from tocsin.ui.pages import schedule_words as words

UPCOMING = 5
LISTED = 20
DRAWN = 40
DRAWN_OF_DAY = 80
PLOTTED = 200
VERSIONS_LISTED = 8
_OPEN_DRAWN = 20
ROUNDS_MAX = 60
"""So often more launches are looked at for a calendar that is not waited for; others have their turn in between."""


class Past(NamedTuple):
    """What is kept about a schedule, gathered in one go."""

    sid: int
    present: ScheduleView | None
    """None: it was deleted."""
    versions: list[VersionView]
    deleted_by: str
    newest: list[Row]
    drawn: list[Row]
    """For the timeline: the newest and whatever is open, or those of a chosen day."""
    of_day: int
    """How many launches that day has."""
    attempts: dict[int, list[Attempt]]
    days: Days
    first_kept_s: int | None
    missed: list[tuple[int, int]]
    open: int
    forgotten_upto_s: int

    @property
    def definition(self) -> Schedule:
        return self.versions[0].schedule


@page("/schedules/{id:str}")
async def schedule(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    day: Annotated[str, QueryParameter()] = "",
    versions: Annotated[str, QueryParameter()] = "",
) -> Response[str]:
    """``day``: the timeline of that day, in the schedule's zone. ``versions=all``: every version that is kept."""
    now_ms = service.now_ms()
    chosen = _day_of(day) if day else None
    past = await service.replica.read(gather, unquote(id), now_ms, chosen)
    definition, where = past.definition, zone(past.definition.timezone)
    shown = len(past.versions) if versions == "all" else VERSIONS_LISTED
    return render(
        "schedule.html",
        request,
        service,
        caller,
        id=definition.id,
        schedule=definition,
        present=past.present,
        newest=past.newest[:LISTED],
        name_of=lambda row: launch_name(definition.id, row.instant_s, row.is_manual),
        open_number=past.open,
        target=words.target_words(definition.target),
        policies=list(words.policies(definition)),
        payload=words.payload_text(definition.payload),
        explained=_explained(past),
        upcoming=_upcoming(past.present, now_ms),
        ended=past.versions[0],
        deleted_by=past.deleted_by,
        paused=_paused(past),
        versions=words.version_rows(past.versions, shown),
        older_versions=len(past.versions) - shown,
        value_text=words.value_text,
        label_search=words.label_search,
        all_versions=versions == "all",
        calendar=_calendar(past, past.days, now_ms, chosen),
        day=day,
        timeline=charts.timeline_of(
            definition.id, past.drawn, past.attempts, where, now_ms, chosen, past.of_day
        ),
        durations=charts.durations_of(definition.id, past.newest, where, now_ms),
        kept_for_ms=service.history_age_ms,
    )


@page("/schedules/{id:str}/part")
async def part(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    day: Annotated[str, QueryParameter()] = "",
) -> Response[str]:
    """The calendar of a schedule that has more launches than a page can wait for."""
    now_ms = service.now_ms()
    chosen = _day_of(day) if day else None
    past = await service.replica.read(gather, unquote(id), now_ms, chosen)
    days, within = past.days, list(charts.half_a_year(zone(past.definition.timezone), now_ms))
    for _ in range(ROUNDS_MAX):
        if days.seen_from_s is None:
            break
        older = [stretch.until(days.seen_from_s) for stretch in within]
        days = days.joined(await service.replica.read(outcomes.by_day, past.sid, older))
    return render(
        "parts/schedule_calendar.html",
        request,
        service,
        caller,
        schedule=past.definition,
        calendar=_calendar(past, days, now_ms, chosen),
        kept_for_ms=service.history_age_ms,
    )


HANDLERS = (schedule, part)


def gather(db: sqlite3.Connection, id: str, now_ms: int, chosen: int | None) -> Past:
    """A bounded number of rows, whatever is kept."""
    versions = chronicle.versions(db, id)
    sid = outcomes.number_of(db, id)
    if sid is None:  # it went between the two questions
        raise NotFound(f"there is no schedule {id!r}", hint="'tocsin list' shows all")
    present = views.schedule(db, id) if versions[0].until is None else None
    where = zone(versions[0].schedule.timezone)
    within = list(charts.half_a_year(where, now_ms))
    newest = outcomes.newest(db, sid, PLOTTED)
    of_day = 0
    if chosen is None:
        seen = {row.lid for row in newest[:DRAWN]}
        drawn = newest[:DRAWN] + [row for row in outcomes.opened(db, sid, _OPEN_DRAWN) if row.lid not in seen]
    else:
        day = list(outcomes.stretches(where, chosen, chosen + 1))
        drawn, of_day = outcomes.newest(db, sid, DRAWN_OF_DAY, day), outcomes.kept_number(db, sid, day)
    return Past(
        sid=sid,
        present=present,
        versions=versions,
        deleted_by="" if present is not None else outcomes.deleted_by(db, id),
        newest=newest,
        drawn=drawn,
        of_day=of_day,
        attempts=outcomes.attempts(db, [row.lid for row in drawn if row.attempt > 1]),
        days=outcomes.by_day(db, sid, within),
        first_kept_s=outcomes.first_kept_s(db, sid),
        missed=outcomes.missed(db, sid, within[0].from_s, within[-1].until_s),
        open=outcomes.open_number(db, sid),
        forgotten_upto_s=queries.forgotten_of(db, id, now_ms // 1000).upto_s,
    )


def _day_of(text: str) -> int:
    """Days since 1970."""
    try:
        found = (date.fromisoformat(text) - date(1970, 1, 1)).days
    except ValueError:
        found = -1
    if not 0 < found < 2_930_000:
        raise InvalidInput(
            f"{text[:40]!r} is not a day", field="day", value=text, allowed="a day such as 2026-11-10"
        )
    return found


def _calendar(past: Past, days: Days, now_ms: int, chosen: int | None) -> charts.Calendar:
    where = zone(past.definition.timezone)
    return charts.calendar_of(
        days, past.first_kept_s, past.missed, where, now_ms, _known_from_s(past), chosen
    )


def _known_from_s(past: Past) -> int:
    """Before this there was no such schedule, or what it launched may be forgotten."""
    created = (
        past.versions[-1].since
        if past.present is None
        else min(past.present.created_at, past.versions[-1].since)
    )
    return max(int(created.timestamp()), past.forgotten_upto_s + 1)


def _explained(past: Past) -> str:
    """When it is due, in words. What was deleted is read as it was written: its choices are settled by its id."""
    if past.present is None:
        return past.definition.expression().explain()
    settled = plan(past.present.resolved, past.present.timezone, encode_rule(past.present.rule()))
    return settled.expression.explain()


def _upcoming(present: ScheduleView | None, now_ms: int) -> list[int]:
    """Milliseconds since 1970. A paused schedule has them too; the page says that none is launched."""
    if present is None:
        return []
    settled = plan(present.resolved, present.timezone, encode_rule(present.rule()))
    found: list[int] = []
    instant: int | None = now_ms // 1000
    while len(found) < UPCOMING and instant is not None:
        instant = settled.next_instant(instant)
        if instant is not None:
            found.append(instant * 1000)
    return found


def _paused(past: Past) -> VersionView | None:
    """The version with which it was paused, if it is: later ones may be edits of a paused schedule."""
    if past.present is None or past.present.enabled:
        return None
    found = past.versions[0]
    for version in past.versions:
        if version.schedule.enabled:
            break
        found = version
        if version.act == "paused":
            break
    return found
