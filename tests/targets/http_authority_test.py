"""A request leaves while the leader's authority lasts, or no byte of it does: real processes, really stopped."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from tests.receivers import full_port
from tests.targets.exec_support import run, stopped, until

from tocsin.clock import SystemClock
from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.authority import AUTHORITY_ENDED
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.http import HttpTarget
from tocsin.testing.targets import order_for

_CALLER = """
import asyncio, os, signal, sys
import aiohttp, aiohttp.http_writer, msgspec, uvloop
from tocsin.clock import SystemClock
from tocsin.targets.contract import Order
from tocsin.targets.http import HttpTarget

loop, point, when, for_s = sys.argv[1:]
owner = aiohttp.http_writer.StreamWriter if hasattr(aiohttp.http_writer.StreamWriter, point) else aiohttp.ClientRequest
original = getattr(owner, point)

async def paused(*args, **more):
    if when == "before":
        os.kill(os.getpid(), signal.SIGSTOP)
    result = await original(*args, **more)
    if when == "after":
        os.kill(os.getpid(), signal.SIGSTOP)
    return result

async def main():
    target = HttpTarget()
    await target.start()
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if order.target.idempotent:  # leaves a connection behind
        first = await target.launch(order)
        assert first.exit_code == 200, first
    setattr(owner, point, paused)
    until_s = SystemClock().elapsed_s() + float(for_s)
    outcome = await target.launch(msgspec.structs.replace(order, name="suite/paused-1", until_s=until_s))
    print(msgspec.json.encode(outcome).decode())
    await target.stop()

new_loop = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""


class _Caller:
    """Another process that makes one call and stops itself on the way."""

    def __init__(self, order: Order, loop: str, point: str, when: str, for_s: float) -> None:
        line = [sys.executable, "-c", _CALLER, loop, point, when, str(for_s)]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order))
        self._process.stdin.close()

    async def until_paused(self) -> None:
        await until(lambda: stopped(self._process.pid))

    async def go_on(self) -> Outcome:
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdout is not None
        text = await asyncio.to_thread(self._process.stdout.read)
        assert await asyncio.to_thread(self._process.wait) == 0
        return msgspec.json.decode(text, type=Outcome)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def _caller(spec: HttpSpec, *args: Any) -> Iterator[_Caller]:
    caller = _Caller(order_for(spec, "suite/first-1"), *args)
    try:
        yield caller
    finally:
        caller.close()


class _Receiver:
    """Writes down every byte that reached it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.connections = 0
        self.url = ""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        begun = len(self.received)
        while data := await reader.read(65536):
            self.received += data
            if self.received[begun:].endswith((b"\r\n\r\n", b"}")):
                begun = len(self.received)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()


@asynccontextmanager
async def _receiver() -> AsyncIterator[_Receiver]:
    receiver = _Receiver()
    server = await asyncio.start_server(receiver.talk, "127.0.0.1", 0)
    async with server:
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield receiver


def _ended(for_s: float, began_s: float) -> bool:
    return SystemClock().elapsed_s() > began_s + for_s


_AUTHORITY_S = 1.0
_REQUESTS: dict[str, dict[str, Any]] = {
    "with a body": {},
    "with a body, kept connection": {"idempotent": True},
    "without a body": {"method": "GET"},
    "without a body, kept connection": {"method": "GET", "idempotent": True},
    "with an empty body": {"body": ""},
    "that would ask first": {"headers": {"Expect": "100-continue"}},
    "with much to say": {"body": "{" + "x" * 1_000_000 + "}"},
}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("request_", _REQUESTS.values(), ids=_REQUESTS)
def a_caller_paused_between_connection_and_request_sends_no_byte(loop: str, request_: dict[str, Any]) -> None:
    async def test() -> None:
        async with _receiver() as receiver:
            spec = HttpSpec(url=receiver.url, **request_)
            with _caller(spec, loop, "send", "before", _AUTHORITY_S) as caller:
                await caller.until_paused()
                before, paused_s = bytes(receiver.received), SystemClock().elapsed_s()
                assert bool(before) is spec.idempotent
                await until(lambda: _ended(_AUTHORITY_S, paused_s))
                outcome = await caller.go_on()
            assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, AUTHORITY_ENDED)
            await until(lambda: receiver.connections == 1)
            assert bytes(receiver.received) == before

    run(test)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("headers", [{}, {"Expect": "100-continue"}], ids=["plain", "would ask first"])
def a_caller_paused_after_its_headers_were_made_sends_no_byte(loop: str, headers: dict[str, str]) -> None:
    async def test() -> None:
        async with _receiver() as receiver:
            with _caller(
                HttpSpec(url=receiver.url, headers=headers), loop, "write_bytes", "before", _AUTHORITY_S
            ) as caller:
                await caller.until_paused()
                paused_s = SystemClock().elapsed_s()
                await until(lambda: _ended(_AUTHORITY_S, paused_s))
                outcome = await caller.go_on()
            assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, AUTHORITY_ENDED)
            assert not receiver.received

    run(test)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("point", ["send", "write_bytes"])
def a_caller_paused_that_still_has_authority_goes_on(loop: str, point: str) -> None:
    async def test() -> None:
        async with _receiver() as receiver:
            with _caller(HttpSpec(url=receiver.url), loop, point, "before", 1000) as caller:
                await caller.until_paused()
                assert not receiver.received
                assert (await caller.go_on()).verdict is Verdict.SUCCEEDED
            assert receiver.received

    run(test)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(("request_", "point"), [({}, "write"), ({"method": "GET"}, "send")])
def what_passed_the_last_look_at_the_clock_has_left_the_process(
    loop: str, point: str, request_: dict[str, Any]
) -> None:
    async def test() -> None:
        async with _receiver() as receiver:
            with _caller(
                HttpSpec(url=receiver.url, **request_), loop, point, "after", _AUTHORITY_S
            ) as caller:
                await caller.until_paused()
                await until(lambda: receiver.received.endswith((b"}", b"\r\n\r\n")))
                paused_s = SystemClock().elapsed_s()
                await until(lambda: _ended(_AUTHORITY_S, paused_s))
                assert (await caller.go_on()).verdict is Verdict.SUCCEEDED

    run(test)


class _NeverAnswers(AbstractResolver):
    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None:
        """There is nothing to let go."""


async def _called(url: str, for_s: float, **how: Any) -> Outcome:
    target = HttpTarget(**how)
    await target.start()
    try:
        until_s = SystemClock().elapsed_s() + for_s
        return await target.launch(order_for(HttpSpec(url=url), until_s=until_s))
    finally:
        await target.stop()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("obstacle", ["name", "connection"])
def a_connection_that_takes_longer_than_authority_is_given_up(scheme: str, obstacle: str) -> None:
    async def test() -> None:
        began_s = SystemClock().elapsed_s()
        with full_port() as port:
            if obstacle == "name":
                outcome = await _called(f"{scheme}://slow.example/", 0.3, resolver=_NeverAnswers())
            else:
                outcome = await _called(f"{scheme}://127.0.0.1:{port}/", 0.3)
        assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, AUTHORITY_ENDED)
        assert not outcome.permanent
        assert SystemClock().elapsed_s() < began_s + 5

    run(test)


def a_tls_handshake_that_takes_longer_than_authority_is_given_up() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            outcome = await _called(f"https://127.0.0.1:{silent.getsockname()[1]}/", 0.3)
        assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, AUTHORITY_ENDED)

    run(test)


@pytest.mark.parametrize("is_renewed", [True, False])
def a_connection_may_take_as_long_as_authority_is_renewed(is_renewed: bool) -> None:
    """Otherwise a receiver that is slow to connect would never be called by a leader of a cluster, and never fail."""

    async def test() -> None:
        clock = SystemClock()
        target = HttpTarget()
        await target.start()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            spec = HttpSpec(url=f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout="2s")
            order = order_for(spec, until_s=clock.elapsed_s() + 0.5, term=7)
            calling = asyncio.create_task(target.launch(order))
            while not calling.done():
                target.in_office(7 if is_renewed else 6, clock.elapsed_s() + 0.5)
                await asyncio.wait([calling], timeout=0.1)
        await target.stop()
        reason = "no connection within 2s" if is_renewed else AUTHORITY_ENDED
        assert (calling.result().verdict, calling.result().reason) == (Verdict.NOT_STARTED, reason)

    run(test)


def authority_that_is_renewed_does_not_move_the_deadline() -> None:
    async def test() -> None:
        clock = SystemClock()
        target = HttpTarget()
        await target.start()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            spec = HttpSpec(url=f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout="20s")
            now_s = clock.elapsed_s()
            order = order_for(spec, until_s=now_s + 0.3, deadline_s=now_s + 0.6, term=7)
            calling = asyncio.create_task(target.launch(order))
            while not calling.done():
                target.in_office(7, clock.elapsed_s() + 0.5)
                await asyncio.wait([calling], timeout=0.1)
        await target.stop()
        assert calling.result().reason == AUTHORITY_ENDED
        assert now_s + 0.6 <= clock.elapsed_s() < now_s + 10

    run(test)


def an_answer_may_come_after_authority_has_ended() -> None:
    async def test() -> None:
        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}")
            began_s = SystemClock().elapsed_s()
            await until(lambda: _ended(0.4, began_s))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        async with server:
            outcome = await _called(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", 0.3)
        assert outcome.verdict is Verdict.SUCCEEDED, outcome

    run(test)
