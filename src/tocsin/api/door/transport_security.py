"""The header Strict-Transport-Security: a browser that has come by https once never comes by plain http again."""

from __future__ import annotations

from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send

HEADER = b"strict-transport-security", b"max-age=31536000"
"""For a year, and for this host alone, not for those below it."""


class TransportSecurity:
    """An ASGI application around all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("scheme") == "https":
            await self._app(scope, receive, _with_header(send))
        else:
            await self._app(scope, receive, send)


def _with_header(send: Send) -> Send:
    async def say(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), HEADER]}
        await send(message)

    return say
