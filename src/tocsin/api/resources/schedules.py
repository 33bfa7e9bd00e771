"""Schedules: list, create, read, replace, edit, delete. What is done to one stands in ``operate``, what is to be
expected of one in ``foresee``."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from litestar import Request, delete, get, patch, post, put
from litestar.params import FromPath

from tocsin.api import bodies, conditions, query
from tocsin.api.answers import Answer, schedule_answer, unchanged_answer
from tocsin.api.conditions import Conditions
from tocsin.api.description import samples
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.query import IfMatch, IfNoneMatch
from tocsin.api.resources import foresee, operate
from tocsin.api.service import Given, Service
from tocsin.api.texts import schedule_of
from tocsin.errors import AlreadyExists
from tocsin.model.answer import SchedulePage
from tocsin.model.command import DeleteSchedule, PutSchedule
from tocsin.model.schedule import Schedule, ScheduleView, is_same
from tocsin.model.target import KINDS
from tocsin.model.token import Caller
from tocsin.state import views

_READ = "The schedule."


@get(
    "/v1/schedules",
    operation_id="listSchedules",
    opt=about("schedules", "List schedules", answers={200: ("A page of the list.", SchedulePage)}),
)
async def list_schedules(
    service: Given,
    caller: WhoAsks,
    prefix: query.Prefix = "",
    label: query.Labels = None,
    enabled: query.Enabled = None,
    target: query.TargetKind = None,
    limit: query.Limit = 100,
    cursor: query.Cursor = "",
) -> SchedulePage:
    """In the order of their ids. A page may hold less than its limit, or nothing, although more follow: the list
    has ended when its `cursor` is empty."""
    page = await service.replica.read(
        views.schedules,
        prefix=query.prefix_of(prefix),
        enabled=query.truth_of(enabled),
        labels=query.labels_of(label),
        target=query.one_of(target, KINDS, "target"),
        within=caller.prefixes,
        cursor=query.position_of("s", cursor),
        limit=limit,
    )
    return SchedulePage(page.items, query.cursor_of("s", page.cursor))


@post(
    "/v1/schedules",
    operation_id="createSchedule",
    opt=about(
        "schedules",
        "Create a schedule",
        body=Schedule,
        example=samples.SCHEDULE,
        answers={201: ("It is new.", ScheduleView), 200: ("Exactly this one exists already.", ScheduleView)},
        refusals={409: "Another schedule has this id."},
    ),
)
async def create_schedule(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Answer:
    """Never replaces one: an id that is taken by another definition is a conflict. Sending the same one again is
    safe."""
    return await create(await request.body(), service, caller)


async def create(body: bytes, service: Service, caller: Caller) -> Answer:
    """What the body asks for."""
    schedule = await bodies.aside(len(body), schedule_of, body)
    try:
        version = await service.propose(caller, PutSchedule(schedule, expect=0))
    except AlreadyExists:
        view = await service.replica.read(conditions.newest, schedule.id)
        if view is None or not is_same(views.definition(view), schedule):
            raise
        return schedule_answer(view)
    return await conditions.written(service, schedule.id, version, 201)


@get(
    "/v1/schedules/{id:str}",
    operation_id="getSchedule",
    opt=about(
        "schedules",
        "Read a schedule",
        answers={200: (_READ, ScheduleView), 304: ("It is the version of If-None-Match.", None)},
        refusals={404: "There is no such schedule."},
    ),
)
async def get_schedule(service: Given, id: FromPath[str], if_none_match: IfNoneMatch = None) -> Answer:
    """As it was written, and what became of it: its version, the text that its cron settled to, its next
    instant. The `ETag` is the version."""
    known = Conditions.of(if_none_match=if_none_match)
    view = await service.replica.read(views.schedule, unquote(id))
    if known.is_unchanged(view.version):
        return unchanged_answer(view.version)
    return schedule_answer(view)


@put(
    "/v1/schedules/{id:str}",
    operation_id="putSchedule",
    opt=about(
        "schedules",
        "Create or replace a schedule",
        body=Schedule,
        body_may_lack="id",
        example=samples.BY_ADDRESS,
        answers={200: ("It existed, and is now as sent.", ScheduleView), 201: ("It is new.", ScheduleView)},
        refusals={409: "Others kept changing it.", 412: "It is not at the version that was demanded."},
    ),
)
async def put_schedule(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Answer:
    """The whole definition; what is left out gets its default. The same definition again changes nothing and
    makes no version. `id` may be left out of the body."""
    demanded = Conditions.of(if_match, if_none_match)
    schedule = await bodies.taken(request, schedule_of, unquote(id))

    def command(present: ScheduleView | None) -> PutSchedule:
        return PutSchedule(schedule, expect=conditions.expected(present))

    before, version = await conditions.write(service, caller, schedule.id, demanded, command)
    return await conditions.written(service, schedule.id, version, 200 if before else 201)


@patch(
    "/v1/schedules/{id:str}",
    operation_id="patchSchedule",
    opt=about(
        "schedules",
        "Edit a schedule",
        body=bodies.SchedulePatch,
        body_kinds=(bodies.MERGE_PATCH, bodies.JSON),
        example=samples.PATCH,
        answers={200: ("The schedule as it is now.", ScheduleView)},
        refusals={
            404: "There is no such schedule.",
            409: "Others kept changing it.",
            412: "It is not at the version that was demanded.",
        },
    ),
)
async def patch_schedule(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Answer:
    """A JSON merge patch (RFC 7396): the fields that are named change, `null` gives a field its default again,
    and objects such as `labels` are merged in the same way. To change the kind of a target, set what belonged to
    the former kind to `null`. The result must be a valid schedule. Without `If-Match` the patch is applied to
    whatever version is the newest."""
    demanded = Conditions.of(if_match, if_none_match)
    id = unquote(id)
    body = await request.body()
    changes = await bodies.aside(len(body), bodies.patch_of, body, id)

    async def command(present: ScheduleView | None) -> PutSchedule:
        newest = conditions.existing(present, id)
        patched = await bodies.aside(len(body), bodies.patched, views.definition(newest), changes)
        return PutSchedule(patched, expect=newest.version)

    _, version = await conditions.write(service, caller, id, demanded, command)
    return await conditions.written(service, id, version)


@delete(
    "/v1/schedules/{id:str}",
    operation_id="deleteSchedule",
    opt=about(
        "schedules",
        "Delete a schedule",
        answers={204: ("It is gone.", None)},
        refusals={
            404: "There is no such schedule.",
            409: "Others kept changing it.",
            412: "It is not at the version that was demanded.",
        },
    ),
)
async def delete_schedule(
    service: Given, caller: WhoAsks, id: FromPath[str], if_match: IfMatch = None
) -> None:
    """Its open launches go on; its history stays as long as any."""
    demanded = Conditions.of(if_match)
    id = unquote(id)

    def command(present: ScheduleView | None) -> DeleteSchedule:
        return DeleteSchedule(id, expect=conditions.existing(present, id).version)

    await conditions.write(service, caller, id, demanded, command)


HANDLERS = (
    list_schedules,
    create_schedule,
    get_schedule,
    put_schedule,
    patch_schedule,
    delete_schedule,
    *operate.HANDLERS,
    *foresee.HANDLERS,
)
