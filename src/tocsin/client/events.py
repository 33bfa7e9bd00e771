"""Events as they happen, through every cut of the connection: nothing is lost and nothing comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from tocsin.client.wire import Wire
from tocsin.errors import TocsinError, Unreachable
from tocsin.model.event import END, Event

PATH = "/v1/events"
PAUSE_S, PAUSE_MAX_S = 0.2, 5.0
"""Between two tries to reach a service that was there before; it doubles from the one to the other."""
FRAME_BYTES_MAX = 1 << 20
_decode = msgspec.json.Decoder(Event).decode


class Frame(NamedTuple):
    """One message of a stream. Without data it only says how far the stream has come."""

    id: str | None
    data: bytes | None


async def frames(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[Frame, None]:
    """Server-sent events, taken apart. What was cut off in the middle never comes out."""
    rest = b""
    async with aclosing(chunks):
        async for chunk in chunks:
            *whole, rest = (rest + chunk.replace(b"\r\n", b"\n")).split(b"\n\n")
            for text in whole:
                yield _frame(text)
            if len(rest) > FRAME_BYTES_MAX:
                raise TocsinError("this is not a stream of events", hint="is this the address of Tocsin?")


def _frame(text: bytes) -> Frame:
    id, data = None, None
    for line in text.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            id = value.decode("ascii", "replace")
        elif name == b"data":
            data = value if data is None else data + b"\n" + value
    return Frame(id, data)


async def follow_events(
    wire: Wire, params: Sequence[tuple[str, str]], after: str | None
) -> AsyncGenerator[Event, None]:
    """Events until the service says that this is the end, which it does only when it is not asked to follow.

    A service that cannot be reached at the first try is an error; one that was there is waited for.
    """
    last, pause_s, was_there = after, PAUSE_S, False
    while True:
        headers = {} if last is None else {"Last-Event-ID": last}
        try:
            async with aclosing(frames(wire.stream(PATH, params=params, headers=headers))) as stream:
                async for frame in stream:
                    was_there, pause_s = True, PAUSE_S
                    last = frame.id or last
                    if frame.data is None:
                        continue
                    event = _event(frame.data)
                    if event.kind == END:
                        return
                    yield event
        except TocsinError as wrong:
            if not was_there or not (wrong.retryable or isinstance(wrong, Unreachable)):
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _event(data: bytes) -> Event:
    try:
        return _decode(data)
    except msgspec.MsgspecError as wrong:
        raise TocsinError(
            f"an event is not what this version understands: {wrong}",
            hint="is this the address of Tocsin, and is it of the same version?",
        ) from None
