"""Refusals, for whoever asked for a page: the same words as the API's, as a page; or the login."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from litestar.enums import ScopeType
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Receive, Scope, Send

from tocsin.api.lazy_pages import is_of_api
from tocsin.api.problems import MEDIA_TYPE
from tocsin.model.answer import Problem

_NOT_PAGES = ("/live", "/static")
_decode = msgspec.json.Decoder(Problem).decode


class Refusals:
    """An ASGI application around the whole API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not _wants_page(scope):
            await self._app(scope, receive, send)
            return
        asked = scope["path"], scope["query_string"].decode("latin-1")
        exchange = _Exchange(send)
        await self._app(scope, receive, exchange.say)
        if exchange.problem is not None:
            await _answer(*asked, exchange.problem)(scope, receive, send)


class _Exchange:
    """Lets answers through, but keeps problem details back."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._body = b""
        self._is_held = False
        self.problem: Problem | None = None

    async def say(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name.lower() == b"content-type"]
            self._is_held = kinds == [MEDIA_TYPE.encode()]
        if not self._is_held:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.problem = _decode(self._body)


def _wants_page(scope: Any) -> bool:
    if not any(name == b"accept" and b"text/html" in value for name, value in scope["headers"]):
        return False
    path = scope["path"]
    return not is_of_api(path) and not any(path == each or path.startswith(each + "/") for each in _NOT_PAGES)


def _answer(path: str, query: str, problem: Problem) -> ASGIApp:
    from tocsin.ui.answer import HEADERS, plain  # only now, as the pages themselves

    if problem.status == 401:
        to = quote(f"{path}?{query}" if query else path, safe="/")
        return ASGIResponse(
            body=b"", status_code=303, headers=[*HEADERS.items(), ("Location", f"/login?to={to}")]
        )
    page = plain("refused.html", status=problem.status, problem=problem)
    return ASGIResponse(
        body=page.content.encode(),
        status_code=problem.status,
        media_type="text/html",
        headers=list(HEADERS.items()),
    )
