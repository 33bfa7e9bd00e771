"""The embedded engine passes the suite, and a few claims of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tocsin.errors import JournalFull, StateDamaged
from tocsin.journal import codec
from tocsin.journal.contract import Journal
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.testing.journals import JournalConformance


class _Sqlite(JournalConformance):
    async def make(self, folder: Path) -> Journal:
        return SqliteJournal(folder / "journal.db")

    def file_bytes(self, folder: Path) -> int:
        return (folder / "journal.db").stat().st_size


@pytest.mark.parametrize("claim", _Sqlite.claims())
def the_sqlite_journal_keeps_the_contract(claim: str, tmp_path: Path) -> None:
    _Sqlite().check(claim, tmp_path)


def what_was_acknowledged_survives_a_sigkill(tmp_path: Path) -> None:
    """A writer prints each number after it was acknowledged and is killed in the middle of it."""
    script = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from tocsin.journal.sqlite import SqliteJournal

        async def main():
            journal = SqliteJournal(Path(sys.argv[1]))
            await journal.open()
            for after in range(100_000):
                await journal.append(after.to_bytes(16, "big"), b"x" * 200, (await journal.bounds()).end)
                print(after + 1, flush=True)

        asyncio.run(main())
        """
    )
    path = tmp_path / "journal.db"
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged == 200:
            writer.kill()
    writer.wait()

    async def last() -> int:
        journal = SqliteJournal(path)
        await journal.open()
        bounds = await journal.bounds()
        await journal.close()
        return bounds.last

    assert acknowledged <= asyncio.run(last()) <= acknowledged + 1


async def _append_many(journal: SqliteJournal) -> None:
    for after in range(100):
        await journal.append(after.to_bytes(16, "big"), b"x" * 4000, (await journal.bounds()).end)


def a_full_file_system_is_told_apart_from_a_lost_answer(tmp_path: Path) -> None:
    async def fill() -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        await journal.open()
        journal._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(JournalFull):
            await _append_many(journal)
        journal._db.execute("PRAGMA max_page_count = 10000")
        await journal.append(b"y" * 16, b"there is room again", (await journal.bounds()).end)
        await journal.close()

    asyncio.run(fill())


def the_file_does_not_grow_for_ever_when_it_is_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def use() -> None:
        journal = SqliteJournal(path)
        await journal.open()
        for after in range(3_000):
            await journal.append(after.to_bytes(16, "big"), b"x" * 2_000, (await journal.bounds()).end)
            if after % 100 == 99:
                await journal.trim(after)
        await journal.close()

    asyncio.run(use())
    assert path.stat().st_size < 1_500_000


def a_damaged_entry_is_named_and_never_half_read() -> None:
    entry = Entry(b"i" * 16, b"h" * 16, 1, 1, [c.TookOffice(1, "a"), c.Checkpoint()])
    raw = codec.encode(entry)
    assert codec.decode(raw, 1) == entry
    for position in range(len(raw)):
        damaged = raw[:position] + bytes([raw[position] ^ 0x41]) + raw[position + 1 :]
        with pytest.raises(StateDamaged, match="journal entry 7"):
            codec.decode(damaged, 7)
    with pytest.raises(StateDamaged):
        codec.decode(raw[:3], 7)


def a_large_entry_is_compressed_and_comes_back_the_same() -> None:
    starts = c.LaunchesStarted(
        list(range(5000)), [1] * 5000, [1_700_000_000] * 5000, [None] * 5000, None, None
    )
    entry = Entry(b"i" * 16, b"h" * 16, 1, 1, [starts])
    raw = codec.encode(entry)
    assert len(raw) < 40_000
    assert codec.decode(raw, 1) == entry


def the_journal_is_written_with_full_durability(tmp_path: Path) -> None:
    async def pragma() -> int:
        journal = SqliteJournal(tmp_path / "journal.db")
        await journal.open()
        level: int = journal._db.execute("PRAGMA synchronous").fetchone()[0]
        await journal.close()
        return level

    assert asyncio.run(pragma()) == 2
    assert sqlite3.connect(tmp_path / "journal.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def a_log_without_its_journal_is_left_alone(tmp_path: Path) -> None:
    """SQLite would make a new journal and remove the log, with every entry that was acknowledged in it."""
    log = tmp_path / "journal.db-wal"
    log.write_bytes(b"entries")
    with pytest.raises(StateDamaged, match="-wal"):
        asyncio.run(SqliteJournal(tmp_path / "journal.db").open())
    assert log.read_bytes() == b"entries"
    assert [path.name for path in tmp_path.iterdir()] == [log.name]
