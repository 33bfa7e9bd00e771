"""The fence in front of real listeners: a denied call never reaches them, however it is written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.fence import Fence
from tocsin.targets.http import HttpTarget
from tocsin.testing.targets import order_for


class Names(AbstractResolver):
    """A name server that says what the test wants, something else each time if told so."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self.answers[host.partition(".")[0]]
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        pass


class Listener:
    """Counts who comes."""

    def __init__(self) -> None:
        self.calls = 0
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def _listening() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.talk, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener


async def _calls(fence: Fence, urls: list[str], names: Names | None = None, **spec: Any) -> list[Outcome]:
    target = HttpTarget(fence=fence, resolver=names)
    await target.start()
    try:
        orders = [order_for(HttpSpec(url=url, **spec), name=f"a-{n}") for n, url in enumerate(urls)]
        return [await target.launch(order) for order in orders]
    finally:
        await target.stop()


def _run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "127.0.0.1.",
        "user@127.0.0.1",
        "127.0.0.1%00.example",
    ],
)
@pytest.mark.parametrize("idempotent", [False, True])
def a_denied_address_is_never_called_however_it_is_written(host, idempotent):
    async def test() -> None:
        async with _listening() as listener:
            url = f"http://{host}:{listener.port}/"
            [outcome] = await _calls(Fence.parse("", "127.0.0.0/8"), [url], idempotent=idempotent)
            assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True), outcome
            if "%" not in host:
                assert "http_deny" in outcome.reason
            assert listener.calls == 0

    _run(test)


def the_same_listener_is_called_without_a_fence():
    async def test() -> None:
        async with _listening() as listener:
            urls = [
                f"http://{host}:{listener.port}/" for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]")
            ]
            outcomes = await _calls(Fence(), urls)
            assert [outcome.verdict for outcome in outcomes] == [Verdict.SUCCEEDED] * 3, outcomes
            assert listener.calls == 3

    _run(test)


def a_name_that_points_to_a_denied_address_is_not_called():
    async def test() -> None:
        async with _listening() as listener:
            names = Names(evil=["127.0.0.1"], meta=["169.254.169.254"], mapped=["::ffff:127.0.0.1"])
            urls = [f"http://{name}.example:{listener.port}/" for name in ("evil", "meta", "mapped")]
            outcomes = await _calls(Fence.parse("", "127.0.0.0/8"), urls, names)
            assert [(each.verdict, each.permanent) for each in outcomes] == [(Verdict.NOT_STARTED, True)] * 3
            assert "http_deny" in outcomes[0].reason
            assert "127.0.0.1" in outcomes[0].reason
            assert "http_allow" in outcomes[1].reason
            assert listener.calls == 0
            assert len(names.asked) == 3, "each was really asked for"

    _run(test)


def a_name_that_changes_its_address_after_the_first_look_gains_nothing():
    """What was judged is what is connected to: there is no second look-up in between."""

    async def test() -> None:
        async with _listening() as listener:
            names = Names(rebound=["127.0.0.1", "127.0.0.2"])
            fence = Fence.parse("", "127.0.0.2")
            [outcome] = await _calls(fence, [f"http://rebound.example:{listener.port}/"], names)
            assert outcome.verdict is Verdict.SUCCEEDED
            assert names.asked == ["rebound.example"]

    _run(test)


def a_kept_connection_serves_only_the_host_that_was_judged():
    async def test() -> None:
        async with _listening() as listener:
            names = Names(good=["127.0.0.1"], evil=["127.0.0.1"])
            fence = Fence.parse("good.example", "")
            good, evil = (f"http://{name}.example:{listener.port}/" for name in ("good", "evil"))
            outcomes = await _calls(fence, [good, evil, good], names, idempotent=True)
            assert [each.verdict.name for each in outcomes] == ["SUCCEEDED", "NOT_STARTED", "SUCCEEDED"]
            assert listener.calls == 1, "one connection, kept for the good host"
            assert names.asked == ["good.example"]

    _run(test)


def a_host_header_does_not_lead_past_the_fence():
    """A gateway that may be called passes the request on to whom the header names."""

    async def test() -> None:
        async with _listening() as listener:
            url = f"http://gateway.example:{listener.port}/"
            for fence in (Fence.parse("gateway.example", ""), Fence.parse("", "inner.example")):
                headers = {"hOsT": "inner.example:80"}
                [outcome] = await _calls(fence, [url], Names(gateway=["127.0.0.1"]), headers=headers)
                assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
                assert "inner.example" in outcome.reason
            assert listener.calls == 0
            [outcome] = await _calls(Fence(), [url], Names(gateway=["127.0.0.1"]), headers=headers)
            assert outcome.verdict is Verdict.SUCCEEDED

    _run(test)


def a_redirect_does_not_lead_past_the_fence():
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(redirect, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            [outcome] = await _calls(Fence(), [f"http://127.0.0.1:{port}/"])
            assert (outcome.verdict, outcome.exit_code) == (Verdict.FAILED, 307)

    _run(test)
