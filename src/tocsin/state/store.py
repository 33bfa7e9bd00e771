"""The open state file: a connection for the writer, and one each for readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

from tocsin.errors import StateDamaged
from tocsin.model.entry import Position
from tocsin.model.event import MARK_CHARACTERS
from tocsin.state import schema
from tocsin.state.tables import SCHEMA_VERSION, TABLES

UNREADABLE = (sqlite3.DatabaseError, msgspec.ValidationError, UnicodeDecodeError)
"""How it shows that a file cannot be read. What SQLite says of a damaged schema may be no text at all."""


CLOCKS_APART_MS = 30_000
"""The clocks of two machines differ by no more than this, as long as both are believed."""
DOUBT_OPEN_MS = 2**62
"""Until when launches are in doubt, as long as the wall clock is not believed."""


class Meta(msgspec.Struct):
    """The few facts that are not rows. Kept in memory by the writer, saved with every entry."""

    incarnation: str = ""
    origin: str = ""
    origin_seq: int = 0
    """The journal that was lost, and the entry of it that this one goes on from."""
    seq: int = 0
    term: int = 0
    leader: str = ""
    time_ms: int = 0
    present_since_ms: int = 0
    absent_since_ms: int = 0
    undecided_since_ms: int = 0
    """Since when nothing that depends on time is decided, because the clock of who leads is not believed. 0: it is."""
    doubtful_until_ms: int = 0
    """The journal was lost and restored: what was planned before this moment may have been launched. If the clock is
    put back, this moment is put back as well."""
    lost_until_ms: int = 0
    """The latest such moment that there has been. It stays where it is: the clock may be put forward again."""
    lost_since_ms: int = 0
    """The last entry that was not lost, by its own time, as long as it is not known what time it is now."""
    lost_from_ms: int = 0
    """The last entry before the latest loss, by its own time."""
    lost_due_ms: int = 0
    """The earliest instant that was still to be decided then: it may have been caught up in the lost time."""
    lost_ahead_from_ms: int = 0
    lost_ahead_until_ms: int = 0
    """The record was lost while the clock was ahead: what is planned in this time may have been launched as well."""
    ahead_until_ms: int = 0
    """The clock was ahead, up to this moment, and was put back: some names up to there have been launched."""
    is_due_ahead: int = 0
    """1: next instants may have been computed under that clock, and nobody has repaired them since."""
    proven_upto_s: int = 1 << 60
    """From this second on a person set the clock forward, or the machine was off and nobody counted for how long: what
    was launched since may be of a future that does not happen, and nothing is deleted to make room for it."""
    proven_again_ms: int = 0
    """By then somebody would have noticed."""
    epoch: int = 0
    """The newest: the time leapt, or was put back, so many times."""
    next_sid: int = 1
    next_lid: int = 1
    next_rid: int = 1
    schedules: int = 0
    enabled: int = 0
    mark: str = ""
    """The ids of events end with it. There is another one after each loss, because numbers of lost entries are given a
    second time."""
    former_mark: str = ""
    common_seq: int = 0
    """Before the last loss; and the last entry that was not lost."""
    tokens_seq: int = 0
    """The entry that last changed a token: whoever remembers tokens looks again when it moves."""
    counted_lid: int = 0
    """Launches up to this number are counted in ``kept``."""
    launches_kept: int = 0
    """So many of them there are."""
    kept_each: int = 0
    """No schedule has more launches than this, apart from open ones and those that are not counted yet. 0: unknown.
    Negative: nor from those since ``proven_upto_s``."""
    unrecorded_upto_s: int = -1
    """Up to this instant, launches of ids of which nothing is kept any more may have been deleted."""
    digest: bytes = b""
    last_id: bytes = b""
    """Of the entry at ``seq``: the next one must name it."""

    @property
    def position(self) -> Position:
        return Position(self.seq, self.last_id)


class Store:
    """One state file. ``db`` is the writer's connection; ``reader()`` opens another for reading only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.db = _connect(path)
            try:
                self._prepare()
                self.meta = load_meta(self.db)
            except BaseException:
                self.db.close()
                raise
        except UNREADABLE as wrong:
            raise StateDamaged(f"the state file {path} cannot be read: {wrong}") from wrong

    def _prepare(self) -> None:
        is_new = not self.db.execute("PRAGMA schema_version").fetchone()[0]
        if is_new:
            self.db.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
            save_meta(self.db, Meta())
        schema.check(self.db, self.path)

    def reader(self) -> sqlite3.Connection:
        """A connection that sees committed entries only and never blocks the writer."""
        db = sqlite3.connect(
            f"file:{self.path}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
        )
        schema.distrust(db)
        db.execute("PRAGMA query_only = ON")
        db.execute(
            "PRAGMA mmap_size = 33554432"
        )  # there are several of them, and each counts as memory of ours
        return db

    def transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """All of it or nothing of it."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            work(self.db)
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def adopt(self, incarnation: str, start: Position) -> None:
        """A new state, or the one that a journal was born to go on from, becomes that journal's own."""
        meta = self.meta
        if meta.incarnation not in ("", incarnation):
            meta.origin, meta.origin_seq = meta.incarnation, start.seq
        meta.incarnation, meta.last_id = incarnation, start.id
        meta.mark = meta.mark or incarnation[:MARK_CHARACTERS]
        self.transact(lambda db: save_meta(db, meta))

    def become(self, path: Path) -> None:
        """Take over the content of another state file, all of it or nothing of it. Who reads goes on reading. Raises
        ``StateDamaged`` if it is none."""
        source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            try:
                schema.distrust(source)
                schema.check(source, path)
                meta = load_meta(source)
            except UNREADABLE as wrong:
                raise StateDamaged(f"the state file {path} cannot be read: {wrong}") from wrong
            source.backup(self.db)
        finally:
            source.close()
        self.meta = meta

    def close(self) -> None:
        self.db.close()


def is_damage(error: BaseException | None) -> bool:
    """Does this error tell of a damaged file? Waiting, or trying again, would not help."""
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, UnicodeDecodeError)
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "Could not decode to UTF-8" in str(error)  # Python's own complaint about a text that is none
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def load_meta(db: sqlite3.Connection) -> Meta:
    """The facts as the last applied entry left them."""
    return msgspec.convert(dict(db.execute("SELECT key, value FROM meta")), Meta)


def save_meta(db: sqlite3.Connection, meta: Meta) -> None:
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", msgspec.structs.asdict(meta).items())


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # payloads are nobody else's business; SQLite's other files follow this one
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    schema.distrust(db)
    db.execute("PRAGMA journal_mode = WAL")
    # The journal is the truth: losing the newest entries of this file in a power cut costs a replay, no more.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA cache_size = -131072")
    db.execute("PRAGMA mmap_size = 268435456")
    db.execute("PRAGMA temp_store = MEMORY")
    # Only where the replica's own checkpoints cannot keep up (``replica.wal``).
    db.execute("PRAGMA wal_autocheckpoint = 16000")
    return db
