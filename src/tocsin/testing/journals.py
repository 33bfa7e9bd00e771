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
from typing import Any

from tocsin.errors import ChainBroken, Conflict, Gap, PlaceTrimmed
from tocsin.journal.codec import ENTRY_BYTES_MAX
from tocsin.journal.contract import Journal, Origin, Record, settle
from tocsin.model.entry import Position

_PATIENCE_S = 10
_SOON_S = 1


class JournalConformance(ABC):
    """What ``journal.contract`` promises, as claims."""

    @abstractmethod
    async def make(self, folder: Path) -> Journal:
        """A handle on the journal of this folder. Called again, it is another handle on the same journal."""

    def file_bytes(self, folder: Path) -> int:
        """How much room the engine takes on its disk; 0 where that cannot be seen."""
        return 0

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
        assert await _held(journal) == (1, 0)
        assert await journal.get(1) is None

    async def what_was_appended_can_be_read_in_order(self, journal: Journal, folder: Path) -> None:
        records = [await _append(journal, after) for after in range(20)]
        assert await _read(journal, 0, 20) == records
        assert await _read(journal, 7, 13) == records[7:]
        assert await _held(journal) == (1, 20)

    async def an_append_at_the_wrong_place_is_a_conflict(self, journal: Journal, folder: Path) -> None:
        kept = await _append(journal, 0)
        for after in (journal.birth.start, Position(5, kept.id), Position(5, b"")):
            await _conflicts(journal, after)
        assert await _read(journal, 0, 1) == [kept]

    async def an_append_behind_an_entry_with_another_id_is_a_conflict(
        self, journal: Journal, folder: Path
    ) -> None:
        """Also where the number is right: that entry belongs to another history."""
        await _conflicts(journal, Position(0, b"another birth"))
        kept = [await _append(journal, after) for after in range(2)]
        for id in (os.urandom(16), kept[0].id, kept[1].id[:-1], kept[1].id + b"0", b""):
            await _conflicts(journal, Position(2, id))
        assert await _read(journal, 0, 2) == kept
        assert await _held(journal) == (1, 2)

    async def the_last_id_is_known_when_its_entry_was_trimmed(self, journal: Journal, folder: Path) -> None:
        start = (await journal.bounds()).end
        assert start == journal.birth.start
        kept = [await _append(journal, after) for after in range(3)]
        await journal.trim(3)
        async with self._another(folder) as other:
            assert (await other.bounds()).end == (3, kept[2].id)
            await _conflicts(other, Position(3, kept[1].id))
            await _append(other, 3)

    async def a_reader_at_the_end_of_another_history_is_told(self, journal: Journal, folder: Path) -> None:
        """The journal ends with another entry than the reader knows, or before it. Where it goes on, the next entry
        names the one before it."""
        kept = [await _append(journal, after) for after in range(2)]
        for after, id in ((2, os.urandom(16)), (3, kept[1].id), (3, None)):
            await _is_told(journal, after, id, ChainBroken)
        await journal.trim(2)
        await _is_told(journal, 2, os.urandom(16), ChainBroken)
        third = asyncio.ensure_future(_read(journal, 2, 1, kept[1].id))
        assert await _append(journal, 2) == (await third)[0]

    async def of_two_writers_exactly_one_gets_the_place(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other:
            for _ in range(10):
                after = (await other.bounds()).end
                offers = [handle.append(os.urandom(16), b"x", after) for handle in (journal, other)]
                answers = await asyncio.gather(*offers, return_exceptions=True)
                assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "NoneType"]

    async def the_last_record_is_replaced_for_every_handle(self, journal: Journal, folder: Path) -> None:
        first, last = [await _append(journal, after) for after in range(2)]
        new = Record(2, os.urandom(16), b"another")
        for _ in range(2):  # it may be repeated
            await journal.replace_last(Position(2, last.id), new.id, new.raw)
        async with self._another(folder) as other:
            assert await _read(other, 0, 2) == [first, new]
            assert (await other.bounds()).end == (2, new.id)
            await _append(other, 2)

    async def whoever_knows_the_replaced_record_neither_appends_nor_reads_on(
        self, journal: Journal, folder: Path
    ) -> None:
        last = Position(1, (await _append(journal, 0)).id)
        await journal.replace_last(last, os.urandom(16), b"another")
        await _conflicts(journal, last)
        await _is_told(journal, *last, ChainBroken)

    async def only_the_last_record_is_replaced(self, journal: Journal, folder: Path) -> None:
        kept = [await _append(journal, after) for after in range(2)]
        for place in (Position(1, kept[0].id), Position(2, kept[0].id), Position(3, kept[1].id)):
            await _is_not_replaced(journal, place)
        assert await _read(journal, 0, 2) == kept
        await journal.trim(2)
        await _is_not_replaced(journal, Position(2, kept[1].id))

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
        assert await _held(journal) == (11, 10)
        await _append(journal, 10)
        assert await _held(journal) == (11, 11)

    async def trimming_survives_a_new_handle(self, journal: Journal, folder: Path) -> None:
        for after in range(4):
            await _append(journal, after)
        await journal.trim(4)
        async with self._another(folder) as other:
            assert await _held(other) == (5, 4)

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
        assert await _held(journal) == (2, 1)

    async def the_incarnation_is_given_once(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other:
            assert journal.birth.incarnation
            assert other.birth.incarnation == journal.birth.incarnation

    async def a_lost_answer_whose_entry_landed_is_settled_as_landed(
        self, journal: Journal, folder: Path
    ) -> None:
        record = await _append(journal, 0)
        await settle(journal, record.id, record.raw, journal.birth.start)
        assert await _held(journal) == (1, 1)

    async def a_lost_answer_whose_entry_did_not_land_is_offered_again(
        self, journal: Journal, folder: Path
    ) -> None:
        await settle(journal, b"i" * 16, b"late", journal.birth.start)
        assert await _read(journal, 0, 1) == [Record(1, b"i" * 16, b"late")]

    async def a_lost_answer_whose_place_was_taken_is_a_conflict(self, journal: Journal, folder: Path) -> None:
        await _append(journal, 0)
        try:
            await settle(journal, b"i" * 16, b"late", journal.birth.start)
        except Conflict:
            return
        raise AssertionError("the entry of another was taken for ours")

    async def a_lost_answer_whose_place_was_trimmed_is_not_certain(
        self, journal: Journal, folder: Path
    ) -> None:
        """It may have been ours."""
        await _append(journal, 0)
        await journal.trim(1)
        try:
            await settle(journal, b"i" * 16, b"late", journal.birth.start)
        except PlaceTrimmed:
            return
        raise AssertionError("what nobody can know was taken for certain")

    async def a_lost_answer_of_a_journal_that_went_back_is_not_certain(
        self, journal: Journal, folder: Path
    ) -> None:
        kept = await _append(journal, 0)
        for after in (Position(5, b"j" * 16), Position(1, b"j" * 16)):
            try:
                await settle(journal, b"i" * 16, b"late", after)
            except ChainBroken:
                continue
            raise AssertionError("what nobody can know was taken for certain")
        assert await _read(journal, 0, 1) == [kept]

    async def entries_of_the_largest_size_are_kept_whole(self, journal: Journal, folder: Path) -> None:
        raw = os.urandom(ENTRY_BYTES_MAX + 1024)  # what cannot be compressed grows a little in the codec
        await journal.append(b"i" * 16, raw, journal.birth.start)
        found = await journal.get(1)
        assert found is not None
        assert found.raw == raw

    async def thousands_of_entries_are_caught_up_with(self, journal: Journal, folder: Path) -> None:
        for after in range(2_000):
            await _numbered(journal, after, b"x" * 100)
        records = await _read(journal, 0, 2_000)
        assert [record.seq for record in records] == list(range(1, 2_001))

    async def large_entries_are_caught_up_with(self, journal: Journal, folder: Path) -> None:
        for after in range(30):
            await _numbered(journal, after, bytes([after]) * ENTRY_BYTES_MAX)
        async with self._another(folder) as other:
            records = await _read(other, 0, 30)
        assert [set(record.raw) for record in records] == [{number} for number in range(30)]

    async def two_readers_are_told_the_same(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other:
            readers = [_read(journal, 0, 50), _read(journal, 0, 50), _read(other, 0, 50)]
            reading = asyncio.gather(*readers)
            records = [await _append(journal, after) for after in range(50)]
            assert await reading == [records] * 3

    async def another_handle_is_told_soon(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder) as other, contextlib.aclosing(other.read(0)) as records:  # type: ignore[type-var]  # why: engines write it as a generator
            for after in range(5):
                arriving = asyncio.ensure_future(anext(records))
                await _append(journal, after)
                assert (await asyncio.wait_for(arriving, _SOON_S)).seq == after + 1

    async def a_reader_overtaken_by_trimming_skips_nothing(self, journal: Journal, folder: Path) -> None:
        """It is told of everything it has not seen, or that it cannot be."""
        seen: list[int] = []
        async with contextlib.aclosing(journal.read(0)) as records:  # type: ignore[type-var]  # why: engines write it as a generator
            for after in range(700):
                await _numbered(journal, after, b"x")
            seen.append((await anext(records)).seq)
            await journal.trim(690)
            await _append(journal, 700)
            with contextlib.suppress(Gap):
                async for record in records:
                    seen.append(record.seq)
                    if record.seq == 701:
                        break
        assert seen == list(range(1, len(seen) + 1))

    async def a_reader_goes_on_while_the_journal_is_trimmed_behind_it(
        self, journal: Journal, folder: Path
    ) -> None:
        async with contextlib.aclosing(journal.read(0)) as records:  # type: ignore[type-var]  # why: engines write it as a generator
            for after in range(30):
                await _append(journal, after)
                assert (await anext(records)).seq == after + 1
                await journal.trim(after)

    async def trimming_frees_the_room_that_entries_took(self, journal: Journal, folder: Path) -> None:
        sizes = []
        for after in range(1_500):
            await _numbered(journal, after, os.urandom(4_000))
            if after % 100 == 99:
                await journal.trim(after)
                sizes.append(self.file_bytes(folder))
        assert max(sizes[8:]) <= 2 * max(sizes[:4])

    async def a_birth_remembers_what_the_journal_goes_on_from(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder / "restored", Origin(41, "former")) as restored:
            birth = restored.birth
            assert (birth.after, birth.origin) == (41, "former")
            assert birth.incarnation not in ("", "former", journal.birth.incarnation)
            assert await _held(restored) == (42, 41)
            await _append(restored, 41)
            assert [record.seq for record in await _read(restored, 41, 1)] == [42]
        async with self._another(folder / "restored", Origin(99, "other")) as again:
            assert again.birth == birth
            assert await _held(again) == (42, 42)

    async def what_a_restored_journal_never_held_is_a_gap(self, journal: Journal, folder: Path) -> None:
        async with self._another(folder / "restored", Origin(41, "former")) as restored:
            try:
                await _read(restored, 7, 1)
            except Gap:
                return
            raise AssertionError("a reader waits for entries that will never come")

    async def of_several_that_create_a_journal_one_wins(self, journal: Journal, folder: Path) -> None:
        handles = [await self.make(folder / "contested") for _ in range(5)]
        await asyncio.gather(*(handle.open() for handle in handles))
        assert len({handle.birth for handle in handles}) == 1
        assert await _held(handles[0]) == (1, 0)
        for handle in handles:
            await handle.close()

    async def an_offer_that_lands_late_is_settled_as_landed(self, journal: Journal, folder: Path) -> None:
        """It lands after settling has looked for it and before it is offered again."""
        record = Record(1, b"i" * 16, b"late")
        await settle(_LandsLate(journal, record), record.id, record.raw, journal.birth.start)
        assert await _read(journal, 0, 1) == [record]
        assert await _held(journal) == (1, 1)

    @contextlib.asynccontextmanager
    async def _another(self, folder: Path, origin: Origin | None = None) -> AsyncIterator[Journal]:
        async def given() -> Origin:
            assert origin is not None, "this journal is there already"
            return origin

        other = await self.make(folder)
        await other.open(given)
        try:
            yield other
        finally:
            await other.close()


class _LandsLate:
    """A journal on which somebody else's hand finishes an append, right after it was looked for."""

    def __init__(self, journal: Journal, record: Record) -> None:
        self._journal = journal
        self._record = record

    async def get(self, seq: int) -> Record | None:
        found = await self._journal.get(seq)
        if found is None:
            await self._journal.append(self._record.id, self._record.raw, self._journal.birth.start)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


async def _append(journal: Journal, after: int) -> Record:
    record = Record(after + 1, os.urandom(16), os.urandom(50))
    end = (await journal.bounds()).end
    await journal.append(record.id, record.raw, end._replace(seq=after))
    return record


async def _numbered(journal: Journal, after: int, raw: bytes) -> None:
    """Quickly: the ids of these entries are known without asking."""
    before = Position(after, (after - 1).to_bytes(16, "big")) if after else journal.birth.start
    await journal.append(after.to_bytes(16, "big"), raw, before)


async def _held(journal: Journal) -> tuple[int, int]:
    bounds = await journal.bounds()
    return bounds.first, bounds.last


async def _conflicts(journal: Journal, after: Position) -> None:
    try:
        await journal.append(os.urandom(16), b"other", after)
    except Conflict:
        return
    raise AssertionError(f"an append after {after} was accepted")


async def _is_not_replaced(journal: Journal, place: Position) -> None:
    try:
        await journal.replace_last(place, os.urandom(16), b"another")
    except Conflict:
        return
    raise AssertionError(f"{place} was replaced")


async def _is_told(journal: Journal, after: int, id: bytes | None, wrong: type[Exception]) -> None:
    try:
        found = await _read(journal, after, 1, id)
    except wrong:
        return
    raise AssertionError(f"a reader behind {after} was not told, but given {found}")


async def _read(journal: Journal, after: int, count: int, id: bytes | None = None) -> list[Record]:
    """So many records, or what came before the patience ended."""
    found: list[Record] = []
    records = journal.read(after, id)
    async with asyncio.timeout(_PATIENCE_S):
        async for record in records:
            found.append(record)
            if len(found) == count:
                break
    await records.aclose()  # type: ignore[attr-defined]  # why: engines write it as a generator
    return found
