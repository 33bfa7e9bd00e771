"""The journal's file, damaged: an error that names it, or every entry as it was. Never a crash, never one fewer."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from tests.fuzz.mutation import SEED, outcome
from tests.fuzz.paging import damaged
from tests.golden.folder import HERE, Golden

from tocsin.errors import StateDamaged, TocsinError
from tocsin.journal import codec
from tocsin.journal.contract import Bounds
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model.entry import Entry

FIRST = Golden(HERE / "v1" / "first")


async def _content(path: Path) -> tuple[str, Bounds, list[Entry]]:
    """All that there is in it, read as a replica reads it."""
    journal = SqliteJournal(path)
    try:
        await journal.open()
        bounds = await journal.bounds()
        found: list[Entry] = []
        if bounds.last >= bounds.first:
            async for record in journal.read(bounds.first - 1):
                found.append(codec.decode(record.raw, record.seq))
                if record.seq >= bounds.last:
                    break
        return journal.birth.incarnation, bounds, found
    finally:
        await journal.close()


def _read(path: Path) -> tuple[str, Bounds, list[Entry]]:
    return asyncio.run(_content(path))


def _fresh(path: Path, raw: bytes) -> Path:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(raw)
    return path


def a_damaged_journal_is_named_or_holds_every_entry(tmp_path: Path) -> None:
    path = FIRST.unpack(tmp_path) / "journal.db"
    whole = path.read_bytes()
    birth, bounds, entries = _read(path)
    assert len(entries) == FIRST.expected.seq
    for number, raw in damaged("journal", whole, 500):
        note = f"TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={number}"
        found, refused = outcome(lambda raw=raw: _read(_fresh(path, raw)), TocsinError)
        if found is None:
            assert "journal" in str(refused), note
        else:
            # An incarnation has no checksum of its own: a state that does not know it is refused (see recovery).
            assert len(found[0]) == len(birth), note
            assert found[1:] == (bounds, entries), note


def _change(path: Path, script: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(script)
    db.close()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("DELETE FROM birth", "its birth is not recorded"),
        ("INSERT INTO birth SELECT * FROM birth", "its birth is not recorded"),
        ("UPDATE birth SET incarnation = x'00'", "its birth is not recorded"),
        ("UPDATE birth SET trimmed = 5", "begins at 1, and was trimmed up to 5"),
        ("DELETE FROM entry WHERE seq < 4", "begins at 4, and was trimmed up to 0"),
        ("DROP TABLE entry", "not those of a journal"),
        ("ALTER TABLE entry RENAME TO entry2", "not those of a journal"),
        (
            "CREATE TRIGGER meddle AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
            "not those of a journal",
        ),
    ],
)
def a_journal_that_cannot_be_one_is_refused_by_name(script: str, told: str, tmp_path: Path) -> None:
    path = FIRST.unpack(tmp_path) / "journal.db"
    _change(path, script)
    with pytest.raises(StateDamaged, match=told) as refused:
        _read(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("value", ["'text'", "7", "x''", "zeroblob(9)"])
def an_entry_that_is_not_made_of_bytes_is_named(value: str, tmp_path: Path) -> None:
    path = FIRST.unpack(tmp_path) / "journal.db"
    _change(path, f"UPDATE entry SET raw = {value} WHERE seq = 3")
    with pytest.raises(StateDamaged, match="journal entry 3 "):
        _read(path)


def entries_that_have_changed_places_are_noticed(tmp_path: Path) -> None:
    path = FIRST.unpack(tmp_path) / "journal.db"
    _change(path, "UPDATE entry SET seq = -1 WHERE seq = 3; UPDATE entry SET seq = 3 WHERE seq = 63")
    with pytest.raises(TocsinError):
        _read(path)


def a_journal_whose_tables_have_names_that_are_no_text_is_refused_by_name(tmp_path: Path) -> None:
    """What SQLite says of it is then no text either."""
    path = FIRST.unpack(tmp_path) / "journal.db"
    whole = path.read_bytes()
    assert (whole.count(b"tableentry"), whole.count(b"CREATE TABLE entry")) == (1, 1)
    spoilt = whole.replace(b"tableentry", b"table\xf2\xe4\xffry")
    path.write_bytes(spoilt.replace(b"CREATE TABLE entry", b"CREATE TABLX entry"))
    with pytest.raises(StateDamaged) as refused:
        _read(path)
    assert str(path) in str(refused.value)
