"""Every request is counted and timed, also the ones that the gate refuses; logged too, if that is wanted."""

from __future__ import annotations

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from tocsin.clock import Clock
from tocsin.observe.metrics import Metrics, route_of

log = structlog.get_logger()

_STREAM = b"text/event-stream"


class Measured:
    """An ASGI application around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Clock, *, is_logged: bool = False) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock
        self._is_logged = is_logged

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        method, route = scope["method"], route_of(scope["path"])
        began_s = self._clock.elapsed_s()
        status = 500  # what the server says when nobody here says anything
        is_stream = False

        async def noted(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(value.startswith(_STREAM) for _, value in message.get("headers", ()))
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            took_s = self._clock.elapsed_s() - began_s
            self._metrics.request(method, status, None if is_stream else took_s, route)
            if self._is_logged:
                _log(scope, status, took_s)


def _log(scope: HTTPScope, status: int, took_s: float) -> None:
    """Without the query, which may hold what others should not read. As it came: escaped."""
    caller = (scope.get("state") or {}).get("caller")
    log.info(
        "request",
        method=scope["method"],
        path=scope["raw_path"].partition(b"?")[0].decode("ascii", "backslashreplace"),
        status=status,
        ms=round(took_s * 1000, 1),
        address=scope["client"][0] if scope["client"] else "",
        by=caller.name if caller else "",
    )
