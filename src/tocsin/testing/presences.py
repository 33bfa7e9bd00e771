"""The suite that every store of presence passes, together with the journal beside which it stores.

Subclass ``PresenceConformance``, say how to make both, and parametrize a test over ``claims()``, as for journals.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tocsin.errors import Conflict, PresenceMoved
from tocsin.journal.contract import Election, Journal, PresenceStore, SeenPresence, settle
from tocsin.model.presence import GROUP, Presence

_PATIENCE_S = 10


class Place:
    """A journal, and two stores of presence beside it."""

    def __init__(self, journal: Journal, store: PresenceStore, other: PresenceStore) -> None:
        self.journal = journal
        self.store = store
        self.other = other

    async def elect(self, after: int, election: Election) -> None:
        end = (await self.journal.bounds()).end
        await self.journal.append(os.urandom(16), b"entry", end._replace(seq=after), election)

    async def seen(self) -> dict[str, SeenPresence]:
        """All that there are."""
        async with self.watching() as changes:
            return {seen.replica: seen for seen in await anext(changes)}

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[list[SeenPresence]]]:
        changes = self.other.watch()
        async with contextlib.aclosing(changes):  # type: ignore[type-var]  # why: engines write it as a generator
            yield changes


class PresenceConformance(ABC):
    """What ``journal.contract`` promises of presence, as claims."""

    @abstractmethod
    async def make(self, folder: Path) -> Place:
        """A new journal, which is not open yet, and stores beside it."""

    @classmethod
    def claims(cls) -> list[str]:
        """The names of all claims."""
        found = inspect.getmembers(cls, inspect.iscoroutinefunction)
        return [name for name, _ in found if "_" in name.strip("_")]

    def check(self, claim: str, folder: Path) -> None:
        """Prove one claim on a fresh journal."""

        async def prove() -> None:
            place = await self.make(folder)
            await place.journal.open()
            try:
                method: Callable[[Place], Awaitable[None]] = getattr(self, claim)
                await asyncio.wait_for(method(place), 60)
            finally:
                for each in (place.store, place.other, place.journal):
                    await each.close()

        asyncio.run(prove())

    async def in_the_beginning_nobody_is_present(self, place: Place) -> None:
        assert await place.seen() == {}

    async def presence_is_stored_as_it_was_put(self, place: Place) -> None:
        await place.elect(0, Election(7))
        given = Presence(3, 1_700_000_000_000, {GROUP: 7}, 12)
        await place.store.put("a", given)
        assert {name: seen.presence for name, seen in (await place.seen()).items()} == {"a": given}

    async def every_write_has_another_version(self, place: Place) -> None:
        versions = []
        for _ in range(3):
            await place.store.put("a", Presence(1, 1))
            versions.append((await place.seen())["a"].version)
        assert len(set(versions)) == 3
        assert 0 not in versions

    async def presence_that_lists_a_term_that_is_over_is_not_stored(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.store.put("a", Presence(1, 1, {GROUP: 1}))
        before = await place.seen()
        await place.elect(1, Election(2, "a", before["a"].version))
        await _conflict(place.store.put("a", Presence(2, 2, {GROUP: 1})))
        assert await place.seen() == before

    async def presence_that_lists_a_term_nobody_has_begun_is_not_stored(self, place: Place) -> None:
        await _conflict(place.store.put("a", Presence(1, 1, {GROUP: 1})))

    async def presence_that_lists_no_group_is_stored_in_any_term(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.store.put("a", Presence(1, 1))
        assert (await place.seen())["a"].presence.terms == {}

    async def an_election_lands_behind_the_presence_that_was_observed(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.store.put("a", Presence(1, 1, {GROUP: 1}))
        await place.elect(1, Election(2, "a", (await place.seen())["a"].version))
        assert (await place.journal.bounds()).last == 2

    async def an_election_fails_if_the_leader_was_heard_since(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.store.put("a", Presence(1, 1, {GROUP: 1}))
        observed = (await place.seen())["a"].version
        await place.store.put("a", Presence(2, 2, {GROUP: 1}))
        await _moved(place.elect(1, Election(2, "a", observed)))
        await _moved(place.elect(1, Election(2, "a", 0)))
        assert (await place.journal.bounds()).last == 1
        await place.store.put("a", Presence(3, 3, {GROUP: 1}))  # the term goes on

    async def an_election_may_compare_that_there_is_no_presence(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.elect(1, Election(2, "a", 0))
        await place.store.put("b", Presence(1, 1, {GROUP: 2}))

    async def an_election_at_the_wrong_place_is_a_conflict_whatever_the_presence(self, place: Place) -> None:
        await place.elect(0, Election(1))
        try:
            await place.elect(0, Election(2, "a", 0))
        except PresenceMoved:
            raise AssertionError("the presence has not moved") from None
        except Conflict:
            return
        raise AssertionError("two entries at one place")

    async def a_settled_election_compares_the_presence_as_well(self, place: Place) -> None:
        await place.elect(0, Election(1))
        await place.store.put("a", Presence(1, 1, {GROUP: 1}))
        observed = (await place.seen())["a"].version
        await place.store.put("a", Presence(2, 2, {GROUP: 1}))
        end = (await place.journal.bounds()).end
        await _conflict(settle(place.journal, b"i" * 16, b"entry", end, Election(2, "a", observed)))
        assert (await place.journal.bounds()).last == 1

    async def a_watch_tells_all_and_then_each_change(self, place: Place) -> None:
        await place.store.put("a", Presence(1, 1))
        async with place.watching() as changes:
            assert [seen.replica for seen in await anext(changes)] == ["a"]
            for counter in (1, 2, 3):
                await place.store.put("b", Presence(counter, 1))
                seen = await _next(changes)
                assert [(each.replica, each.presence.counter) for each in seen] == [("b", counter)]


async def _next(changes: AsyncIterator[list[SeenPresence]]) -> list[SeenPresence]:
    """The next list that tells something."""
    async with asyncio.timeout(_PATIENCE_S):
        while not (found := await anext(changes)):
            pass
    return found


async def _conflict(work: Awaitable[None]) -> None:
    try:
        await work
    except Conflict:
        return
    raise AssertionError("it was written")


async def _moved(work: Awaitable[None]) -> None:
    try:
        await work
    except PresenceMoved:
        return
    raise AssertionError("it was written")
