"""Streams of events: who has one open, what they read from, and how they end.

What was translated last is kept for a moment, because most readers follow the present: a hundred of them cost about as
much as one. Memory is bounded by that, and by one portion a reader: a reader that is slow waits in ``send``, and holds
up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec
import structlog
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from tocsin.api.problems import HttpRefusal
from tocsin.errors import Gap, TocsinError
from tocsin.model.event import Event, Place
from tocsin.model.token import Caller
from tocsin.replica.replica import Replica
from tocsin.state import events
from tocsin.state.events import Opened

log = structlog.get_logger()

STREAM_PATHS = ("/v1/events", "/live")
"""Whose answers have no end of their own."""
STREAMS_MAX = 100
STREAMS_OF_ONE_MAX = 20
PORTION = 500
"""So many events are looked up, kept and sent at a time."""
_PORTIONS_KEPT = 16
_ENTRIES_KEPT = 4
_encode = msgspec.json.Encoder().encode


class Portion(NamedTuple):
    """Some events of one entry, each with its frame, and where the next portion begins."""

    told: list[tuple[Event, bytes]]
    next: Place


class Streams:
    """All streams of one service."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._readers: dict[object, str] = {}
        """Each with the id of its token."""
        self._all_left = asyncio.Event()
        self.ending = asyncio.Event()
        self._entries: OrderedDict[int, Opened] = OrderedDict()
        self._portions: OrderedDict[Place, asyncio.Task[Portion]] = OrderedDict()

    def check_room(self, caller: Caller) -> None:
        """Raise if there are so many readers that one more is refused, of all or of one token."""
        of_token = sum(token == caller.account for token in self._readers.values())
        if caller.account and of_token >= STREAMS_OF_ONE_MAX:
            raise HttpRefusal(
                503,
                f"{STREAMS_OF_ONE_MAX} streams of events are open for the token {caller.name!r}",
                hint="close one, or use another token",
            )
        if len(self._readers) >= STREAMS_MAX:
            raise HttpRefusal(
                503,
                f"{STREAMS_MAX} streams of events are open, and more are not served",
                hint="close one, or try again later",
            )

    def came(self, reader: object, token: str) -> None:
        self._readers[reader] = token

    def left(self, reader: object) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._all_left.set()

    async def end(self, within_s: float) -> None:
        """The service stops, so every stream ends. Returns when they have, or after that time."""
        self.ending.set()
        if self._readers:
            self._all_left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_left.wait(), within_s)

    async def portion(self, place: Place) -> Portion:
        """The events from there on. Raises ``Gap`` where the entry is no longer kept."""
        task = self._portions.get(place)
        if task is None:
            # A task of its own: the reader that asked first may go away, and others wait for the same.
            task = asyncio.create_task(self._translated(place), name="events")
            self._portions[place] = task
            while len(self._portions) > _PORTIONS_KEPT:
                self._portions.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except Exception:
            self._portions.pop(place, None)
            raise

    async def _translated(self, place: Place) -> Portion:
        entry = await self._opened(place.seq)
        first = bisect_left(entry.drafts, place.slot, key=lambda draft: draft.slot)
        some = entry.drafts[first : first + PORTION]
        is_last = first + PORTION >= len(entry.drafts)
        behind = Place(place.seq + 1, 0) if is_last else Place(place.seq, some[-1].slot + 1)

        def work(db: sqlite3.Connection) -> list[tuple[Event, bytes]]:
            return [(event, frame_of(event)) for event in events.told(db, entry, some)]

        return Portion(await self._replica.read(work), behind)

    async def _opened(self, seq: int) -> Opened:
        found = self._entries.get(seq)
        if found is None:
            entries = await self._replica.entries(seq - 1, 1)
            if not entries:
                raise Gap(f"journal entry {seq} is not applied yet")
            found = await self._replica.read(events.opened, *entries[0])
            self._entries[seq] = found
            while len(self._entries) > _ENTRIES_KEPT:
                self._entries.popitem(last=False)
        return found


def frame_of(event: Event, name: str = "") -> bytes:
    """As a server-sent event. Only what is about the stream itself has a name: a page hears all others as messages."""
    named = f"event: {name}\n" if name else ""
    return f"id: {event.id}\n{named}data: ".encode() + _encode(event) + b"\n\n"


class EventStream(ASGIResponse):
    """Sends frames until there are no more, the reader goes away, or the service stops."""

    def __init__(self, streams: Streams, token: str, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(media_type="text/event-stream")
        self._streams = streams
        self._token = token
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.came(self, self._token)
        try:
            async with contextlib.aclosing(self._frames):
                await self._serve(receive, send)
        finally:
            self._streams.left(self)

    async def _serve(self, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # a proxy in between must not collect events
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        telling = asyncio.create_task(self._tell(send), name="stream")
        others = (
            asyncio.create_task(_until_gone(receive), name="reader"),
            asyncio.create_task(self._streams.ending.wait(), name="ending"),
        )
        try:
            await asyncio.wait([telling, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (telling, *others):
                task.cancel()
            await asyncio.gather(telling, *others, return_exceptions=True)
        if not telling.cancelled() and (wrong := telling.exception()) is not None:
            if isinstance(wrong, TocsinError) and wrong.retryable:
                log.info("a stream of events has ended; the reader may resume it", reason=str(wrong))
            else:
                log.error("a stream of events has ended", reason=str(wrong), exc_info=wrong)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        async for frame in self._frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
