"""Schedules: list, create, read, replace, delete; pause, resume, run; upcoming, why."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any
from urllib.parse import unquote

from litestar import Request, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter

from tocsin.api import addresses, bodies
from tocsin.api.problems import HttpRefusal
from tocsin.api.service import Given, Service, moment_of, seconds_of
from tocsin.decide import why
from tocsin.decide.timeline import plan
from tocsin.errors import AlreadyExists, InvalidInput, NotFound
from tocsin.model.answer import SchedulePage, UpcomingView, WhyView
from tocsin.model.command import DeleteSchedule, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.model.launch import LaunchView
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import Schedule, ScheduleView, is_same
from tocsin.state import facts, views

Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at most.")]
IfMatch = Annotated[
    str | None, HeaderParameter(name="If-Match", description='Only if this is the version: "3".')
]


@get("/v1/schedules", operation_id="listSchedules")
async def list_schedules(
    service: Given,
    prefix: FromQuery[str] = "",
    label: FromQuery[list[str] | None] = None,
    enabled: FromQuery[bool | None] = None,
    limit: Limit = 100,
    cursor: FromQuery[str] = "",
) -> SchedulePage:
    """In the order of their ids. ``label=team=finance`` may be given several times: all of them must hold."""
    page = await service.replica.read(
        views.schedules, prefix=prefix, enabled=enabled, labels=_labels(label), cursor=cursor, limit=limit
    )
    return SchedulePage(page.items, page.cursor)


@post("/v1/schedules", operation_id="createSchedule")
async def create_schedule(request: Request[Any, Any, Any], service: Given) -> Response[ScheduleView]:
    """201 if it is new, 200 if exactly this one exists already, 409 if another one has its id."""
    schedule = bodies.schedule_of(await bodies.read(request))
    try:
        await service.replica.propose(PutSchedule(schedule, expect=0))
    except AlreadyExists:
        view = await service.replica.read(views.schedule, schedule.id)
        if not is_same(_definition(view), schedule):
            raise
        return _answer(view, 200)
    return _answer(await service.replica.read(views.schedule, schedule.id), 201)


@get("/v1/schedules/{id:str}", operation_id="getSchedule")
async def get_schedule(service: Given, id: FromPath[str]) -> Response[ScheduleView]:
    """The schedule as it was written, and what became of it. Its ETag is its version."""
    return _answer(await service.replica.read(views.schedule, unquote(id)))


@put("/v1/schedules/{id:str}", operation_id="putSchedule")
async def put_schedule(
    request: Request[Any, Any, Any],
    service: Given,
    id: FromPath[str],
    if_match: IfMatch = None,
    if_none_match: Annotated[
        str | None, HeaderParameter(name="If-None-Match", description="Only *: if new.")
    ] = None,
) -> Response[ScheduleView]:
    """Create or replace. The same definition again changes nothing and makes no version."""
    schedule = bodies.schedule_of(await bodies.read(request), unquote(id))
    expect = await _expected(service, schedule.id, if_match, if_none_match)
    known = await service.replica.read(_exists, schedule.id)
    try:
        await service.replica.propose(PutSchedule(schedule, expect=expect))
    except AlreadyExists as exists:
        raise HttpRefusal(412, exists.message, hint="leave If-None-Match out to replace it") from None
    return _answer(await service.replica.read(views.schedule, schedule.id), 200 if known else 201)


@delete("/v1/schedules/{id:str}", operation_id="deleteSchedule")
async def delete_schedule(service: Given, id: FromPath[str], if_match: IfMatch = None) -> None:
    """Its open launches go on; its history stays as long as any."""
    expect = await _expected(service, unquote(id), if_match, None)
    await service.replica.propose(DeleteSchedule(unquote(id), expect=expect))


@post("/v1/schedules/{id:str}/pause", operation_id="pauseSchedule", status_code=200)
async def pause_schedule(
    request: Request[Any, Any, Any], service: Given, id: FromPath[str], if_match: IfMatch = None
) -> Response[ScheduleView]:
    """No launches until it is resumed. What passes meanwhile is not missed: it was paused."""
    note = bodies.small(await bodies.read(request), bodies.PauseBody).note
    return await _switch(service, unquote(id), False, note, if_match)


@post("/v1/schedules/{id:str}/resume", operation_id="resumeSchedule", status_code=200)
async def resume_schedule(
    request: Request[Any, Any, Any], service: Given, id: FromPath[str], if_match: IfMatch = None
) -> Response[ScheduleView]:
    """Goes on with the next occurrence after now."""
    note = bodies.small(await bodies.read(request), bodies.PauseBody).note
    return await _switch(service, unquote(id), True, note, if_match)


@post("/v1/schedules/{id:str}/run", operation_id="runSchedule", status_code=202)
async def run_schedule(service: Given, id: FromPath[str]) -> Response[LaunchView]:
    """One launch now, beside the timeline. The overlap policy holds for it too."""
    lid = await service.replica.propose(LaunchNow(unquote(id)))
    view = await service.replica.read(views.launch_by_number, lid)
    return Response(view, headers={"Location": addresses.written(addresses.LAUNCHES, view.name)})


@get("/v1/schedules/{id:str}/upcoming", operation_id="upcoming")
async def upcoming(
    service: Given,
    id: FromPath[str],
    count: Annotated[int, QueryParameter(ge=1, le=1000, description="How many instants.")] = 10,
    after: FromQuery[str | None] = None,
) -> UpcomingView:
    """The next instants after a moment, by default after now."""
    moment_s = service.now_ms() // 1000 if after is None else seconds_of(moment_of(after, "after"))
    return await service.replica.read(_upcoming, unquote(id), moment_s, count)


@get("/v1/schedules/{id:str}/why", operation_id="why")
async def why_launched(service: Given, id: FromPath[str], at: FromQuery[str | None] = None) -> WhyView:
    """Why there was a launch at that instant, or why not; by default of the last occurrence before now."""
    now_ms = service.now_ms()
    instant_s = None if at is None else seconds_of(moment_of(at, "at"))
    return await service.replica.read(_why, unquote(id), instant_s, now_ms, service.history_age_ms)


HANDLERS = (
    list_schedules,
    create_schedule,
    get_schedule,
    put_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    run_schedule,
    upcoming,
    why_launched,
)


def _answer(view: ScheduleView, status: int = 200) -> Response[ScheduleView]:
    headers = {"ETag": f'"{view.version}"'}
    if status == 201:
        headers["Location"] = addresses.written(addresses.SCHEDULES, view.id)
    return Response(view, status_code=status, headers=headers)


def _definition(view: ScheduleView) -> Schedule:
    return Schedule(**{name: getattr(view, name) for name in Schedule.__struct_fields__})


def _labels(pairs: list[str] | None) -> dict[str, str]:
    labels = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not key or not sign:
            raise InvalidInput(
                f"{pair[:60]!r} is not a label", field="label", value=pair, allowed="key=value"
            )
        labels[key] = value
    return labels


async def _expected(
    service: Given, id: FromPath[str], if_match: str | None, if_none_match: str | None
) -> int | None:
    """The version that the caller's conditions demand; 0: none may exist."""
    if if_none_match is not None:
        if if_none_match.strip() != "*" or if_match is not None:
            raise InvalidInput(
                "that condition cannot be checked",
                field="If-None-Match",
                value=if_none_match,
                allowed="* alone: create, never replace",
            )
        return 0
    if if_match is not None and if_match.strip() == "*":
        return (await service.replica.read(views.schedule, id)).version
    return bodies.version_of(if_match, "If-Match")


async def _switch(
    service: Service, id: str, enabled: bool, note: str, if_match: str | None
) -> Response[ScheduleView]:
    expect = await _expected(service, id, if_match, None)
    await service.replica.propose(SwitchSchedule(id, enabled, expect=expect, note=note))
    return _answer(await service.replica.read(views.schedule, id))


def _exists(db: sqlite3.Connection, id: str) -> bool:
    try:
        views.schedule(db, id)
    except NotFound:
        return False
    return True


def _upcoming(db: sqlite3.Connection, id: str, after_s: int, count: int) -> UpcomingView:
    view = views.schedule(db, id)
    settled = plan(view.resolved, view.timezone, encode_rule(view.rule()))
    instants: list[int] = []
    found: int | None = after_s
    while len(instants) < count and found is not None:
        found = settled.next_instant(found)
        if found is not None:
            instants.append(found)
    return UpcomingView(
        schedule=view.id,
        timezone=view.timezone,
        resolved=view.resolved,
        enabled=view.enabled,
        items=[moment_of(str(instant), "after") for instant in instants],
    )


def _why(db: sqlite3.Connection, id: str, instant_s: int | None, now_ms: int, history_age_ms: int) -> WhyView:
    if instant_s is None:
        instant_s = _last_instant(views.schedule(db, id), now_ms // 1000)
    gathered = facts.gather(db, id, instant_s)
    if gathered.first_known_ms is None and not gathered.launches:
        raise NotFound(
            f"there is no schedule {id!r}, and no record that there was", hint="'tocsin list' shows all"
        )
    in_force = gathered.in_force
    known = gathered._replace(in_force=None if in_force is None else why.InForce(*in_force))
    told: Any = (id, instant_s, now_ms, *known, history_age_ms)
    answer = why.explain(why.Facts(*told))
    at = moment_of(str(instant_s), "at")
    return WhyView(schedule=id, at=at, answer=answer, launches=gathered.launches)


def _last_instant(view: ScheduleView, now_s: int) -> int:
    settled = plan(view.resolved, view.timezone, encode_rule(view.rule()))
    found = settled.expression.previous_unix(now_s + 1)
    if found is None:
        raise InvalidInput(
            f"the schedule {view.id!r} has had no occurrence yet", field="at", value="", allowed="an instant"
        )
    return found
