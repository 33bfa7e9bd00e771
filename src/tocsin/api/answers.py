"""Answers as they are sent: ready for the server, so that nothing on the way has to look at them again."""

from __future__ import annotations

import msgspec
from litestar.types import Receive, Scope, Send

from tocsin.api.door import addresses
from tocsin.model.schedule import ScheduleView

_JSON = (b"content-type", b"application/json")
_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """An ASGI application, as the framework expects of what handlers return."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def schedule_answer(view: ScheduleView, status: int = 200) -> Answer:
    """A schedule with its ETag, and where it is if it is new."""
    body = _encode(view)
    headers = [_JSON, (b"etag", tag_of(view.version).encode()), (b"content-length", b"%d" % len(body))]
    if status == 201:
        headers.append((b"location", addresses.written(addresses.SCHEDULES, view.id).encode()))
    return Answer(status, headers, body)


def unchanged_answer(version: int) -> Answer:
    """Whoever asks has it already."""
    return Answer(304, [(b"etag", tag_of(version).encode())])


def tag_of(version: int) -> str:
    """A schedule's ETag."""
    return f'"{version}"'
