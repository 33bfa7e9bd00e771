"""What every request passes before the router sees it."""

from __future__ import annotations

import asyncio

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from tocsin.api import problems
from tocsin.api.door import access, addresses, guard
from tocsin.api.door.access import Doorkeeper
from tocsin.api.door.pace import GUESSES_PER_S, PAGES_PER_S, Pace
from tocsin.api.door.read_concurrency import ReadConcurrency
from tocsin.api.resources.streams import STREAM_PATHS
from tocsin.clock import Clock
from tocsin.errors import InvalidInput, TocsinError, Unauthenticated
from tocsin.model.token import EVERYBODY, Caller

_VERSIONS = ("1.0", "1.1")
_PREVIEW = "/v1/preview"
_ROUNDS = 2


class Gate:
    """An ASGI application around the application: guard, who is asking, how fast, and then where to."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper, clock: Clock, rate_limit: int) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._pace = Pace(clock, rate_limit)
        self._pages = Pace(clock, min(rate_limit, PAGES_PER_S))
        self._guesses = Pace(clock, GUESSES_PER_S)
        self._reads = ReadConcurrency()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return  # there are no web sockets, and nothing to start or stop with the application
        who = ""
        try:
            await self._check(scope)
            if _is_read(scope):
                who = scope["state"]["caller"].account or address_of(scope)
                await self._reads.enter(who)
        except TocsinError as refused:
            await problems.as_asgi(refused)(scope, receive, send)
            return
        try:
            if who:
                for _ in range(_ROUNDS):  # a client that sends and hangs up is gone when the loop next looks
                    await asyncio.sleep(0)
            if not (who and _is_gone(receive)):
                await self._app(scope, receive, send)
        finally:
            if who:
                self._reads.leave(who)

    async def _check(self, scope: HTTPScope) -> None:
        if scope["http_version"] not in _VERSIONS:
            raise InvalidInput(
                "this version of HTTP is not spoken here",
                field="HTTP",
                value=scope["http_version"],
                allowed=", ".join(_VERSIONS),
            )
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        path = scope["path"]
        guard.check(
            scope["method"],
            path,
            headers,
            scheme=scope["scheme"],
            tokens_needed=self._doorkeeper.tokens_needed,
        )
        if access.is_public(path):
            name = "" if self._doorkeeper.tokens_needed else EVERYBODY.name
            caller = EVERYBODY._replace(name=name, scopes=frozenset())
            if path not in guard.PROBES and not path.startswith(access.STATIC):
                self._pages.take(address_of(scope))
        else:
            guard.check_came_from_us(scope["method"], headers)
            caller = await self._caller(headers, address_of(scope))
            self._pace.take(caller.account or address_of(scope))
        scope["state"] = {**(scope.get("state") or {}), "caller": caller}
        scope["path"] = addresses.routed(path)

    async def _caller(self, headers: dict[str, str], peer: str) -> Caller:
        try:
            return await self._doorkeeper.caller(headers, peer)
        except Unauthenticated:
            # Only wrong ones are held back: whoever shares an address with a guesser still gets in.
            if "authorization" in headers or f"{access.COOKIE}=" in headers.get("cookie", ""):
                self._guesses.take(peer)
            raise


def _is_read(scope: HTTPScope) -> bool:
    """Is this a request that changes nothing and may take a while? Health checks and streams do not wait."""
    path = scope["path"]
    is_read = scope["method"] in ("GET", "HEAD") or path == _PREVIEW
    return is_read and not access.is_public(path) and path not in STREAM_PATHS


def _is_gone(receive: Receive) -> bool:
    """Has the client hung up? uvicorn knows, and tells it only to those who wait for more of the request."""
    return bool(getattr(getattr(receive, "__self__", None), "disconnected", False))


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
