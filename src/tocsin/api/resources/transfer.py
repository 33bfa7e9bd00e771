"""Many schedules in, many schedules out: a line of JSON each.

An import is one request of any length. It is read, checked and written in portions; a line that is refused is told
with its number and stops nobody else. What was written before a connection broke stays written, and the same import
can simply be sent again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.params import QueryParameter
from litestar.response import Stream
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Send

from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.importing.work import Import, Mode
from tocsin.api.query import (
    Enabled,
    Labels,
    Prefix,
    TargetKind,
    labels_of,
    one_of,
    prefix_of,
    truth_of,
)
from tocsin.api.service import Given, Service
from tocsin.model.lines import MEDIA_TYPE, ImportLine, Progress, Summary
from tocsin.model.schedule import Schedule
from tocsin.model.target import KINDS
from tocsin.model.token import Caller
from tocsin.state import views

PAGE = 1000
_encode = msgspec.json.Encoder().encode_lines
Past = Literal["skip", "launch"]


@get(
    "/v1/export",
    operation_id="exportSchedules",
    opt=about(
        "schedules",
        "All schedules as lines",
        answers={200: ("A line of JSON a schedule.", Schedule, (MEDIA_TYPE,))},
    ),
)
async def export_schedules(
    service: Given,
    caller: WhoAsks,
    prefix: Prefix = "",
    label: Labels = None,
    enabled: Enabled = None,
    target: TargetKind = None,
) -> Stream:
    """All schedules as they were written, a line of JSON each, in the order of their ids: what an import takes."""
    wanted = {
        "prefix": prefix_of(prefix),
        "labels": labels_of(label),
        "enabled": truth_of(enabled),
        "target": one_of(target, KINDS, "target"),
        "within": caller.prefixes,
    }
    return Stream(_exported(service, caller, wanted), media_type=MEDIA_TYPE)


@post(
    "/v1/import",
    operation_id="importSchedules",
    status_code=200,
    request_max_body_size=None,
    opt=about(
        "schedules",
        "Many schedules as lines",
        body=Schedule,
        body_kinds=(MEDIA_TYPE,),
        answers={
            200: (
                "Refused lines, progress, and a last line that sums up.",
                ImportLine | Progress | Summary,
                (MEDIA_TYPE,),
            )
        },
    ),
)
async def import_schedules(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    mode: Annotated[
        Mode,
        QueryParameter(
            description="`create`: an id that is taken by another one is refused. `put`: it is replaced."
        ),
    ] = "create",
    check: Annotated[
        Literal["true", "false"], QueryParameter(description="`true`: only check the lines, write nothing.")
    ] = "false",
    past: Annotated[
        Past,
        QueryParameter(
            description="A moment (`@at`) that has passed: `skip` takes it for launched elsewhere, `launch` leaves "
            "it to the schedule's `missed`."
        ),
    ] = "skip",
) -> ASGIStreamingResponse:
    """Schedules, a line of JSON each. The answer tells of each line that is refused, of progress, and sums up."""
    service.readers.check_room(caller.account)
    work = Import(service, caller, mode, check == "true", past == "skip")
    return _BothWays(iterator=work.carry_out(request), media_type=MEDIA_TYPE, status_code=200)


HANDLERS = (export_schedules, import_schedules)


async def _exported(service: Service, caller: Caller, wanted: dict[str, Any]) -> AsyncIterator[bytes]:
    cursor = ""
    while True:
        await service.doorkeeper.check_still_valid(caller)
        page = await service.replica.read(_lines, wanted, cursor)
        if page[0]:
            yield page[0]
        cursor = page[1]
        if not cursor:
            return


def _lines(db: Any, wanted: dict[str, Any], cursor: str) -> tuple[bytes, str]:
    page = views.schedules(db, **wanted, cursor=cursor, limit=PAGE)
    return _encode([views.definition(view) for view in page.items]), page.cursor


class _BothWays(ASGIStreamingResponse):
    """An answer that goes out while the request still comes in. The framework's own would listen for the caller to
    hang up, and take the request's content away from whoever reads it."""

    async def send_body(self, send: Send, receive: Receive) -> None:
        await self._stream(send)
