"""One launch: how it stands and why, every step, what it printed, and what a person can do about it."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from litestar import Request, Response
from litestar.params import FromPath, QueryParameter

from tocsin.api.door.access import WhoAsks
from tocsin.api.door.gate import address_of
from tocsin.api.resources import foresee, launches
from tocsin.api.resources.output import beyond, wherever
from tocsin.api.service import Given
from tocsin.errors import NotFound, Unreachable
from tocsin.model.answer import LaunchDetail
from tocsin.model.launch import CLOSED_FROM, LaunchState, LaunchView
from tocsin.model.schedule import ScheduleView
from tocsin.model.target import kind_of
from tocsin.state import beside, views
from tocsin.targets.contract import Output
from tocsin.ui.answer import page, render
from tocsin.ui.charts.attempts import attempts_chart
from tocsin.ui.told import entry_times, told

_PRINTS = "exec"
_Attempt = Annotated[int | None, QueryParameter(ge=1, le=1_000_000)]


class Outcome(NamedTuple):
    """What can be said of a launch in doubt, and what that does."""

    value: str
    name: str
    does: str


OUTCOMES = (
    Outcome("succeeded", "It succeeded", "Recorded as succeeded. Nothing is called."),
    Outcome("failed", "It failed", "Recorded as failed, without a retry. Nothing is called."),
    Outcome("skipped", "It never went out", "Recorded as not launched. Nothing is called."),
    Outcome(
        "relaunch",
        "Call it again",
        "Its target is called once more, under the same name: if the call before did arrive, it happens twice, unless "
        "the target knows the name again.",
    ),
)


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what an attempt printed."""

    attempt: int
    latest: int
    """The last attempt that there is."""
    head: str = ""
    tail: str = ""
    dropped: int = 0
    position: int = 0
    over: bool = True
    """Nothing more is to come."""
    words: str
    """How it stands with it, or why there is nothing to show."""


class _Known(NamedTuple):
    launch: LaunchDetail
    schedule: ScheduleView | None
    """As it was when this was launched; None: no longer known."""
    version: int | None
    """The present one of the schedule; None: it is gone."""
    offices: dict[int, beside.Office]
    earlier: str
    later: str


@page("/launches/{name:str}")
async def launch_page(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    name: FromPath[str],
    attempt: _Attempt = None,
) -> Response[str]:
    known = await service.replica.read(_known, unquote(name))
    launch = known.launch
    why = await foresee.answer_why(service, launch.schedule, int(launch.scheduled_at.timestamp()))
    is_alone = not service.around.members()
    return render(
        "launch.html",
        request,
        service,
        caller,
        launch=launch,
        schedule=known.schedule,
        version=known.version,
        earlier=known.earlier,
        later=known.later,
        why=why.answer,
        steps=told(launch, known.offices, is_alone=is_alone),
        chart=attempts_chart(launch, service.now_ms()),
        is_open=_is_open(launch),
        by_hand=launch.planned_at is None,
        kind="" if known.schedule is None else kind_of(known.schedule.target),
        attempt=attempt,
        numbers=_numbers(launch),
        outcomes=OUTCOMES,
    )


@page("/launches/{name:str}/part")
async def printed(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    name: FromPath[str],
    attempt: _Attempt = None,
    after: Annotated[int, QueryParameter(ge=0, le=1 << 53)] = 0,
) -> Response[Printed]:
    """What an attempt printed behind so many bytes. Unlike in the API, nothing is no refusal: it is told why."""
    service.check_is_told(caller)
    launch = await service.replica.read(views.launch, unquote(name))
    kind = await service.replica.read(views.target_kind, launch.name)
    number = attempt or max(1, launch.attempt)
    is_over = number < launch.attempt or not _is_open(launch)
    try:
        found = await wherever(service, kind, launch.name, number, launch.replica)
    except Unreachable as refused:
        words = f"{refused.message}: {refused.hint}."
        answer = Printed(attempt=number, latest=launch.attempt, position=after, over=False, words=words)
    else:
        if found is not None:
            service.read_log.output_read(caller, address_of(request.scope), launch.name, number)
        answer = _piece(found, launch, kind, number, after, is_over)
    return Response(answer, media_type="application/json", headers={"Cache-Control": "no-store"})


HANDLERS = (launch_page, printed)


def _known(db: sqlite3.Connection, name: str) -> _Known:
    launch = launches.detail(db, name)
    try:
        present = views.schedule(db, launch.schedule)
    except NotFound:
        present = None
    try:
        schedule = views.schedule_at(db, launch.schedule, launch.version)
    except NotFound:
        schedule = None
    return _Known(
        launch,
        schedule,
        None if present is None else present.version,
        beside.offices(db, entry_times(launch.steps)),
        *beside.neighbours(db, name),
    )


def _is_open(launch: LaunchView) -> bool:
    return LaunchState[launch.state.upper()] < CLOSED_FROM


def _numbers(launch: LaunchDetail) -> list[int]:
    """Of the attempts that there were."""
    return sorted(
        {each.attempt for each in launch.attempts} | ({launch.attempt} if launch.attempt else set())
    )


def _piece(
    found: Output | None, launch: LaunchView, kind: str, number: int, after: int, is_over: bool
) -> Printed:
    if found is None:
        words = _why_nothing(launch, kind, number, is_over)
        return Printed(attempt=number, latest=launch.attempt, over=is_over, words=words)
    piece, position = beyond(found, after)
    return Printed(
        attempt=number,
        latest=launch.attempt,
        head=piece.head.decode(errors="replace"),
        tail=piece.tail.decode(errors="replace"),
        dropped=piece.dropped,
        position=position,
        over=found.complete and is_over,
        words=_how_it_stands(found, number, bool(position)),
    )


def _how_it_stands(found: Output, number: int, has_printed: bool) -> str:
    if not found.complete:
        so_far = "this goes on by itself" if has_printed else "it has printed nothing so far"
        return f"Attempt {number} is running: {so_far}."
    return f"All that is kept of attempt {number}." if has_printed else f"Attempt {number} printed nothing."


def _why_nothing(launch: LaunchView, kind: str, number: int, is_over: bool) -> str:
    if launch.started_at is None:
        return "It was never started." if is_over else "It has not been started yet."
    if kind != _PRINTS:
        return f"{launches.why_no_output(kind).capitalize()}."
    if not is_over:
        return "It is being started."
    return f"What attempt {number} printed is no longer kept, or it never came to printing."
