"""An import on its way: read ahead, written block by block, told line by line."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from typing import Any, Literal, NamedTuple

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from tocsin.api.conditions import newest
from tocsin.api.herds import Admission
from tocsin.api.importing.blocks import Unreadable, blocks
from tocsin.api.importing.reader import READERS, Readers
from tocsin.api.importing.reading import REPLACED_MAX, ROWS_MAX, Read, Rules
from tocsin.api.problems import of_error
from tocsin.api.service import Service
from tocsin.api.warnings import about_credential
from tocsin.errors import AlreadyExists, TocsinError
from tocsin.model.command import PutSchedules
from tocsin.model.lines import ImportLine, Progress, Summary
from tocsin.model.schedule import is_same
from tocsin.model.token import Caller
from tocsin.state import views
from tocsin.state.apply.schedules import Put

Mode = Literal["create", "put"]
_PROGRESS_EVERY_S = 1.0
WRITTEN_AT_ONCE = 2
"""While one block is applied the next waits for the leader already."""
_encode = msgspec.json.Encoder().encode_lines


class _Writing(NamedTuple):
    """A block on its way into the journal, and whom it is about."""

    task: asyncio.Task[list[ImportLine]]
    ids: set[str]


async def _next(ahead: asyncio.Queue[asyncio.Task[list[Read]] | None]) -> list[Read] | None:
    reading = await ahead.get()
    return None if reading is None else await reading


class Import:
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
        self._credentials = 0
        self._credential = ""
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
        found: list[str] = []
        if self._crowded:
            found.append(
                f"{self._crowded} schedules make a second fuller than it may be; the first: {self._crowd}"
            )
        if self._credentials:
            found.append(
                f"{self._credentials} schedules hold a credential in clear; the first: {self._credential}"
            )
        return found or msgspec.UNSET

    async def _written(self, request: Request[Any, Any, Any]) -> AsyncIterator[list[ImportLine]]:
        """What was refused, block by block. While one is written the next is read."""
        ahead: asyncio.Queue[asyncio.Task[list[Read]] | None] = asyncio.Queue(READERS)
        reading = asyncio.create_task(self._read_all(request, ahead))
        coming: asyncio.Task[list[Read] | None] | None = asyncio.create_task(_next(ahead))
        writing: deque[_Writing] = deque()
        try:
            while coming is not None or writing:
                is_full = len(writing) == WRITTEN_AT_ONCE
                # Only of the first: one that is done behind it would make this a wait for nothing, again and again.
                awaited = [None if is_full else coming, writing[0].task if writing else None]
                await asyncio.wait(
                    [task for task in awaited if task is not None], return_when=asyncio.FIRST_COMPLETED
                )
                while writing and writing[0].task.done():
                    yield await writing.popleft().task
                if coming is None or not coming.done() or len(writing) == WRITTEN_AT_ONCE:
                    continue
                read = coming.result()
                if read is None:
                    coming = None
                    continue
                ids = {id for some in read for id in some.new.ids}
                for one in writing:
                    if not ids.isdisjoint(one.ids):  # what stands there again comes behind it
                        await asyncio.wait([one.task])
                writing.append(_Writing(asyncio.create_task(self._write_all(read)), ids))
                coming = asyncio.create_task(_next(ahead))
            await reading
        finally:
            for task in (reading, coming):
                if task is not None:
                    task.cancel()
            await asyncio.gather(reading, *(one.task for one in writing), return_exceptions=True)

    async def _read_all(
        self, request: Request[Any, Any, Any], ahead: asyncio.Queue[asyncio.Task[list[Read]] | None]
    ) -> None:
        try:
            rows_max = ROWS_MAX if self._mode == "create" else REPLACED_MAX
            rules = Rules(self._caller, self._service.permissions, rows_max)
            async with Readers(self._service.readers, rules, self._caller.account) as readers:
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
            self._credentials += len(some.credentials)
            if some.credentials and not self._credential:
                line, header = some.credentials[0]
                self._credential = f"line {line}, {about_credential(header)}"
            if some.lines:
                refused += await self._write(some)
                self._read = max(self._read, some.lines[-1])
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
