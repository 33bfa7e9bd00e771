"""Many schedules in, many schedules out: a line of JSON each.

An import is one request of any length. It is read, checked and written in portions; a line that is refused is told
with its number and stops nobody else. What was written before a connection broke stays written, and the same import
can simply be sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.exceptions import InternalServerException
from litestar.params import QueryParameter
from litestar.response import Stream
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Send

from tocsin.api.conditions import newest
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.herds import Admission
from tocsin.api.importing.blocks import Unreadable, blocks
from tocsin.api.importing.reader import READERS, Readers
from tocsin.api.importing.reading import Read, Rules
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
from tocsin.errors import AlreadyExists, TocsinError
from tocsin.model.command import PutSchedules
from tocsin.model.lines import MEDIA_TYPE, ImportLine, Progress, Summary
from tocsin.model.schedule import Schedule, is_same
from tocsin.model.target import KINDS
from tocsin.model.token import Caller
from tocsin.state import views
from tocsin.state.apply.schedules import Put

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
        self._crowded = 0
        self._crowd = ""
        """So many were written although a second is too full for them, and what is to be said of the first."""

    async def carry_out(self, request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
        clock = self._service.replica.clock
        told_s = clock.elapsed_s()
        try:
            async for refused in self._written(request):
                if refused:
                    yield _encode(refused)
                if clock.elapsed_s() - told_s > _PROGRESS_EVERY_S:
                    told_s = clock.elapsed_s()
                    yield _encode([Progress(progress=self._read, counts=dict(self._counts))])
        except (Unreadable, TocsinError) as wrong:
            # The answer has begun, so its status says nothing any more: the last lines do.
            line, error = (
                (wrong.line, wrong.error) if isinstance(wrong, Unreadable) else (self._read + 1, wrong)
            )
            yield _encode([ImportLine(line=line, error=of_error(error))])
            yield _encode([Summary(done=False, counts=dict(self._counts))])
            return
        except InternalServerException:
            return  # the caller has hung up: there is nobody to tell
        yield _encode([Summary(done=True, counts=dict(self._counts), warnings=self._warnings())])

    def _warnings(self) -> list[str] | msgspec.UnsetType:
        if not self._crowded:
            return msgspec.UNSET
        return [f"{self._crowded} schedules make a second fuller than it may be; the first: {self._crowd}"]

    async def _written(self, request: Request[Any, Any, Any]) -> AsyncIterator[list[ImportLine]]:
        """What was refused, block by block. While one is written the next is read."""
        ahead: asyncio.Queue[asyncio.Task[list[Read]] | None] = asyncio.Queue(READERS)
        reading = asyncio.create_task(self._read_all(request, ahead))
        try:
            while (read := await ahead.get()) is not None:
                yield await self._write_all(await read)
            await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read_all(
        self, request: Request[Any, Any, Any], ahead: asyncio.Queue[asyncio.Task[list[Read]] | None]
    ) -> None:
        try:
            async with Readers(Rules(self._caller, self._service.permissions)) as readers:
                async for block in blocks(request.stream()):
                    if not block.text.isspace():
                        await ahead.put(readers.read(block, self._service.now_ms() // 1000))
        except Exception:  # whatever it is, whoever writes is not to wait for more
            await ahead.put(None)
            raise
        await ahead.put(None)

    async def _write_all(self, read: list[Read]) -> list[ImportLine]:
        refused: list[ImportLine] = []
        for some in read:
            refused += some.refused
            self._count("refused", len(some.refused))
            if some.lines:
                refused += await self._write(some)
                self._read = some.lines[-1]
        return refused

    async def _write(self, some: Read) -> list[ImportLine]:
        """Returns what was refused after all."""
        herds = self._service.herds
        room = await herds.admit(some.new)
        some, refused = self._let_in(some, room)
        if self._only_check:
            herds.give_back(room, range(len(room.added)))
            self._count("good", len(some.new))
            return refused
        expect = 0 if self._mode == "create" else None
        command = PutSchedules(some.new, expect=expect, skip_past=self._skip_past)
        others: dict[int, Put | TocsinError]
        try:
            others = await self._service.propose(self._caller, command)
        except TocsinError as wrong:
            others = dict.fromkeys(range(len(some.new)), wrong)
        herds.give_back(room, _unwritten(others))
        self._count("created", len(some.new) - len(others))
        for place, found in others.items():
            became = await self._became(some, place, found)
            if isinstance(became, TocsinError):
                id = some.new.ids[place]
                refused.append(ImportLine(line=some.lines[place], id=id, error=of_error(became)))
            self._count("refused" if isinstance(became, TocsinError) else became, 1)
        return refused

    def _count(self, what: str, number: int) -> None:
        if number:
            self._counts[what] += number

    def _let_in(self, some: Read, room: Admission) -> tuple[Read, list[ImportLine]]:
        """Without those for which a second is too full, if that is a reason to refuse them."""
        if not room.full:
            return some, []
        if not self._service.herds.refuses:
            self._crowded += len(room.full)
            self._crowd = self._crowd or str(next(iter(room.full.values())))
            return some, []
        refused = [
            ImportLine(line=some.lines[place], id=some.new.ids[place], error=of_error(full))
            for place, full in room.full.items()
        ]
        self._counts["refused"] += len(refused)
        room.drop(room.full)
        lines = [line for place, line in enumerate(some.lines) if place not in room.full]
        return Read(some.new.without(room.full), lines, []), refused

    async def _became(self, some: Read, place: int, found: Put | TocsinError) -> str | TocsinError:
        """The same import may be sent again: what is there already is no mistake."""
        if isinstance(found, Put):
            return found.act
        if not isinstance(found, AlreadyExists):
            return found
        present = await self._service.replica.read(newest, some.new.ids[place])
        wanted = views.decode_spec(some.new.specs[place])
        is_known = present is not None and is_same(views.definition(present), wanted)
        return "unchanged" if is_known else found


def _unwritten(others: dict[int, Put | TocsinError]) -> list[int]:
    return [
        place for place, found in others.items() if not isinstance(found, Put) or found.act == "unchanged"
    ]
