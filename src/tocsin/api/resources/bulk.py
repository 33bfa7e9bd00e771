"""The same done to many schedules, chosen by prefix, labels, state or target, or by their ids.

The answer is a line of JSON a schedule, as it goes, and a last line that sums up: whoever asks sees progress, and
nothing is held in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Request, post
from litestar.response import Stream

from tocsin.api import bodies
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.problems import of_error
from tocsin.api.query import check_label, prefix_of
from tocsin.api.service import Given, Service
from tocsin.errors import InvalidInput, NotFound, TocsinError
from tocsin.model.command import Command, DeleteSchedule, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.model.ids import check_id
from tocsin.model.lines import MEDIA_TYPE, BulkLine, Summary
from tocsin.model.request import BulkRequest, Selector
from tocsin.model.rights import require, require_reach
from tocsin.model.schedule import LABELS_MAX, ScheduleView, check
from tocsin.model.target import kind_of
from tocsin.model.token import OPERATE, WRITE, Caller
from tocsin.state import rows, views

PAGE = 500
_DONE = {
    "pause": "paused",
    "resume": "resumed",
    "run": "launched",
    "delete": "deleted",
    "label": "labelled",
}
_WRITES = ("delete", "label")
_encode = msgspec.json.Encoder().encode_lines


@post(
    "/v1/bulk",
    operation_id="bulk",
    status_code=200,
    opt=about(
        "schedules",
        "The same done to many schedules",
        body=BulkRequest,
        example={"action": "pause", "selector": {"prefix": "billing/"}, "note": "the bank is down"},
        answers={
            200: ("A line a schedule, and a last line that sums up.", BulkLine | Summary, (MEDIA_TYPE,))
        },
    ),
)
async def bulk(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Stream:
    """Pause, resume, run, delete or label all schedules that a selector finds, or that it names. With ``preview`` only
    tell which they are."""
    wish = await bodies.taken(request, bodies.json_of, BulkRequest)
    _check(wish.selector)
    _check_labels(wish)
    if not wish.preview:
        require(caller, WRITE if wish.action in _WRITES else OPERATE)
        await (
            service.replica.catch_up()
        )  # what is unchanged, or not there, is told by the state as it is here
    return Stream(_all(service, caller, wish), media_type=MEDIA_TYPE)


HANDLERS = (bulk,)


def _check(selector: Selector) -> None:
    prefix_of(selector.prefix)
    if len(selector.labels) > LABELS_MAX:
        raise InvalidInput(
            f"{len(selector.labels)} labels are too many",
            field="selector.labels",
            value=len(selector.labels),
            allowed=f"up to {LABELS_MAX}",
        )
    for key, value in selector.labels.items():
        check_label(key, value)
    narrowed = (
        selector.prefix or selector.labels or selector.enabled is not None or selector.target or selector.ids
    )
    for id in selector.ids:
        check_id(id, field="selector.ids")
    if not narrowed and not selector.everything:
        raise InvalidInput(
            "nothing narrows it down, so every schedule would be meant",
            field="selector",
            value="{}",
            allowed="prefix, labels, enabled, target, ids",
            hint='say {"everything": true} if all are meant',
        )


def _check_labels(wish: BulkRequest) -> None:
    if bool(wish.labels) != (wish.action == "label"):
        raise InvalidInput(
            f"{wish.action} has no labels to set" if wish.labels else "nothing says which labels",
            field="labels",
            value="",
            allowed="key and value, or key and null, with the action label; nothing with any other",
        )
    if len(wish.labels) > LABELS_MAX:
        raise InvalidInput(
            f"{len(wish.labels)} labels are too many",
            field="labels",
            value=len(wish.labels),
            allowed=f"up to {LABELS_MAX}",
        )
    for key, value in wish.labels.items():
        check_label(key, value or "")


async def _all(service: Service, caller: Caller, wish: BulkRequest) -> AsyncIterator[bytes]:
    told: Counter[str] = Counter()
    pages = _named(service, caller, wish) if wish.selector.ids else _found(service, caller, wish)
    async for lines in pages:
        told.update("refused" if line.error is not None else line.result for line in lines)
        if lines:
            yield _encode(lines)
    yield _encode([Summary(done=True, counts=dict(told))])


async def _found(service: Service, caller: Caller, wish: BulkRequest) -> AsyncIterator[list[BulkLine]]:
    cursor = ""
    while True:
        page = await service.replica.read(
            views.schedules,
            prefix=wish.selector.prefix,
            enabled=wish.selector.enabled,
            labels=wish.selector.labels,
            target=wish.selector.target,
            within=caller.prefixes,
            cursor=cursor,
            limit=PAGE,
        )
        yield await asyncio.gather(*(_one(service, caller, wish, view) for view in page.items))
        cursor = page.cursor
        if not cursor:
            return


async def _named(service: Service, caller: Caller, wish: BulkRequest) -> AsyncIterator[list[BulkLine]]:
    """Each is told of, in the order of the request: also one that is not there, or not theirs. Not so one of which
    something else that was said does not hold."""
    ids = list(dict.fromkeys(wish.selector.ids))
    for begin in range(0, len(ids), PAGE):
        part = ids[begin : begin + PAGE]
        known = await service.replica.read(rows.named, [id for id in part if caller.reaches(id)])
        meant = [id for id in part if id not in known or _holds(wish.selector, known[id])]
        yield await asyncio.gather(*(_one_named(service, caller, wish, id, known.get(id)) for id in meant))


def _holds(selector: Selector, view: ScheduleView) -> bool:
    return (
        view.id.startswith(selector.prefix)
        and selector.enabled in (None, view.enabled)
        and selector.target in (None, kind_of(view.target))
        and selector.labels.items() <= view.labels.items()
    )


async def _one_named(
    service: Service, caller: Caller, wish: BulkRequest, id: str, view: ScheduleView | None
) -> BulkLine:
    try:
        require_reach(caller, id)
        if view is None:
            raise NotFound(f"there is no schedule {id!r}", hint="it may have been deleted meanwhile")
    except TocsinError as refused:
        return BulkLine(id=id, result="refused", error=of_error(refused))
    return await _one(service, caller, wish, view)


async def _one(service: Service, caller: Caller, wish: BulkRequest, view: ScheduleView) -> BulkLine:
    was = {key: view.labels.get(key) for key in wish.labels}
    if wish.action in ("pause", "resume") and view.enabled == (wish.action == "resume"):
        return BulkLine(id=view.id, result="unchanged")
    if wish.action == "label" and was == wish.labels:
        return BulkLine(id=view.id, result="unchanged")
    if wish.preview:
        return BulkLine(id=view.id, result=f"would be {_DONE[wish.action]}", was=was)
    try:
        await service.propose(caller, _command(wish, view))
    except TocsinError as refused:
        return BulkLine(id=view.id, result="refused", error=of_error(refused))
    return BulkLine(id=view.id, result=_DONE[wish.action], was=was)


def _command(wish: BulkRequest, view: ScheduleView) -> Command:
    match wish.action:
        case "pause" | "resume":
            return SwitchSchedule(view.id, wish.action == "resume", note=wish.note)
        case "run":
            return LaunchNow(view.id)
        case "delete":
            return DeleteSchedule(view.id, expect=view.version)
        case "label":
            kept = {key: value for key, value in view.labels.items() if key not in wish.labels}
            new = {key: value for key, value in wish.labels.items() if value is not None}
            schedule = msgspec.structs.replace(views.definition(view), labels=kept | new)
            return PutSchedule(check(schedule), expect=view.version)
