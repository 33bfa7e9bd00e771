"""What people do after the fact: look who did what, restore, backfill, resolve."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from litestar import Request, Response, get, post
from litestar.params import FromPath, QueryParameter

from tocsin.api import bodies
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.query import Cursor, Limit, cursor_of, position_of
from tocsin.api.service import Given, moment_of, seconds_of
from tocsin.api.warnings import with_warnings
from tocsin.decide.backfill import Past
from tocsin.errors import AlreadyExists, InvalidInput, NotFound
from tocsin.model.command import Backfill, PutSchedule, ResolveLaunch
from tocsin.model.history import BackfillView, PastView, RecordPage, VersionList
from tocsin.model.launch import LaunchView
from tocsin.model.request import BackfillRequest, ResolveRequest, RestoreRequest
from tocsin.model.rights import require_reach
from tocsin.model.schedule import ScheduleView, check
from tocsin.replica.prepare import past_occurrences
from tocsin.state import chronicle, views


@get(
    "/v1/history",
    operation_id="history",
    opt=about("history", "Who did what", answers={200: ("A part of the record.", RecordPage)}),
)
async def history(
    service: Given,
    caller: WhoAsks,
    schedule: Annotated[
        str | None, QueryParameter(description="Only about this schedule.", max_length=200)
    ] = None,
    actor: Annotated[str | None, QueryParameter(description="Only of this actor.", max_length=100)] = None,
    limit: Limit = 100,
    cursor: Cursor = "",
) -> RecordPage:
    """Who did what, the newest first: changes of schedules, launches by hand, tokens."""
    if schedule is not None:
        require_reach(caller, schedule)
    page = await service.replica.read(
        chronicle.records,
        about=schedule,
        actor=actor,
        within=caller.prefixes,
        cursor=position_of("r", cursor),
        limit=limit,
    )
    return RecordPage(page.items, cursor_of("r", page.cursor))


@get(
    "/v1/schedules/{id:str}/versions",
    operation_id="listVersions",
    opt=about(
        "history",
        "The versions of a schedule",
        answers={200: ("All that are kept.", VersionList)},
        refusals={404: "There is no such schedule, and no record that there was."},
    ),
)
async def list_versions(service: Given, id: FromPath[str]) -> VersionList:
    """Every version of a schedule that is kept, also of one that was deleted; the newest first."""
    return VersionList(unquote(id), await service.replica.read(chronicle.versions, unquote(id)))


@post(
    "/v1/schedules/{id:str}/restore",
    operation_id="restoreSchedule",
    status_code=200,
    opt=about(
        "history",
        "Bring back a former version",
        body=RestoreRequest,
        body_is_optional=True,
        example={"version": 1},
        answers={200: ("The schedule as it is now.", ScheduleView)},
        refusals={
            404: "There is no such version.",
            409: "It was not deleted, so a version must be named.",
            412: "Somebody else changed it in the same moment.",
        },
    ),
)
async def restore_schedule(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, id: FromPath[str]
) -> Response[ScheduleView]:
    """Bring back a former version, or a schedule that was deleted. It goes on with the next occurrence after now."""
    id = unquote(id)
    wanted = (await bodies.taken(request, bodies.optional, RestoreRequest)).version
    kept = await service.replica.read(chronicle.versions, id)
    if wanted is None and kept[0].until is None:
        raise AlreadyExists(
            f"the schedule {id!r} was not deleted",
            hint='say which version to go back to, such as {"version": 1}',
        )
    found = next((old for old in kept if wanted in (None, old.version)), None)
    if found is None:
        have = ", ".join(str(old.version) for old in kept[:20])
        raise NotFound(f"version {wanted} of {id!r} is not kept", hint=f"there are {have}")
    expect = 0 if kept[0].until is not None else kept[0].version
    command = PutSchedule(check(found.schedule), expect=expect, restored=found.version)
    put = await service.propose(caller, command)
    view = with_warnings(await service.replica.read(views.schedule, id), put)
    return Response(view, headers={"ETag": f'"{view.version}"'})


@post(
    "/v1/schedules/{id:str}/backfill",
    operation_id="backfillSchedule",
    status_code=200,
    opt=about(
        "schedules",
        "Launch what was left out",
        body=BackfillRequest,
        example={"from": "2026-01-01T00:00:00Z", "until": "2026-01-08T00:00:00Z", "preview": True},
        answers={200: ("Every occurrence in that time, and what becomes of it.", BackfillView)},
        refusals={404: "There is no such schedule.", 409: "Nothing in that time was left out."},
    ),
)
async def backfill_schedule(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, id: FromPath[str]
) -> BackfillView:
    """Launch what was skipped, missed or paused in a time that has passed. With ``preview`` only tell what would be.

    They start one at a time, the oldest first, when nothing else of the schedule is open, under their own names: so
    nothing that was launched is launched again.
    """
    wish = await bodies.taken(request, bodies.json_of, BackfillRequest)
    now_s = service.now_ms() // 1000
    from_s = seconds_of(moment_of(wish.from_, "from"))
    until_s = now_s + 1 if wish.until is None else seconds_of(moment_of(wish.until, "until"))
    if until_s <= from_s:
        raise InvalidInput(
            "the end is not after the beginning",
            field="until",
            value=wish.until,
            allowed="a moment after from",
        )
    recorded_since_s = now_s - service.history_age_ms // 1000
    command = Backfill(unquote(id), from_s, until_s, wish.unrecorded, recorded_since_s)
    found, more = await service.replica.read(past_occurrences, command, service.now_ms())
    if not wish.preview:
        await service.propose(caller, command)
    return _told(unquote(id), wish.preview, found, more)


@post(
    "/v1/launches/{name:str}/resolve",
    operation_id="resolveLaunch",
    status_code=200,
    opt=about(
        "launches",
        "End a doubt",
        body=ResolveRequest,
        example={"outcome": "succeeded", "note": "the bank's statement shows it"},
        answers={200: ("The launch as it is now.", LaunchView)},
        refusals={404: "There is no such launch.", 409: "It is not in doubt."},
    ),
)
async def resolve_launch(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, name: FromPath[str]
) -> LaunchView:
    """Say what became of a launch that is in doubt, or have it called again under its own name."""
    wish = await bodies.taken(request, bodies.json_of, ResolveRequest)
    await service.propose(caller, ResolveLaunch(unquote(name), wish.outcome, wish.note))
    return await service.replica.read(views.launch, unquote(name))


HANDLERS = (history, list_versions, restore_schedule, backfill_schedule, resolve_launch)


def _told(id: str, preview: bool, found: list[Past], more: bool) -> BackfillView:
    launches = sum(past.launch for past in found)
    return BackfillView(
        schedule=id,
        preview=preview,
        launches=launches,
        left_out=len(found) - launches,
        more=more,
        items=[
            PastView(at=moment_of(str(past.instant_s), "at"), launch=past.launch, why=past.why)
            for past in found
        ],
    )
