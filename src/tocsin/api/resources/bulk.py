"""The same done to many schedules, chosen by prefix, labels, state or target.

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
from tocsin.errors import InvalidInput, TocsinError
from tocsin.model.command import Command, DeleteSchedule, LaunchNow, SwitchSchedule
from tocsin.model.lines import MEDIA_TYPE, BulkLine, Summary
from tocsin.model.request import BulkRequest, Selector
from tocsin.model.rights import require
from tocsin.model.schedule import LABELS_MAX, ScheduleView
from tocsin.model.token import OPERATE, WRITE, Caller
from tocsin.state import views

PAGE = 500
_DONE = {"pause": "paused", "resume": "resumed", "run": "launched", "delete": "deleted"}
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
    """Pause, resume, run or delete all schedules that a selector finds. With ``preview`` only tell which they are."""
    wish = await bodies.taken(request, bodies.json_of, BulkRequest)
    _check(wish.selector)
    if not wish.preview:
        require(caller, WRITE if wish.action == "delete" else OPERATE)
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
    narrowed = selector.prefix or selector.labels or selector.enabled is not None or selector.target
    if not narrowed and not selector.everything:
        raise InvalidInput(
            "nothing narrows it down, so every schedule would be meant",
            field="selector",
            value="{}",
            allowed="prefix, labels, enabled, target",
            hint='say {"everything": true} if all are meant',
        )


async def _all(service: Service, caller: Caller, wish: BulkRequest) -> AsyncIterator[bytes]:
    told: Counter[str] = Counter()
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
        lines = await asyncio.gather(*(_one(service, caller, wish, view) for view in page.items))
        told.update("refused" if line.error is not None else line.result for line in lines)
        if lines:
            yield _encode(lines)
        cursor = page.cursor
        if not cursor:
            yield _encode([Summary(done=True, counts=dict(told))])
            return


async def _one(service: Service, caller: Caller, wish: BulkRequest, view: ScheduleView) -> BulkLine:
    if wish.action in ("pause", "resume") and view.enabled == (wish.action == "resume"):
        return BulkLine(id=view.id, result="unchanged")
    if wish.preview:
        return BulkLine(id=view.id, result=f"would be {_DONE[wish.action]}")
    try:
        await service.propose(caller, _command(wish, view.id, view.version))
    except TocsinError as refused:
        return BulkLine(id=view.id, result="refused", error=of_error(refused))
    return BulkLine(id=view.id, result=_DONE[wish.action])


def _command(wish: BulkRequest, id: str, version: int) -> Command:
    match wish.action:
        case "pause" | "resume":
            return SwitchSchedule(id, wish.action == "resume", note=wish.note)
        case "run":
            return LaunchNow(id)
        case "delete":
            return DeleteSchedule(id, expect=version)
