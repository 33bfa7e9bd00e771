"""The pages of the console are loaded when somebody first wants one: most replicas are never asked for any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litestar.types import ASGIApp, Receive, Scope, Send

API_PATHS = ("/v1", "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs")


class WithPages:
    """An ASGI application: the API alone, and from the first request for something else on, the API and the pages."""

    def __init__(self, api: ASGIApp, load: Callable[[], ASGIApp]) -> None:
        self._app = api
        self._load = load
        self._is_loaded = False
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_loaded and not is_of_api(scope["path"]):
            async with self._loading:
                if not self._is_loaded:
                    self._app = await asyncio.to_thread(self._load)
                    self._is_loaded = True
        await self._app(scope, receive, send)


def is_of_api(path: str) -> bool:
    return any(path == each or path.startswith(each + "/") for each in API_PATHS)
