"""How many reads of one caller are worked on at once, also if the client has hung up."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tocsin.api.door.gate import Gate
from tocsin.api.door.read_concurrency import READS_MAX, WAITING_MAX, ReadConcurrency
from tocsin.clock import SystemClock
from tocsin.errors import TooMany
from tocsin.model.token import EVERYBODY, Caller


def a_caller_waits_for_its_own_reads_and_for_nobody_elses() -> None:
    async def work() -> None:
        reads = ReadConcurrency()
        for _ in range(READS_MAX):
            await reads.enter("greedy")
        later = [asyncio.create_task(reads.enter("greedy")) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany):
            await reads.enter("greedy")
        await asyncio.wait_for(reads.enter("modest"), 5)
        reads.leave("greedy")
        await asyncio.sleep(0)
        assert [turn.done() for turn in later[:2]] == [True, False], "in their order"
        later[1].cancel()
        await asyncio.sleep(0)
        reads.leave("greedy")
        await asyncio.sleep(0)
        assert later[2].done(), "one that was given up is passed over"
        for turn in later[3:]:
            turn.cancel()
        await asyncio.gather(*later, return_exceptions=True)

    asyncio.run(work())


def a_place_that_was_given_to_one_who_gave_up_goes_to_the_next() -> None:
    async def work() -> None:
        reads = ReadConcurrency()
        for _ in range(READS_MAX):
            await reads.enter("a")
        first, second = (asyncio.create_task(reads.enter("a")) for _ in range(2))
        await asyncio.sleep(0)
        reads.leave("a")
        first.cancel()
        await asyncio.wait_for(second, 5)
        for _ in range(READS_MAX):
            reads.leave("a")
        assert reads._lines == {}

    asyncio.run(work())


class _Client:
    """As uvicorn shows one to the application."""

    def __init__(self, *, disconnected: bool) -> None:
        self.disconnected = disconnected

    async def receive(self) -> Any:
        return {"type": "http.disconnect"}


class _Nobody:
    tokens_needed = False

    async def caller(self, headers: Any, address: str) -> Caller:
        return EVERYBODY


def what_waits_for_its_turn_is_not_begun_when_its_client_has_hung_up() -> None:
    begun: list[str] = []
    over = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await over.wait()

    async def ask(gate: Gate, path: str, client: _Client) -> None:
        scope: Any = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "headers": [],
            "client": ("127.0.0.1", 1),
        }
        await gate(scope, client.receive, None)  # type: ignore[arg-type]  # why: nothing is sent

    async def work() -> None:
        gate = Gate(app, _Nobody(), SystemClock(), 0)  # type: ignore[arg-type]  # why: a stub
        there, gone = _Client(disconnected=False), _Client(disconnected=True)
        asked = [asyncio.create_task(ask(gate, "/v1/schedules", there)) for _ in range(READS_MAX)]
        asked += [asyncio.create_task(ask(gate, "/v1/launches", gone)) for _ in range(50)]
        asked.append(asyncio.create_task(ask(gate, "/v1/status", there)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert begun == ["/v1/schedules"] * READS_MAX
        over.set()
        await asyncio.wait_for(asyncio.gather(*asked), 10)
        assert begun == ["/v1/schedules"] * READS_MAX + ["/v1/status"]

    asyncio.run(work())


def uvicorn_tells_whether_a_client_has_hung_up() -> None:
    """The gate looks at it."""
    assert "self.disconnected = False" in inspect.getsource(RequestResponseCycle.__init__)
    assert "disconnected = True" in inspect.getsource(H11Protocol.connection_lost)
