"""Every request is counted and timed, also the ones that the gate refuses."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.clock import Clock
from tocsin.observe.metrics import Metrics, route_of

_STREAM = b"text/event-stream"


class Measured:
    """An ASGI application around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

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
            seconds = None if is_stream else self._clock.elapsed_s() - began_s
            self._metrics.request(method, status, seconds, route)
