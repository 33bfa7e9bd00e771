"""The suite that every journal engine passes.

Subclass ``JournalConformance`` and say how to make one::

    class MyConformance(JournalConformance):
        async def make(self, folder):            # a new handle on the same journal each time
            return MyJournal(folder)

    @pytest.mark.parametrize("claim", MyConformance.claims())
    def my_journal_keeps_the_contract(claim, tmp_path):
        MyConformance().check(claim, tmp_path)

Each claim is a coroutine. Parametrize a test over ``claims()`` and ``check`` each: it gets a fresh journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tocsin.errors import Conflict, Gap
from tocsin.journal.contract import Bounds, Journal, Record, settle

_PATIENCE_S = 10


class JournalConformance(ABC):
    """What ``journal.contract`` promises, as claims."""

    @abstractmethod
    async def make(self, folder: Path) -> Journal:
        """A handle on the journal of this folder. Called again, it is another handle on the same journal."""

    @classmethod
    def claims(cls) -> list[str]:
        """The names of all claims."""
        return [
            name for name, _ in inspect.getmembers(cls, inspect.iscoroutinefunction) if "_" in name.strip("_")
        ]

    def check(self, claim: str, folder: Path) -> None:
        """Prove one claim on a fresh journal."""

        async def prove() -> None:
            journal = await self.make(folder)
            await journal.open()
            try:
                method: Callable[[Journal, Path], Awaitable[None]] = getattr(self, claim)
                await asyncio.wait_for(method(journal, folder), 60)
            finally:
                await journal.close()

        asyncio.run(prove())

    async def an_empty_journal_has_no_entries(self, journal: Journal, folder: Path) -> None:
        assert await journal.bounds() == Bounds(1, 0)
        assert await journal.get(1) is None

    async def what_was_appended_can_be_read_in_order(self, journal: Journal, folder: Path) -> None:
        records = [await _append(journal, after) for after in range(20)]
        assert await _read(journal, 0, 20) == records
        assert await _read(journal, 7, 13) == records[7:]
        assert await journal.bounds() == Bounds(1, 20)

    async def an_append_at_the_wrong_place_is_a_conflict(self, journal: Journal, folder: Path) -> None:
        kept = await _append(journal, 0)
        for after in (0, 5):
            try:
                await journal.append(os.urandom(16), b"other", after)
            except Conflict:
                continue
            raise AssertionError(f"an append after {after} was accepted")
        assert await _read(journal, 0, 1) == [kept]

    async def of_two_writers_exactly_one_gets_the_place(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other:
            for after in range(10):
                offers = [handle.append(os.urandom(16), b"x", after) for handle in (journal, other)]
                answers = await asyncio.gather(*offers, return_exceptions=True)
                assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "NoneType"]

    async def what_was_acknowledged_is_there_for_the_next_handle(
        self, journal: Journal, folder: Path
    ) -> None:
        records = [await _append(journal, after) for after in range(5)]
        async with self._another(folder) as other:
            assert await _read(other, 0, 5) == records

    async def a_reader_is_told_of_entries_to_come(self, journal: Journal, folder: Path) -> None:
        reading = asyncio.create_task(_read(journal, 0, 3))
        records = [await _append(journal, after) for after in range(3)]
        assert await asyncio.wait_for(reading, _PATIENCE_S) == records

    async def a_reader_is_told_of_another_handles_entries(self, journal: Journal, folder: Path) -> None:
        reading = asyncio.create_task(_read(journal, 0, 2))
        async with self._another(folder) as other:
            records = [await _append(other, after) for after in range(2)]
            assert await asyncio.wait_for(reading, _PATIENCE_S) == records

    async def trimmed_entries_are_gone_and_the_numbers_go_on(self, journal: Journal, folder: Path) -> None:
        for after in range(10):
            await _append(journal, after)
        await journal.trim(10)
        assert await journal.bounds() == Bounds(11, 10)
        await _append(journal, 10)
        assert await journal.bounds() == Bounds(11, 11)

    async def trimming_survives_a_new_handle(self, journal: Journal, folder: Path) -> None:
        for after in range(4):
            await _append(journal, after)
        await journal.trim(4)
        async with self._another(folder) as other:
            assert await other.bounds() == Bounds(5, 4)

    async def reading_what_was_trimmed_is_a_gap(self, journal: Journal, folder: Path) -> None:
        for after in range(6):
            await _append(journal, after)
        await journal.trim(3)
        try:
            await _read(journal, 1, 1)
        except Gap:
            return
        raise AssertionError("a reader was not told that entries are missing")

    async def trimming_never_takes_what_is_not_there(self, journal: Journal, folder: Path) -> None:
        await _append(journal, 0)
        await journal.trim(99)
        assert await journal.bounds() == Bounds(2, 1)

    async def the_incarnation_is_given_once(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other:
            assert journal.birth.incarnation
            assert other.birth.incarnation == journal.birth.incarnation

    async def a_lost_answer_whose_entry_landed_is_settled_as_landed(
        self, journal: Journal, folder: Path
    ) -> None:
        record = await _append(journal, 0)
        await settle(journal, record.id, record.raw, 0)
        assert await journal.bounds() == Bounds(1, 1)

    async def a_lost_answer_whose_entry_did_not_land_is_offered_again(
        self, journal: Journal, folder: Path
    ) -> None:
        await settle(journal, b"i" * 16, b"late", 0)
        assert await _read(journal, 0, 1) == [Record(1, b"i" * 16, b"late")]

    async def a_lost_answer_whose_place_was_taken_is_a_conflict(self, journal: Journal, folder: Path) -> None:
        await _append(journal, 0)
        try:
            await settle(journal, b"i" * 16, b"late", 0)
        except Conflict:
            return
        raise AssertionError("the entry of another was taken for ours")

    async def entries_up_to_a_mebibyte_are_kept_whole(self, journal: Journal, folder: Path) -> None:
        raw = os.urandom((1 << 20) - 1024)
        await journal.append(b"i" * 16, raw, 0)
        found = await journal.get(1)
        assert found is not None
        assert found.raw == raw

    async def thousands_of_entries_are_caught_up_with(self, journal: Journal, folder: Path) -> None:
        for after in range(2_000):
            await journal.append(after.to_bytes(16, "big"), b"x" * 100, after)
        records = await _read(journal, 0, 2_000)
        assert [record.seq for record in records] == list(range(1, 2_001))

    @contextlib.asynccontextmanager
    async def _another(self, folder: Path) -> AsyncIterator[Journal]:
        other = await self.make(folder)
        await other.open()
        try:
            yield other
        finally:
            await other.close()


async def _append(journal: Journal, after: int) -> Record:
    record = Record(after + 1, os.urandom(16), os.urandom(50))
    await journal.append(record.id, record.raw, after)
    return record


async def _read(journal: Journal, after: int, count: int) -> list[Record]:
    """So many records, or what came before the patience ended."""
    found: list[Record] = []
    records = journal.read(after)
    async with asyncio.timeout(_PATIENCE_S):
        async for record in records:
            found.append(record)
            if len(found) == count:
                break
    await records.aclose()  # type: ignore[attr-defined]  # why: engines write it as a generator
    return found
