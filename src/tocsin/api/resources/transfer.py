"""Many schedules in, many schedules out: a line of JSON each.

An import is one request of any length. It is read, checked and written in portions; a line that is refused is told
with its number and stops nobody else. What was written before a connection broke stays written, and the same import
can simply be sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Request, get, post
from litestar.exceptions import InternalServerException
from litestar.params import QueryParameter
from litestar.response import Stream
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Send

from tocsin.api import bodies
from tocsin.api.conditions import newest
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.problems import of_error
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
from tocsin.errors import AlreadyExists, InvalidInput, TocsinError
from tocsin.model.command import PutSchedule
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.lines import MEDIA_TYPE, ImportLine, Progress, Summary
from tocsin.model.schedule import SCHEDULE_BYTES_MAX, Schedule, is_same
from tocsin.model.target import KINDS
from tocsin.model.token import Caller
from tocsin.state import views

LINE_BYTES_MAX = 4 * SCHEDULE_BYTES_MAX
LINES_AT_ONCE = 500
LINES_A_TURN = 4_000
BYTES_AT_ONCE = 512 * 1024
PAGE = 1000
_PROGRESS_EVERY_S = 1.0
_encode = msgspec.json.Encoder().encode_lines
Mode = Literal["create", "put"]
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
    work = _Import(service, caller, mode, check == "true", past == "skip")
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


class _Unreadable(Exception):  # why: it never leaves this file
    """A line of which the end is not known: what follows cannot be read either."""

    def __init__(self, line: int, size: int) -> None:
        super().__init__(line)
        self.line = line
        self.error = InvalidInput(
            "the line is too long, so nothing behind it was read",
            field="line",
            value=size,
            allowed=f"up to {LINE_BYTES_MAX} bytes",
        )


class _Named(msgspec.Struct):
    id: str


class _Line(NamedTuple):
    number: int
    text: bytes


class _Import:
    """One import on its way."""

    def __init__(
        self, service: Service, caller: Caller, mode: Mode, only_check: bool, skip_past: bool
    ) -> None:
        self._service = service
        self._caller = caller
        self._mode = mode
        self._only_check = only_check
        self._skip_past = skip_past
        self._counts: Counter[str] = Counter()
        self._read = 0

    async def carry_out(self, request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
        clock = self._service.replica.clock
        told_s = clock.elapsed_s()
        try:
            async for portion in _portions(request):
                refused = await self._portion(portion)
                self._read = portion[-1].number
                if refused:
                    yield _encode(refused)
                if clock.elapsed_s() - told_s > _PROGRESS_EVERY_S:
                    told_s = clock.elapsed_s()
                    yield _encode([Progress(progress=self._read, counts=dict(self._counts))])
        except _Unreadable as wrong:
            # The answer has begun, so its status says nothing any more: the last lines do.
            yield _encode([ImportLine(line=wrong.line, error=of_error(wrong.error))])
            yield _encode([Summary(done=False, counts=dict(self._counts))])
            return
        except InternalServerException:
            return  # the caller has hung up: there is nobody to tell
        yield _encode([Summary(done=True, counts=dict(self._counts))])

    async def _portion(self, lines: list[_Line]) -> list[ImportLine]:
        """Check them on a thread: thousands of lines must not make a launch late. Then write them together."""
        read = await asyncio.to_thread(_read_all, lines)
        results = await asyncio.gather(*(self._write(found) for found in read))
        refused = []
        for line, found, result in zip(lines, read, results, strict=True):
            if isinstance(result, TocsinError):
                id = found.id if isinstance(found, Schedule) else _id_of(line.text)
                refused.append(ImportLine(line=line.number, id=id, error=of_error(result)))
            self._counts["refused" if isinstance(result, TocsinError) else result] += 1
        return refused

    async def _write(self, found: Schedule | TocsinError) -> str | TocsinError:
        if isinstance(found, TocsinError):
            return found
        try:
            if self._only_check:
                self._service.check(self._caller, found)
                return "good"
            expect = 0 if self._mode == "create" else None
            command = PutSchedule(found, expect=expect, skip_past=self._skip_past)
            put = await self._service.propose(self._caller, command)
        except AlreadyExists as taken:
            present = await self._service.replica.read(newest, found.id)
            is_known = present is not None and is_same(views.definition(present), found)
            return "unchanged" if is_known else taken
        except TocsinError as refused:
            return refused
        return str(put.act)


def _read_all(lines: list[_Line]) -> list[Schedule | TocsinError]:
    found: list[Schedule | TocsinError] = []
    for line in lines:
        try:
            found.append(bodies.schedule_of(line.text))
        except TocsinError as wrong:
            found.append(wrong)
    return found


def _id_of(text: bytes) -> str | None:
    """The id that a line seems to have, for whoever looks for the mistake."""
    try:
        return msgspec.json.decode(text, type=_Named).id[:ID_LENGTH_MAX]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


async def _portions(request: Request[Any, Any, Any]) -> AsyncIterator[list[_Line]]:
    """Lines in portions, blank ones left out. A line that is too long cannot be passed over: its end is not known."""
    portion: list[_Line] = []
    size = number = 0
    rest = b""
    async for chunk in request.stream():
        *whole, rest = (rest + chunk).split(b"\n")
        for text in whole:
            number += 1
            if number % LINES_A_TURN == 0:
                await asyncio.sleep(0)  # a million blank lines are work too
            if text.strip():
                portion.append(_Line(number, text))
                size += len(text)
            if len(portion) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE:
                yield portion
                portion, size = [], 0
        if len(rest) > LINE_BYTES_MAX:
            raise _Unreadable(number + 1, len(rest))
    if rest.strip():
        portion.append(_Line(number + 1, rest))
    if portion:
        yield portion
