"""``/live``: tells a page that something has changed, about once a second at most.

It does not tell what: a page asks for itself again and exchanges the parts that differ. So a page is never more than
its first answer, a thousand launches a second cost no more than one, and after a fail-over it goes on as if nothing had
been.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec
from litestar import get
from litestar.di import NamedDependency

from tocsin.api.door.access import WhoAsks
from tocsin.api.resources.events import KEEP_ALIVE_S, MayStay, stay
from tocsin.api.resources.streams import EventStream, Streams
from tocsin.api.service import Given
from tocsin.replica.replica import Replica
from tocsin.ui.answer import OPERATION

PATH = "/live"
EVERY_S = 1.0


@get(PATH, operation_id=OPERATION, include_in_schema=False, media_type="text/event-stream")
async def live(caller: WhoAsks, service: Given, streams: NamedDependency[Streams]) -> EventStream:
    """Ticks, each with how far this replica is and who leads."""
    streams.check_room(caller)
    ticks = _ticks(service.replica, streams.ending, stay(service, caller))
    return EventStream(streams, caller.account, ticks)


HANDLERS = (live,)


async def _ticks(replica: Replica, ending: asyncio.Event, may_stay: MayStay) -> AsyncGenerator[bytes, None]:
    yield b"retry: 1000\n" + _tick(replica)
    seen = replica.meta.seq
    while await may_stay():
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes with the entry waited for, and then a
        # reader who has left, as one does who acts and goes on to another page, would be told for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_S):
                await replica.applied.wait_beyond(seen)
        if replica.applied.is_over:
            return
        if replica.meta.seq == seen:
            yield b": still here\n\n"
            continue
        seen = replica.meta.seq
        yield _tick(replica)
        await replica.clock.wait(ending, EVERY_S)


def _tick(replica: Replica) -> bytes:
    status = replica.status()
    told = {"sequence": status.sequence, "leader": status.leader, "term": status.term, "role": status.role}
    return b"data: " + msgspec.json.encode(told) + b"\n\n"
