"""What every request passes before the router sees it."""

from __future__ import annotations

import msgspec
from litestar.enums import ScopeType
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Receive, Scope, Send

from tocsin.api import addresses, guard, problems
from tocsin.errors import TocsinError


class Gate:
    """An ASGI application around the application: guard, then addresses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return  # there are no web sockets, and nothing to start or stop with the application
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            guard.check(scope["method"], headers)
            scope["path"] = addresses.routed(scope["path"])
        except TocsinError as refused:
            await _refuse(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refuse(refused: TocsinError) -> ASGIResponse:
    problem = problems.of_error(refused)
    body = msgspec.json.encode(problem)
    return ASGIResponse(body=body, media_type=problems.MEDIA_TYPE, status_code=problem.status)
