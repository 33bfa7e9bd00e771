"""Launches: list, read, output, cancel."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter

from tocsin.api import bodies
from tocsin.api.service import Given, moment_of
from tocsin.errors import InvalidInput, NotFound
from tocsin.model.answer import LaunchDetail, LaunchPage, OutputView
from tocsin.model.command import CancelLaunch
from tocsin.model.launch import LaunchView
from tocsin.state import views
from tocsin.targets.contract import Output


@get("/v1/launches", operation_id="listLaunches")
async def list_launches(
    service: Given,
    schedule: FromQuery[str | None] = None,
    launch_state: Annotated[
        list[str] | None, QueryParameter(name="state", description="Several, or a,b.")
    ] = None,
    since: FromQuery[str | None] = None,
    until: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=1000, description="How many at most.")] = 100,
    cursor: FromQuery[str] = "",
) -> LaunchPage:
    """The newest first. ``since`` and ``until`` are about the instant; ``until`` itself is not included."""
    page = await service.replica.read(
        views.launches,
        schedule_id=schedule,
        states=_states(launch_state),
        since_ms=_milliseconds(since, "since"),
        until_ms=_milliseconds(until, "until"),
        cursor=_cursor(cursor),
        limit=limit,
    )
    return LaunchPage(page.items, page.cursor)


@get("/v1/launches/{name:str}", operation_id="getLaunch")
async def get_launch(service: Given, name: FromPath[str]) -> LaunchDetail:
    """The launch, with the attempts that came before its last one."""
    return await service.replica.read(_detail, unquote(name))


@get("/v1/launches/{name:str}/output", operation_id="getOutput")
async def get_output(
    request: Request[Any, Any, Any],
    service: Given,
    name: FromPath[str],
    attempt: Annotated[
        int | None, QueryParameter(ge=1, le=1_000_000, description="By default the last.")
    ] = None,
) -> Response[Any]:
    """What an attempt printed. As JSON, or as it is with ``Accept: text/plain``."""
    name = unquote(name)
    launch = await service.replica.read(views.launch, name)
    kind = await service.replica.read(views.target_kind, name)
    number = attempt or max(1, launch.attempt)
    found = await service.replica.output(kind, name, number)
    if found is None:
        raise NotFound(f"there is no output of attempt {number} of {name!r}", hint=_why_no_output(kind))
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
        )
    )


@post("/v1/launches/{name:str}/cancel", operation_id="cancelLaunch", status_code=202)
async def cancel_launch(request: Request[Any, Any, Any], service: Given, name: FromPath[str]) -> LaunchView:
    """Stop it. The answer may still show it open: its target is told, and then it ends."""
    name = unquote(name)
    reason = bodies.small(await bodies.read(request), bodies.CancelBody).reason
    await service.replica.propose(CancelLaunch(name, reason))
    return await service.replica.read(views.launch, name)


HANDLERS = (list_launches, get_launch, get_output, cancel_launch)


def _detail(db: sqlite3.Connection, name: FromPath[str]) -> LaunchDetail:
    view = views.launch(db, name)
    return LaunchDetail(**msgspec.structs.asdict(view), attempts=views.attempts(db, name))


def _states(given: list[str] | None) -> list[str]:
    known = list(views.all_states())
    states = [state for part in given or () for state in part.split(",") if state]
    for state in states:
        if state not in known:
            raise InvalidInput(
                f"{state[:60]!r} is not a state", field="state", value=state, allowed=", ".join(known)
            )
    return states


def _milliseconds(text: str | None, field: str) -> int | None:
    return None if text is None else int(moment_of(text, field).timestamp() * 1000)


def _cursor(text: str) -> str:
    if text and (not text.isascii() or not text.isdigit() or len(text) > 18):
        raise InvalidInput(
            "that is not a cursor", field="cursor", value=text, allowed="the cursor of a former answer"
        )
    return text


def _plain(found: Output) -> bytes:
    if not found.dropped:
        return found.head + found.tail
    return found.head + f"\n[... {found.dropped} bytes were not kept ...]\n".encode() + found.tail


def _why_no_output(kind: str) -> str:
    if kind == "exec":
        return "it was not started, or its record is no longer kept"
    return f"a target of kind {kind!r} captures none"
