"""Launches: list, read, output, cancel."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath, QueryParameter

from tocsin.api import bodies, query
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.door.gate import address_of
from tocsin.api.resources.output import beyond, wherever
from tocsin.api.service import Given, moment_of
from tocsin.errors import InvalidInput, NotFound
from tocsin.model.answer import LaunchDetail, LaunchPage, OutputView
from tocsin.model.command import CancelLaunch
from tocsin.model.ids import check_id
from tocsin.model.launch import LaunchView
from tocsin.model.rights import require_reach
from tocsin.state import steps, views
from tocsin.targets.contract import Output

_NO_LAUNCH = {404: "There is no such launch, or it is no longer kept."}


@get(
    "/v1/launches",
    operation_id="listLaunches",
    opt=about("launches", "List launches", answers={200: ("A page of the list.", LaunchPage)}),
)
async def list_launches(
    service: Given,
    caller: WhoAsks,
    schedule: query.ScheduleId = None,
    launch_state: Annotated[
        list[str] | None,
        QueryParameter(
            name="state",
            description="Only launches in this state. May be given several times, or as `failed,in_doubt`.",
            schema_extra={
                "items": {"type": "string", "enum": list(views.all_states())},
                "maxItems": query.REPEATED_MAX,
            },
        ),
    ] = None,
    since: Annotated[str | None, query.moment("Only instants at or after this moment.")] = None,
    until: Annotated[str | None, query.moment("Only instants before this moment.")] = None,
    limit: query.Limit = 100,
    cursor: query.Cursor = "",
) -> LaunchPage:
    """The newest first. `since` and `until` are about the instant that a launch is for, not about when it
    started; `until` itself is not included. The list has ended when its `cursor` is empty."""
    since_ms, until_ms = _stretch(since, until)
    if schedule is not None:
        require_reach(caller, check_id(schedule, field="schedule"))
    page = await service.replica.read(
        views.launches,
        schedule_id=schedule,
        states=_states(launch_state),
        since_ms=since_ms,
        until_ms=until_ms,
        within=caller.prefixes,
        cursor=query.position_of("l", cursor),
        limit=limit,
    )
    return LaunchPage(page.items, query.cursor_of("l", page.cursor))


@get(
    "/v1/launches/{name:str}",
    operation_id="getLaunch",
    opt=about("launches", "Read a launch", answers={200: ("The launch.", LaunchDetail)}, refusals=_NO_LAUNCH),
)
async def get_launch(service: Given, name: FromPath[str]) -> LaunchDetail:
    """The launch, with the attempts that came before its last one."""
    return await service.replica.read(detail, unquote(name))


@get(
    "/v1/launches/{name:str}/output",
    operation_id="getOutput",
    opt=about(
        "launches",
        "Read what a launch printed",
        answers={200: ("Its output.", OutputView, ("application/json", "text/plain; charset=utf-8"))},
        refusals={404: "There is no such launch, or it has no output."},
    ),
)
async def get_output(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    name: FromPath[str],
    attempt: Annotated[
        int | None, QueryParameter(ge=1, le=1_000_000, description="Which attempt; by default the last.")
    ] = None,
    after: Annotated[
        int | None,
        QueryParameter(ge=0, le=1 << 53, description="Only what was printed behind so many bytes."),
    ] = None,
) -> Response[Any]:
    """As JSON, or with `Accept: text/plain` as it was printed."""
    service.check_is_told(caller)  # all else that is read here is no newer than what is known of tokens
    name = unquote(name)
    launch = await service.replica.read(views.launch, name)
    kind = await service.replica.read(views.target_kind, name)
    number = attempt or max(1, launch.attempt)
    found = await wherever(service, kind, name, number, launch.replica)
    if found is None:
        raise NotFound(f"there is no output of attempt {number} of {name!r}", hint=why_no_output(kind))
    service.read_log.output_read(caller, address_of(request.scope), name, number)
    position = len(found.head) + found.dropped + len(found.tail)
    if after is not None:
        found, position = beyond(found, after)
    if "text/plain" in request.headers.get("accept", ""):
        return Response(_plain(found), media_type="text/plain; charset=utf-8")
    return Response(
        OutputView(
            launch=name,
            attempt=number,
            head=found.head.decode(errors="replace"),
            tail=found.tail.decode(errors="replace"),
            dropped=found.dropped,
            complete=found.complete,
            position=position,
        )
    )


@post(
    "/v1/launches/{name:str}/cancel",
    operation_id="cancelLaunch",
    status_code=202,
    opt=about(
        "launches",
        "Cancel a launch",
        body=bodies.CancelBody,
        body_is_optional=True,
        example={"reason": "not needed any more"},
        answers={
            202: ("It will be stopped. What is in doubt: if its replica tells that it runs.", LaunchView)
        },
        refusals={**_NO_LAUNCH, 409: "It has ended already."},
    ),
)
async def cancel_launch(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, name: FromPath[str]
) -> LaunchView:
    """Stop it. The answer may still show it open: its target is told, and then it ends. A launch that is in doubt stays
    so; it is stopped if the replica that was to call it tells that it runs. If it was called again, that is so of the
    last call only."""
    name = unquote(name)
    reason = (await bodies.taken(request, bodies.small, bodies.CancelBody)).reason
    await service.propose(caller, CancelLaunch(name, reason))
    return await service.replica.read(views.launch, name)


HANDLERS = (list_launches, get_launch, get_output, cancel_launch)


def detail(db: sqlite3.Connection, name: str) -> LaunchDetail:
    """The launch, its attempts and its steps."""
    view = views.launch(db, name)
    return LaunchDetail(
        **msgspec.structs.asdict(view), attempts=views.attempts(db, name), steps=steps.steps(db, name)
    )


def _states(given: list[str] | None) -> list[str]:
    query.check_few(given, query.REPEATED_MAX, "state")
    known = list(views.all_states())
    states = [state for part in given or () for state in part.split(",")]
    for state in states:
        query.one_of(state, known, "state")
    return states


def _stretch(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """In milliseconds. A stretch that ends before it begins holds nothing, and was not meant."""
    since_ms, until_ms = (
        None if text is None else int(moment_of(text, field).timestamp() * 1000)
        for text, field in ((since, "since"), (until, "until"))
    )
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise InvalidInput(
            "it begins after it ends", field="since", value=since, allowed=f"a moment up to {until}"
        )
    return since_ms, until_ms


def _plain(found: Output) -> bytes:
    if not found.dropped:
        return found.head + found.tail
    return found.head + f"\n[... {found.dropped} bytes were not kept ...]\n".encode() + found.tail


def why_no_output(kind: str) -> str:
    """The likely reason, in words."""
    if kind == "exec":
        return "it was not started, or its record is no longer kept"
    return f"a target of kind {kind!r} captures none"
