"""What a schedule would do if it were written: nothing is."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from litestar import Request, post

from tocsin.api import bodies
from tocsin.api.description import samples
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service, moment_of, seconds_of
from tocsin.api.texts import schedule_of
from tocsin.decide import preview as decide
from tocsin.errors import InvalidInput, NotFound
from tocsin.model.preview import DAYS_MAX, PreviewRequest, PreviewView
from tocsin.model.rights import require_reach
from tocsin.model.schedule import Schedule
from tocsin.model.token import Caller
from tocsin.state import queries, views

_one_at_a_time = ThreadPoolExecutor(max_workers=1, thread_name_prefix="preview")
"""A walk through thousands of instants is work for the processor: those who launch shall meet one of them at most,
and those who only read need not wait behind it."""


class _Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """``PreviewRequest`` with its schedule unread, so that a mistake in it is told in the words of PUT."""

    schedule: msgspec.Raw
    days: int = 14
    from_: str | None = None


@post(
    "/v1/preview",
    operation_id="preview",
    status_code=200,
    opt=about(
        "schedules",
        "What a schedule would do",
        body=PreviewRequest,
        example={"schedule": samples.SCHEDULE, "days": 14},
        answers={200: ("What would change.", PreviewView)},
    ),
)
async def preview(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> PreviewView:
    """What would change if this schedule were put: its fields, and which launches appear, vanish or move in the days
    to come. Nothing is written."""
    sent = await bodies.taken(request, _sent)
    written = bytes(sent.schedule)
    schedule = await bodies.aside(len(written), schedule_of, written)
    return await previewed(service, caller, schedule, sent.days, sent.from_)


HANDLERS = (preview,)


async def previewed(
    service: Service, caller: Caller, schedule: Schedule, days: int, since: str | None = None
) -> PreviewView:
    """What would change if this schedule were put."""
    require_reach(caller, schedule.id)
    now_s = service.now_ms() // 1000
    former = await service.replica.read(_former, schedule.id, decide.once_of(schedule), now_s)
    if since is None:
        from_s = now_s if former is None else max(now_s, former.decided_upto_s)
    else:
        from_s = seconds_of(moment_of(since, "from"))
    return await asyncio.get_running_loop().run_in_executor(
        _one_at_a_time, decide.preview, former, schedule, now_s, from_s, days
    )


def _sent(body: bytes) -> _Sent:
    sent = bodies.json_of(body, _Sent)
    if not 1 <= sent.days <= DAYS_MAX:
        raise InvalidInput(
            f"{sent.days} is out of range", field="days", value=sent.days, allowed=f"1 to {DAYS_MAX}"
        )
    return sent


def _former(db: sqlite3.Connection, id: str, once_s: int | None, now_s: int) -> decide.Former | None:
    try:
        view = views.schedule(db, id)
    except NotFound:
        return None
    ahead = queries.decided_ahead(db, id, now_s)
    is_taken = once_s is not None and (
        queries.has_launch(db, id, once_s)
        or once_s <= ahead.unrecorded_s
        or queries.forgotten_of(db, id, now_s).covers(once_s)
    )
    return decide.Former(views.definition(view), view.resolved, view.version, ahead.upto_s, is_taken)
