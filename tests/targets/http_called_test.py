"""A call is made when its first byte leaves, and that is what an outcome tells: not when somebody began to look up a
name or to connect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from tests.ports import own_port
from tests.receivers import full_listener
from tests.replica.lone import LeapClock
from tests.targets.exec_support import run, until

from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import TOO_LATE, Outcome, Verdict
from tocsin.targets.http import HttpTarget
from tocsin.testing.targets import order_for

_LEAP_S = 5.0
_LEAP_MS = 5_000
_SYN_SENT = "02"


class _Receiver:
    """Notes when a request came, by the clock of the caller, and answers a leap later."""

    def __init__(self, clock: LeapClock) -> None:
        self._clock = clock
        self.got_ms: list[int] = []
        self.answers = True

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            await reader.readuntil(b"}")
        self.got_ms.append(self._clock.wall_ms())
        self._clock.ahead_s += _LEAP_S
        if self.answers:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            await reader.read()
        writer.close()


class _SlowNames(AbstractResolver):
    """The clock leaps while a name is looked up."""

    def __init__(self, clock: LeapClock) -> None:
        self._clock = clock

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self._clock.ahead_s += _LEAP_S
        found = ResolveResult(
            hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0
        )
        return [found]

    async def close(self) -> None:
        """There is nothing to let go."""


@asynccontextmanager
async def _target(clock: LeapClock) -> AsyncIterator[HttpTarget]:
    target = HttpTarget(clock=clock, resolver=_SlowNames(clock))
    await target.start()
    try:
        yield target
    finally:
        await target.stop()


@asynccontextmanager
async def _served(receiver: _Receiver, **where: Any) -> AsyncIterator[int]:
    server = await asyncio.start_server(receiver.talk, **where)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _is_connecting(port: int, fillers: list[socket.socket]) -> bool:
    """Does somebody else wait for a connection to that port?"""
    own = {filler.getsockname()[1] for filler in fillers}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    waiting = {
        int(local.partition(":")[2], 16)
        for _, local, remote, state, *_ in lines
        if state == _SYN_SENT and int(remote.partition(":")[2], 16) == port
    }
    return bool(waiting - own)


def _assert_of_the_call(outcome: Outcome, since_ms: int, got_ms: int) -> None:
    assert outcome.called_ms is not None
    assert outcome.ended_ms is not None
    assert since_ms + _LEAP_MS <= outcome.called_ms <= got_ms <= outcome.ended_ms - _LEAP_MS


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("idempotent", [False, True])
def the_time_of_a_look_up_is_not_that_of_the_call(method: Any, idempotent: bool) -> None:
    async def test() -> None:
        clock = LeapClock()
        receiver = _Receiver(clock)
        async with _served(receiver, host="127.0.0.1", port=0) as port, _target(clock) as target:
            since_ms = clock.wall_ms()
            spec = HttpSpec(url=f"http://slow.example:{port}/", method=method, idempotent=idempotent)
            outcome = await target.launch(order_for(spec))
        assert outcome.verdict is Verdict.SUCCEEDED, outcome
        _assert_of_the_call(outcome, since_ms, receiver.got_ms[0])

    run(test)


def the_time_of_a_connection_is_not_that_of_the_call() -> None:
    async def test() -> None:
        clock = LeapClock()
        receiver = _Receiver(clock)
        with full_listener() as (listener, fillers):
            port = listener.getsockname()[1]
            async with _target(clock) as target:
                since_ms = clock.wall_ms()
                order = order_for(HttpSpec(url=f"http://127.0.0.1:{port}/"))
                calling = asyncio.create_task(target.launch(order))
                await until(lambda: _is_connecting(port, fillers))
                clock.ahead_s += _LEAP_S
                for filler in fillers:
                    filler.close()
                listener.setblocking(False)
                async with _served(receiver, sock=listener):
                    outcome = await calling
        assert outcome.verdict is Verdict.SUCCEEDED, outcome
        _assert_of_the_call(outcome, since_ms, receiver.got_ms[0])

    run(test)


@pytest.mark.parametrize("end", ["cancelled", "unknown"])
def a_call_that_nobody_answered_was_made_when_it_was_sent(end: str) -> None:
    async def test() -> None:
        clock = LeapClock()
        receiver = _Receiver(clock)
        receiver.answers = False
        async with _served(receiver, host="127.0.0.1", port=0) as port, _target(clock) as target:
            since_ms = clock.wall_ms()
            order = order_for(
                HttpSpec(url=f"http://slow.example:{port}/"), timeout_s=None if end == "cancelled" else 0.5
            )
            calling = asyncio.create_task(target.launch(order))
            await until(lambda: bool(receiver.got_ms))
            if end == "cancelled":
                await target.cancel(order)
            outcome = await calling
        assert outcome.verdict is Verdict[end.upper()]
        _assert_of_the_call(outcome, since_ms, receiver.got_ms[0])

    run(test)


def what_was_not_sent_has_no_time_of_a_call() -> None:
    async def test() -> None:
        clock = LeapClock()
        receiver = _Receiver(clock)
        async with _served(receiver, host="127.0.0.1", port=0) as port, _target(clock) as target:
            refused = await target.launch(order_for(HttpSpec(url=f"http://absent.example:{own_port()}/")))
            until_s = clock.elapsed_s() + _LEAP_S / 2
            late = await target.launch(
                order_for(HttpSpec(url=f"http://slow.example:{port}/"), until_s=until_s)
            )
        assert (refused.verdict, refused.called_ms) == (Verdict.NOT_STARTED, None)
        assert (late.reason, late.called_ms) == (TOO_LATE.reason, None)
        assert not receiver.got_ms

    run(test)
