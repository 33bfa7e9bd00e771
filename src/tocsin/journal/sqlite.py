"""The embedded engine: a SQLite file, fsynced at every append.

Calls run on one thread of their own, so that waiting for the disk holds nothing else up.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from tocsin.errors import (
    Conflict,
    Gap,
    JournalFull,
    JournalUnavailable,
    StateDamaged,
    Unknown,
)
from tocsin.journal.contract import Birth, Bounds, Election, Origin, Record, check_end, from_nothing
from tocsin.model.entry import Position

_P = ParamSpec("_P")
_T = TypeVar("_T")
_POLL_S = 0.25
_PAGE = 256
_TABLES = {
    "entry": "CREATE TABLE entry (seq INTEGER PRIMARY KEY, id BLOB NOT NULL, raw BLOB NOT NULL)",
    "birth": "CREATE TABLE birth (incarnation TEXT NOT NULL, trimmed INTEGER NOT NULL,"
    " trimmed_id BLOB NOT NULL, after INTEGER NOT NULL, origin TEXT NOT NULL)",
    "skip": "CREATE TABLE skip (seq INTEGER PRIMARY KEY, id BLOB NOT NULL)",
}
_FULL = (sqlite3.SQLITE_FULL,)
_SIGNS_OF_DAMAGE = (
    0,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
)
"""When nothing but reading was asked for."""
_LOOKED_OVER_BYTES_MAX = 256 << 20
"""Which takes a second or so."""
_RESTORE = "the file is damaged: restore a backup of it, or begin anew from a backup with 'tocsin restore'"


class SqliteJournal:
    """One journal in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._grown = asyncio.Event()
        self._birth = Birth("")

    @property
    def birth(self) -> Birth:
        return self._birth

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        if not await self._call(self._open):
            await self._call(self._create, await origin())

    async def append(self, id: bytes, raw: bytes, after: Position, election: Election | None = None) -> None:
        """Nobody else can lead: the lock on the data directory stands for the lease, and there is no presence."""
        await self._call(self._append, id, raw, after)
        self._grown.set()

    async def read(self, after: int, id: bytes | None = None) -> AsyncIterator[Record]:
        while True:
            self._grown.clear()
            page = await self._call(self._page, after, id)
            for record in page:
                if record.seq != after + 1:
                    raise Gap(f"journal entry {after + 1} is missing, the next one is {record.seq}")
                after, id = record.seq, record.id
                yield record
            if not page:
                await self._wait_for_more()

    async def get(self, seq: int) -> Record | None:
        return await self._call(self._get, seq)

    async def trim(self, upto: int) -> None:
        await self._call(self._trim, upto)

    async def bounds(self) -> Bounds:
        return await self._call(self._bounds)

    async def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        await self._call(self._replace_last, last, id, raw)

    async def close(self) -> None:
        if hasattr(self, "_db"):
            await self._call(self._db.close)
        self._thread.shutdown(wait=True)

    async def _call(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        def translated() -> _T:
            try:
                return work(*args, **kwargs)
            except (sqlite3.Error, UnicodeDecodeError) as wrong:
                raise _unreadable(self._path, wrong) from wrong

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated)

    async def _wait_for_more(self) -> None:
        """Appends of this process wake us; those of another process are found by looking."""
        try:
            async with asyncio.timeout(_POLL_S):
                await self._grown.wait()
        except TimeoutError:
            return

    # On the journal's own thread

    def _open(self) -> bool:
        """True: it is there already."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        wal = self._path.with_name(self._path.name + "-wal")
        if wal.exists() and not self._path.exists():
            # SQLite would take the file of another journal for a leftover, and remove it with the entries in it.
            raise _damaged(self._path, f"it is gone, and {wal.name} is there: put it back")
        # Payloads are nobody else's business; SQLite's other files follow this one.
        self._path.touch(mode=0o600)
        db = self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        self._look_over()
        return self._is_born()

    def _look_over(self) -> None:
        """Before anything is written. Entries have checksums; that none is missing is to be seen in the shape of the
        file, and nowhere else."""
        with _transaction(self._db):
            found = dict(self._db.execute("SELECT name, sql FROM sqlite_master").fetchall())
            if not found:
                for table in _TABLES.values():
                    self._db.execute(table)
            elif found != _TABLES:
                raise _damaged(self._path, "its tables are not those of a journal")
        if self._path.stat().st_size > _LOOKED_OVER_BYTES_MAX:
            return
        (wrong,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if wrong != "ok":
            raise _damaged(self._path, " ".join(wrong.split()))

    def _is_born(self) -> bool:
        found = self._db.execute(
            "SELECT incarnation, after, origin, trimmed, trimmed_id FROM birth"
        ).fetchall()
        (first,) = self._db.execute("SELECT min(seq) FROM entry").fetchone()
        if not found and first is None:
            return False
        if len(found) != 1 or [type(each) for each in found[0]] != [str, int, str, int, bytes]:
            raise _damaged(self._path, "its birth is not recorded")
        *birth, trimmed, _ = found[0]
        if first is not None and first != trimmed + 1:
            raise _damaged(self._path, f"it begins at {first}, and was trimmed up to {trimmed}")
        self._birth = Birth(*birth)
        return True

    def _create(self, origin: Origin) -> None:
        birth = Birth(uuid.uuid4().hex, origin.after, origin.incarnation)
        row = (birth.incarnation, *birth.start, birth.after, birth.origin)
        try:
            self._db.execute(
                "INSERT INTO birth SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM birth)", row
            )
        except sqlite3.Error as wrong:
            raise _translated(wrong, f"the journal {self._path} cannot be created") from wrong
        self._is_born()

    def _append(self, id: bytes, raw: bytes, after: Position) -> None:
        try:
            with _transaction(self._db):
                if after != (end := self._end()):
                    raise Conflict(f"the journal is at {end}, not at {after}")
                self._db.execute("INSERT INTO entry VALUES (?, ?, ?)", (after.seq + 1, id, raw))
        except sqlite3.Error as wrong:
            raise _translated(wrong, "the entry could not be written") from wrong

    def _replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        with _transaction(self._db):
            end = self._end()
            if end == (last.seq, id):
                return
            if end != last or self._get(last.seq) is None:
                raise Conflict(f"the journal is at {end}, not at {last}")
            self._db.execute("INSERT OR REPLACE INTO skip VALUES (?, ?)", last)
            self._db.execute("UPDATE entry SET id = ?, raw = ? WHERE seq = ?", (id, raw, last.seq))

    def _page(self, after: int, id: bytes | None) -> list[Record]:
        trimmed = self._db.execute("SELECT trimmed FROM birth").fetchone()[0]
        if after < trimmed:
            raise Gap(f"journal entries up to {trimmed} are no longer kept, {after + 1} was asked for")
        found = self._db.execute(
            "SELECT seq, id, raw FROM entry WHERE seq > ? ORDER BY seq LIMIT ?", (after, _PAGE)
        )
        records = [_record(*row) for row in found]
        if not records:
            check_end(self._end(), after, id)
        return records

    def _get(self, seq: int) -> Record | None:
        found = self._db.execute("SELECT seq, id, raw FROM entry WHERE seq = ?", (seq,)).fetchone()
        return None if found is None else _record(*found)

    def _trim(self, upto: int) -> None:
        """In one transaction with the mark, so that an empty journal still knows where it stands."""
        try:
            with _transaction(self._db):
                self._db.execute(
                    "UPDATE birth SET (trimmed, trimmed_id) = (e.seq, e.id) FROM "
                    "(SELECT seq, id FROM entry WHERE seq <= ? ORDER BY seq DESC LIMIT 1) e",
                    (upto,),
                )
                self._db.execute("DELETE FROM entry WHERE seq <= ?", (upto,))
        except sqlite3.Error as wrong:
            raise _translated(wrong, "the journal could not be trimmed") from wrong

    def _bounds(self) -> Bounds:
        trimmed = self._db.execute("SELECT trimmed FROM birth").fetchone()[0]
        return Bounds(trimmed + 1, *self._end())

    def _end(self) -> Position:
        return Position(
            *self._db.execute(
                "SELECT * FROM (SELECT seq, id FROM entry ORDER BY seq DESC LIMIT 1) "
                "UNION ALL SELECT trimmed, trimmed_id FROM birth LIMIT 1"
            ).fetchone()
        )


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _record(seq: int, id: object, raw: object) -> Record:
    if not isinstance(id, bytes) or not isinstance(raw, bytes):
        raise StateDamaged(f"journal entry {seq} is damaged: it is not made of bytes")
    return Record(seq, id, raw)


def _damaged(path: Path, what: str) -> StateDamaged:
    return StateDamaged(f"the journal {path} is damaged: {what}", hint=_RESTORE)


def _unreadable(path: Path, wrong: Exception) -> Exception:
    """Nothing was to be written, so there is nothing to be uncertain about: it cannot be reached, or it is damaged."""
    if _code(wrong) in _SIGNS_OF_DAMAGE:
        return _damaged(path, str(wrong))
    return JournalUnavailable(f"the journal {path} cannot be read: {wrong}")


def _code(wrong: Exception) -> int:
    """0: it was Python that could not make sense of what it got."""
    code: int = getattr(wrong, "sqlite_errorcode", 0)
    return code & 0xFF


def _translated(wrong: sqlite3.Error, what: str) -> Exception:
    """SQLite's complaint as one of ours. What is not certain to have failed is unknown."""
    code = _code(wrong)
    if code in _FULL:
        return JournalFull(f"{what}: no room on the disk", hint="free some: it goes on by itself")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY):
        return JournalUnavailable(f"{what}: {wrong}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalUnavailable(f"{what}: {wrong}", hint=_RESTORE)
    return Unknown(f"{what}: {wrong}")
