"""HEAD and OPTIONS, for every address alike.

HEAD is answered as GET is, without the body. OPTIONS and 405 say in ``Allow`` what is possible at an address; there
are no headers for pages of other sites (CORS), because no such page has any business here.
"""

from __future__ import annotations

from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send


class Methods:
    """An ASGI application around the router."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope.get("method"):
            case "HEAD":
                await _Head(receive, send).ask(self._app, scope)
            case "OPTIONS":
                # Only the router's refusal of a method that nobody serves names all that somebody does.
                await self._app(cast(Scope, {**scope, "method": "TRACE"}), receive, _allowed(send))
            case _:
                await self._app(scope, receive, send)


class _Head:
    """One HEAD request. A body that would never end (a live view) is left as soon as its beginning is known."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_over = False

    async def ask(self, app: ASGIApp, scope: Scope) -> None:
        await app(cast(Scope, {**scope, "method": "GET"}), self._heard, self._say)

    async def _heard(self) -> Any:
        return {"type": "http.disconnect"} if self._is_over else await self._receive()

    async def _say(self, message: Any) -> None:
        if self._is_over:
            return
        if message["type"] == "http.response.body":
            self._is_over = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)


def _allowed(send: Send) -> Send:
    """A refusal of the method as the answer to OPTIONS; everything else as it is."""
    is_answer = False

    async def say(message: Any) -> None:
        nonlocal is_answer
        if message["type"] == "http.response.start" and message["status"] == 405:
            is_answer = True
            headers = [(key, value) for key, value in message["headers"] if key.lower() == b"allow"]
            message = {**message, "status": 204, "headers": headers}
        elif is_answer:
            message = {**message, "body": b""}
        await send(message)

    return say
