"""Names that nobody answers for cost their own callers their time, and no one else's."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp.abc import ResolveResult

from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import Verdict
from tocsin.targets.fence import Denied, Fence
from tocsin.targets.http import HttpTarget
from tocsin.targets.resolver import LOOKUPS_AT_ONCE, FencedResolver, SystemResolver, ask_system
from tocsin.testing.targets import order_for


class Server:
    """Answers for every name but those under ``slow.example``, which wait until they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        self.asked.append(host)
        if host.endswith("slow.example"):
            self.let_go.wait(30)
        return ask_system("127.0.0.1", port, family)


def _run(test: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test(server)

    server = Server()
    try:
        asyncio.run(bounded())
    finally:
        server.let_go.set()


def slow_names_do_not_hold_up_others() -> None:
    async def test(server: Server) -> None:
        resolver = SystemResolver(server)
        slow = [asyncio.create_task(resolver.resolve(f"{n}.slow.example", 80)) for n in range(500)]
        for name in ("good.example.org", "payroll", "localhost"):
            [answer] = await resolver.resolve(name, 80)
            assert answer["host"] == "127.0.0.1"
        assert sum(name.endswith("slow.example") for name in server.asked) == LOOKUPS_AT_ONCE // 4
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await resolver.close()

    _run(test)


def a_name_is_looked_up_once_for_all_who_ask_and_remembered_for_a_moment() -> None:
    async def test(server: Server) -> None:
        resolver = SystemResolver(server)
        first = [asyncio.create_task(resolver.resolve("one.slow.example", 80)) for _ in range(5)]
        await asyncio.sleep(0)
        first[0].cancel()
        server.let_go.set()
        answers = await asyncio.gather(*first[1:])
        assert all(answer[0]["host"] == "127.0.0.1" for answer in answers)
        await resolver.resolve("ONE.slow.example", 80)
        assert server.asked == ["one.slow.example"]

    _run(test)


def what_is_remembered_is_judged_each_time() -> None:
    async def test(server: Server) -> None:
        inner = SystemResolver(server)
        assert await FencedResolver(Fence(), inner).resolve("a.example", 80)
        with pytest.raises(Denied):
            await FencedResolver(Fence.parse("", "127.0.0.0/8"), inner).resolve("a.example", 80)
        assert server.asked == ["a.example"]

    _run(test)


def a_look_up_that_takes_too_long_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.targets.resolver.LOOKUP_S_MAX", 0.05)

    async def test(server: Server) -> None:
        target = HttpTarget(resolver=SystemResolver(server))
        await target.start()
        outcome = await target.launch(order_for(HttpSpec(url="http://a.slow.example/")))
        await target.stop()
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, False)
        assert "a.slow.example" in outcome.reason

    _run(test)


def an_address_in_itself_is_not_looked_up() -> None:
    async def test(server: Server) -> None:
        target = HttpTarget(resolver=SystemResolver(server))
        await target.start()
        outcome = await target.launch(order_for(HttpSpec(url="http://127.0.0.1:1/")))
        await target.stop()
        assert outcome.verdict is Verdict.NOT_STARTED
        assert server.asked == []

    _run(test)


def a_look_up_for_which_there_is_no_thread_fails_and_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        def found(*_: object) -> list[ResolveResult]:
            return []

        resolver = SystemResolver(found)
        with monkeypatch.context() as short:
            short.setattr("threading.Thread.start", _no_thread)
            for _ in range(LOOKUPS_AT_ONCE + 1):
                with pytest.raises(OSError, match="can't start new thread"):
                    await resolver.resolve("one.example", 80)
        assert await resolver.resolve("one.example", 80) == []
        await resolver.close()

    asyncio.run(test())


def _no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")
