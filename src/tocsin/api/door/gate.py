"""What every request passes before the router sees it."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from tocsin.api import problems
from tocsin.api.door import access, addresses, guard
from tocsin.api.door.access import Doorkeeper
from tocsin.api.door.pace import GUESSES_PER_S, PAGES_PER_S, Pace
from tocsin.clock import Clock
from tocsin.errors import InvalidInput, TocsinError, Unauthenticated
from tocsin.model.token import EVERYBODY, Caller

_VERSIONS = ("1.0", "1.1")


class Gate:
    """An ASGI application around the application: guard, who is asking, how fast, and then where to."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper, clock: Clock, rate_limit: int) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._pace = Pace(clock, rate_limit)
        self._pages = Pace(clock, min(rate_limit, PAGES_PER_S))
        self._guesses = Pace(clock, GUESSES_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return  # there are no web sockets, and nothing to start or stop with the application
        try:
            await self._check(scope)
        except TocsinError as refused:
            await problems.as_asgi(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

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
            caller = EVERYBODY._replace(scopes=frozenset())
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


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
