"""The short way: a request that comes by the thousand each second does without the router.

It has passed the gate like all others, its handler is the same, and so is every answer. What is not entirely
plain about a request (a query, a body of unknown length) is left to the router.
"""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from tocsin.api import problems
from tocsin.api.door.access import NEEDS
from tocsin.api.problems import HttpRefusal
from tocsin.api.resources.schedules import create
from tocsin.api.service import Service
from tocsin.errors import TocsinError
from tocsin.model.rights import require
from tocsin.model.token import Caller


class Direct:
    """An ASGI application around the router."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and _is_plain_create(scope):
            await (await self._answer(scope, receive))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive) -> ASGIApp:
        caller: Caller = scope["state"]["caller"]
        try:
            require(caller, NEEDS["createSchedule"])
            return await create(await _body(receive), self._service, caller)
        except TocsinError as refused:
            return problems.as_asgi(refused)
        except Exception as wrong:  # noqa: BLE001  # why: as the framework has it, our own mistake is told as one
            return problems.as_sent(problems.unexpected(scope["method"], scope["path"], wrong))


def _is_plain_create(scope: HTTPScope) -> bool:
    return (
        scope["path"] == "/v1/schedules"
        and scope["method"] == "POST"
        and not scope["query_string"]
        and any(name == b"content-length" for name, _ in scope["headers"])
    )


async def _body(receive: Receive) -> bytes:
    """The whole of it: the gate has seen its length, and the parser holds it to that."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise HttpRefusal(400, "the connection was closed before the body was complete")
        body += message["body"]
        if not message["more_body"]:
            return body
