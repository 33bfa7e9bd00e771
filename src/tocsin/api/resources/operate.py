"""What is done to a schedule: pause, resume, run."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from litestar import Request, Response, post
from litestar.params import FromPath

from tocsin.api import bodies, conditions
from tocsin.api.answers import Answer
from tocsin.api.conditions import Conditions
from tocsin.api.description.about import about
from tocsin.api.door import addresses
from tocsin.api.door.access import WhoAsks
from tocsin.api.query import IfMatch
from tocsin.api.service import Given, Service
from tocsin.model.command import LaunchNow, SwitchSchedule
from tocsin.model.launch import LaunchView
from tocsin.model.schedule import ScheduleView
from tocsin.model.token import Caller
from tocsin.state import views

_REFUSALS = {
    404: "There is no such schedule.",
    409: "Others kept changing it.",
    412: "It is not at the version that was demanded.",
}


@post(
    "/v1/schedules/{id:str}/pause",
    operation_id="pauseSchedule",
    status_code=200,
    opt=about(
        "schedules",
        "Pause a schedule",
        body=bodies.PauseBody,
        body_is_optional=True,
        example={"note": "the bank is down"},
        answers={200: ("The schedule, paused.", ScheduleView)},
        refusals=_REFUSALS,
    ),
)
async def pause_schedule(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    if_match: IfMatch = None,
) -> Answer:
    """No launches until it is resumed. What passes meanwhile is not missed: it was paused."""
    note = (await bodies.taken(request, bodies.small, bodies.PauseBody)).note
    return await _switch(service, caller, unquote(id), False, note, Conditions.of(if_match))


@post(
    "/v1/schedules/{id:str}/resume",
    operation_id="resumeSchedule",
    status_code=200,
    opt=about(
        "schedules",
        "Resume a schedule",
        body=bodies.PauseBody,
        body_is_optional=True,
        example={"note": "the bank is back"},
        answers={200: ("The schedule, enabled.", ScheduleView)},
        refusals=_REFUSALS,
    ),
)
async def resume_schedule(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    id: FromPath[str],
    if_match: IfMatch = None,
) -> Answer:
    """Goes on with the next occurrence after now."""
    note = (await bodies.taken(request, bodies.small, bodies.PauseBody)).note
    return await _switch(service, caller, unquote(id), True, note, Conditions.of(if_match))


@post(
    "/v1/schedules/{id:str}/run",
    operation_id="runSchedule",
    status_code=202,
    opt=about(
        "schedules",
        "Launch a schedule now",
        body=bodies.NoBody,
        body_is_optional=True,
        answers={
            202: (
                "The launch. Its address is in `Location`.",
                LaunchView,
                ("application/json",),
                ("Location",),
            )
        },
        refusals={
            404: "There is no such schedule.",
            409: "Its overlap policy forbids it, or there is one of this second already.",
        },
    ),
)
async def run_schedule(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, id: FromPath[str]
) -> Response[LaunchView]:
    """One launch now, beside the timeline. The overlap policy holds for it too."""
    await bodies.taken(request, bodies.small, bodies.NoBody)
    lid = await service.propose(caller, LaunchNow(unquote(id)))
    view = await service.replica.read(views.launch_by_number, lid)
    return Response(view, headers={"Location": addresses.written(addresses.LAUNCHES, view.name)})


HANDLERS = (pause_schedule, resume_schedule, run_schedule)


async def _switch(
    service: Service, caller: Caller, id: str, enabled: bool, note: str, demanded: Conditions
) -> Answer:
    def command(present: ScheduleView | None) -> SwitchSchedule:
        version = conditions.existing(present, id).version
        return SwitchSchedule(id, enabled, expect=version, note=note)

    _, version = await conditions.write(service, caller, id, demanded, command)
    return await conditions.written(service, id, version)
