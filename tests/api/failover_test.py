"""A client that knows several addresses: what it asks of the next one, what it repeats, and what it never does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tocsin import errors
from tocsin.client import Client, again
from tocsin.model.problem import problem_of
from tocsin.model.schedule import convert

NOBODY = "http://127.0.0.1:1"


class Replica:
    """Answers with what it is told to, one after the other; the last one for ever. Remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        await request.read()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.TocsinError):
            problem = problem_of(answer)
            return web.Response(status=problem.status, body=msgspec.json.encode(problem))
        if answer == "dies":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if answer == "hangs":
            await asyncio.Event().wait()
        return web.json_response(answer)


@asynccontextmanager
async def _up(*replicas: Replica) -> AsyncIterator[list[str]]:
    runners = []
    for replica in replicas:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", replica.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        replica.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]  # why: it has started
        runners.append(runner)
    try:
        yield [replica.url for replica in replicas]
    finally:
        for runner in runners:
            await runner.cleanup()


def _asked(
    replicas: list[Replica],
    question: Callable[[Client], Awaitable[Any]],
    before: list[str] | None = None,
    **more: Any,
) -> Any:
    async def whole() -> Any:
        async with _up(*replicas) as urls, Client([*(before or []), *urls], **more) as client:
            return await question(client)

    return asyncio.run(whole())


WHO = {"name": "ann", "token": "", "scopes": ["read"], "prefixes": []}
SCHEDULE = {
    "id": "a",
    "cron": "@daily",
    "target": {"kind": "null"},
    "version": 1,
    "resolved": "0 0 * * *",
    "next": None,
    "created_at": "2026-01-31T09:00:00Z",
    "updated_at": "2026-01-31T09:00:00Z",
}
WRITTEN = convert({"id": "a", "cron": "@daily", "target": {"kind": "null"}})
GONE = {"launch": "gone"}


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "PAUSE_S", 0.01)
    monkeypatch.setattr("tocsin.client.wire.HASTY_S", 1.0)


def a_dead_address_is_asked_once_and_then_left_alone():
    a = Replica(WHO)

    async def question(client: Client) -> None:
        for _ in range(3):
            assert (await client.who_am_i()).name == "ann"

    _asked([a], question, before=[NOBODY])
    assert len(a.asked) == 3


def nobody_leads_for_a_moment_and_then_somebody_does():
    nobody = errors.NoLeader("nobody leads")
    a, b = Replica(nobody, nobody, SCHEDULE), Replica(nobody)
    assert _asked([a, b], lambda client: client.pause("a")).id == "a"
    assert len(a.asked) == 3
    assert _asked([Replica(nobody, nobody, SCHEDULE)], lambda client: client.pause("a")).id == "a"


def when_nobody_leads_for_long_it_is_told(monkeypatch):
    monkeypatch.setattr(again, "PATIENCE_S", 0.1)
    with pytest.raises(errors.NoLeader) as told:
        _asked([Replica(errors.NoLeader("nobody leads"))] * 1, lambda client: client.run("a"))
    assert told.value.retryable


def a_replica_that_is_alone_is_not_asked_without_a_pause(monkeypatch):
    """Of three addresses two are dead: their refusals must not use up the pauses."""
    monkeypatch.setattr(again, "PATIENCE_S", 1.0)
    monkeypatch.setattr(again, "PAUSE_S", 0.2)
    alone = Replica(errors.NoLeader("nobody"))
    with pytest.raises(errors.NoLeader):
        _asked([alone], lambda client: client.who_am_i(), before=[NOBODY, "http://127.0.0.1:2"])
    assert len(alone.asked) <= 7


def a_replica_that_dies_while_it_reads_is_followed_by_the_next():
    a, b = Replica("dies"), Replica(WHO)
    assert _asked([a, b], lambda client: client.who_am_i()).name == "ann"
    assert (len(a.asked), len(b.asked)) == (1, 1)


def a_replica_that_hangs_while_it_reads_is_followed_by_the_next():
    began_s = time.monotonic()
    a, b = Replica("hangs"), Replica(WHO)
    assert _asked([a, b], lambda client: client.who_am_i()).name == "ann"
    assert time.monotonic() - began_s < 5


def what_may_have_been_done_is_never_repeated():
    questions: list[Callable[[Client], Awaitable[Any]]] = [
        lambda client: client.run("a"),
        lambda client: client.delete("a"),
        lambda client: client.cancel("a-1"),
        lambda client: client.pause("a"),
        lambda client: client.revoke_token("ci"),
    ]
    for question in questions:
        for lost in ("dies", errors.Uncertain("the answer was lost", hint="look before you repeat it")):
            a, b = Replica(lost), Replica(SCHEDULE)
            with pytest.raises(errors.Uncertain) as told:
                _asked([a, b], question)
            assert "look before you repeat it" in told.value.hint
            assert (len(a.asked), len(b.asked)) == (1, 0)


def what_can_be_carried_out_twice_without_harm_is_repeated():
    questions: list[Callable[[Client], Awaitable[Any]]] = [
        lambda client: client.put(WRITTEN),
        lambda client: client.put(WRITTEN, expect=3),
        lambda client: client.create(WRITTEN),
        lambda client: client.patch("a", {"cron": "@daily"}, expect=3),
    ]
    for question in questions:
        for lost in ("dies", errors.Uncertain("lost"), errors.Stopping("stopping")):
            a, b = Replica(lost), Replica(SCHEDULE)
            _asked([a, b], question)
            assert len(b.asked) == 1


def a_repetition_that_finds_another_version_does_not_say_who_made_it():
    """The first one may have made it; then this is no conflict at all."""
    a, b = Replica("dies"), Replica(errors.VersionConflict("at version 4, not 3"))
    with pytest.raises(errors.Uncertain):
        _asked([a, b], lambda client: client.put(WRITTEN, expect=3))
    a, b = Replica("dies"), Replica(errors.NotFound("there is no schedule 'a'"))
    with pytest.raises(errors.Uncertain):
        _asked([a, b], lambda client: client.delete("a", expect=3))
    with pytest.raises(errors.VersionConflict):
        _asked([Replica(errors.VersionConflict("no"))], lambda client: client.put(WRITTEN, expect=3))


def a_refusal_is_a_refusal_wherever_it_is_asked():
    a, b = Replica(errors.NotFound("there is no schedule 'a'")), Replica(SCHEDULE)
    with pytest.raises(errors.NotFound):
        _asked([a, b], lambda client: client.schedule("a"))
    assert b.asked == []


def a_replica_whose_journal_is_silent_is_followed_by_one_whose_is_not():
    a, b = Replica(errors.JournalUnavailable("etcd is silent")), Replica(SCHEDULE)
    assert _asked([a, b], lambda client: client.pause("a")).id == "a"
    # Alone there is nobody else to ask, and nothing to be gained.
    with pytest.raises(errors.JournalUnavailable):
        _asked([Replica(errors.JournalUnavailable("etcd is silent"))], lambda client: client.pause("a"))


def nothing_that_is_heard_later_makes_a_lost_answer_certain(monkeypatch):
    monkeypatch.setattr(again, "PATIENCE_S", 0.1)
    with pytest.raises(errors.Uncertain):
        _asked([Replica("dies")], lambda client: client.put(WRITTEN), before=[NOBODY])
    with pytest.raises(errors.Uncertain):
        _asked(
            [Replica("dies", errors.NoLeader("nobody")), Replica(errors.NoLeader("nobody"))],
            lambda client: client.put(WRITTEN),
        )


def _event(id: str) -> bytes:
    return f'id: {id}\ndata: {{"id":"{id}","at":"2026-01-31T09:00:00Z","kind":"leader.elected"}}\n\n'.encode()


def events_go_on_at_another_replica_exactly_where_they_were():
    """The first dies in the middle, the second has not come so far yet, the third goes on."""
    heard: list[tuple[str, str | None]] = []

    class Teller(Replica):
        def __init__(self, name: str, answer: Any) -> None:
            super().__init__(answer)
            self.name = name

        async def handle(self, request: web.Request) -> web.StreamResponse:
            heard.append((self.name, request.headers.get("Last-Event-ID")))
            if isinstance(self.answers[0], errors.TocsinError):
                return await super().handle(request)
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(self.answers[0])
            if self.name == "a":
                assert request.transport is not None
                request.transport.abort()
            return response

    end = b'id: 9\nevent: end\ndata: {"id":"9","at":"2026-01-31T09:00:00Z","kind":"end"}\n\n'
    replicas: list[Replica] = [
        Teller("a", _event("7") + b"id: 8\nda"),
        Teller("b", errors.NoLeader("this replica is at entry 3 and has not come to that event yet")),
        Teller("c", _event("8") + end),
    ]

    async def question(client: Client) -> list[str]:
        return [event.id async for event in client.events(after="0")]

    assert _asked(replicas, question) == ["7", "8"]
    assert heard == [("a", "0"), ("b", "7"), ("c", "7")]


def a_real_service_behind_a_dead_address_is_found(service):
    async def question(client: Client) -> tuple[str, int]:
        async for _ in client.events(after="0", follow=False):
            pass
        return (await client.status()).replica, len((await client.cluster()).replicas)

    async def whole() -> tuple[str, int]:
        async with Client(f"{NOBODY},{service.url}") as client:
            return await question(client)

    assert asyncio.run(whole())[1] == 1
