from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.ports import own_port

from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import Target
from tocsin.targets.http import HttpTarget
from tocsin.testing.targets import CLAIMS, Claim, Harness, claim_name, hold


class _HttpHarness(Harness):
    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._lasting = asyncio.Event()
        self._targets: list[HttpTarget] = []

    async def serve(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/{status}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.succeeds = HttpSpec(url=f"{base}/200")
        self.fails = HttpSpec(url=f"{base}/503")
        self.fails_for_good = HttpSpec(url=f"{base}/404")
        self.lasts = HttpSpec(url=f"{base}/lasts")
        self.cannot_start = HttpSpec(url=f"http://127.0.0.1:{own_port()}/")
        return runner

    async def another(self) -> Target:
        target = HttpTarget()
        await target.start()
        self._targets.append(target)
        return target

    def effects(self, name: str) -> int:
        return self._seen[name]

    async def until_lasting(self) -> None:
        await self._lasting.wait()

    async def stop(self) -> None:
        for target in self._targets:
            await target.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        self._seen[request.headers["Idempotency-Key"]] += 1
        if request.match_info["status"] == "lasts":
            self._lasting.set()
            await asyncio.Event().wait()
        return web.Response(status=int(request.match_info["status"]))


@asynccontextmanager
async def _harness() -> AsyncIterator[Harness]:
    harness = _HttpHarness()
    runner = await harness.serve()
    harness.target = await harness.another()
    try:
        yield harness
    finally:
        await harness.stop()
        await runner.cleanup()


@pytest.mark.parametrize("claim", CLAIMS, ids=claim_name)
def the_http_target_conforms(claim: Claim) -> None:
    hold(claim, _harness())
