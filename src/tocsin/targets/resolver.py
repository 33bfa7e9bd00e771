"""Names become addresses, and only permitted ones: whoever asks never gets to see the others.

This is what makes a name that points to a forbidden address, or points there only at the second look (DNS
rebinding), harmless: the addresses that were judged are the ones that are connected to.
"""

from __future__ import annotations

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tocsin.targets.fence import Fence


class FencedResolver(AbstractResolver):
    """A name server's answer, less what may not be called. Raises Denied if nothing is left of it."""

    def __init__(self, fence: Fence, inner: AbstractResolver | None = None) -> None:
        self._fence = fence
        self._inner = inner or aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        permitted = self._fence.permitted(host, [each["host"] for each in found])
        return [each for each in found if each["host"] in permitted]

    async def close(self) -> None:
        await self._inner.close()
