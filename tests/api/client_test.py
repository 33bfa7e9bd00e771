"""The client against a real service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tocsin.client import Client
from tocsin.errors import AlreadyExists, InvalidInput, NotFound, TocsinError, Unreachable, VersionConflict
from tocsin.model.schedule import convert

T = TypeVar("T")
NOBODY = "http://127.0.0.1:1"


def _with(urls: Any, question: Callable[[Client], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with Client(urls) as client:
            return await question(client)

    return asyncio.run(whole())


def a_schedule_goes_there_and_comes_back(service, sample):
    schedule = convert(sample("client/one", payload={"a": [1, None]}))

    async def question(client: Client) -> None:
        view, is_new = await client.create(schedule)
        assert (view.id, view.payload, is_new) == ("client/one", {"a": [1, None]}, True)
        assert (await client.create(schedule))[1] is False
        assert await client.schedule("client/one") == view
        changed = convert(sample("client/one", description="d"))
        assert (await client.put(changed, expect=1)).version == 2
        assert (await client.pause("client/one", "n")).note == "n"
        assert (await client.resume("client/one")).enabled
        assert len((await client.upcoming("client/one", count=3)).items) == 3
        assert (await client.status()).schedules >= 1
        await client.delete("client/one", expect=4)

    _with(service.url, question)


def refusals_are_raised_as_what_they_are(service, sample):
    service.create("client/taken")

    async def question(client: Client) -> None:
        with pytest.raises(AlreadyExists):
            await client.create(convert(sample("client/taken", description="d")))
        with pytest.raises(VersionConflict):
            await client.put(convert(sample("client/taken", description="d")), expect=9)
        with pytest.raises(NotFound) as missing:
            await client.schedule("client/nobody")
        assert "tocsin list" in missing.value.hint
        with pytest.raises(InvalidInput) as invalid:
            await client.launch_page(states=["happy"])
        assert (invalid.value.field, invalid.value.value) == ("state", "happy")

    _with(service.url, question)


def iterating_follows_the_cursor(service, monkeypatch):
    monkeypatch.setattr("tocsin.client.schedules.PAGE", 2)
    monkeypatch.setattr("tocsin.client.launches.PAGE", 2)
    ids = [f"iterate/{number}" for number in range(5)]
    for id in ids:
        service.create(id)

    async def question(client: Client) -> tuple[list[str], int]:
        found = [view.id async for view in client.schedules(prefix="iterate/")]
        for id in ids:
            await client.run(id)
        return found, len([view async for view in client.launches() if view.schedule.startswith("iterate/")])

    assert _with(service.url, question) == (ids, 5)


def an_address_that_nobody_listens_on_is_passed_over(service):
    status = _with([NOBODY, service.url], lambda client: client.status())
    assert status.replica


def several_questions_at_once_all_find_the_next_address(service):
    async def question(client: Client) -> int:
        return len(await asyncio.gather(*(client.status() for _ in range(4))))

    assert _with([NOBODY, service.url], question) == 4


def nobody_at_any_address_is_unreachable():
    with pytest.raises(Unreachable) as unreachable:
        _with(f"{NOBODY},{NOBODY}", lambda client: client.status())
    assert "tocsin serve" in unreachable.value.hint


def an_address_that_is_none_is_refused_at_once():
    for url in ("localhost:8400", "ftp://localhost", "http://", "http://[::1"):
        with pytest.raises(InvalidInput):
            Client(url)


def the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("TOCSIN_URL", "http://localhost:1234/, http://[::1]:9")
    assert Client().urls == ["http://localhost:1234", "http://[::1]:9"]
    monkeypatch.delenv("TOCSIN_URL")
    assert Client().urls == ["http://127.0.0.1:8400"]


def a_client_that_was_not_opened_says_how():
    with pytest.raises(TocsinError, match="async with"):
        asyncio.run(Client(NOBODY).status())
