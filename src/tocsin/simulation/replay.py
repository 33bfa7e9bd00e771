"""A real service's data, to go on from in a world that is not real: would this version, under faults, keep its word?

What is given is a copy: a data directory with its snapshots, its state and its journal, be it that of one machine or
that of a replica, whose own etcd has it. The state is built anew from the oldest snapshot and the journal, by the code
that is about to be used, and has to come out as the service itself had it: in its state file, and in every snapshot
on the way. Then three replicas begin with it, and its targets are simulated.

Nothing in the directory is touched: what has to be opened is copied first.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tocsin import __version__
from tocsin.errors import (
    ClusterError,
    InvalidInput,
    JournalError,
    SnapshotDamaged,
    StateDamaged,
    StateError,
    WrongIncarnation,
)
from tocsin.journal import codec
from tocsin.journal.contract import Birth, Journal, Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.replica.recovery import check_not_diverged
from tocsin.simulation.etcd_copy import etcd_journal
from tocsin.simulation.history import Final
from tocsin.state import seal, snapshot
from tocsin.state.apply import apply
from tocsin.state.digest import full_digest
from tocsin.state.store import Store, save_meta

SETTLED_S = 60
"""The simulation begins so long after the last entry."""
TELL_EVERY_S = 2.0
_AGAIN = "if the service ran while it was copied, stop it, or copy it once more"

Tell = Callable[[str], None]
"""Hears what somebody who waits, or who relies on the outcome, should know."""


class Start(msgspec.Struct):
    """Where a simulation goes on from."""

    folder: tempfile.TemporaryDirectory[str]
    """It lives as long as this does. In it ``state.db``."""
    birth: Birth
    trimmed: int
    records: list[Record]
    seq: int
    time_ms: int
    launches: frozenset[str]
    """Names of those that there were before."""
    schedules: int
    rebuilt_from: str

    @property
    def state(self) -> Path:
        return Path(self.folder.name) / "state.db"

    def __str__(self) -> str:
        return f"entry {self.seq} with {self.schedules:,} schedules, {self.rebuilt_from}"

    def since(self, found: Final) -> Final:
        """Only what happened after this: what was before is not for the simulation to judge."""
        return msgspec.structs.replace(
            found,
            versions=[
                msgspec.structs.replace(row, since_ms=max(row.since_ms, self.time_ms + 1))
                for row in found.versions
                if row.until_ms is None or row.until_ms > self.time_ms
            ],
            launches=[row for row in found.launches if row.name not in self.launches],
            missed=[row for row in found.missed if row.at_ms > self.time_ms],
        )


class Kept(NamedTuple):
    """A journal, as it was found."""

    birth: Birth
    trimmed: int
    records: list[Record]

    @property
    def last(self) -> int:
        return self.trimmed + len(self.records)


_loaded: dict[Path, Start] = {}
"""Every seed begins with the same."""


def load(data: Path, tell: Tell = lambda text: None) -> Start:
    """From a copy of a data directory, which is not touched. Raises InvalidInput, StateError or JournalError."""
    data = data.absolute()
    if data not in _loaded:
        _loaded[data] = _Original(data, tell).start()
    return _loaded[data]


class _Original:
    """What is on the disk, and what is made of it in a folder of our own."""

    def __init__(self, data: Path, tell: Tell) -> None:
        if not data.is_dir():
            raise InvalidInput(f"there is no directory {data}", field="--replay", value=str(data))
        self._data = data
        self._tell = tell
        self._told_s = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="tocsin-replay-")
        self._built = Path(self._folder.name) / "state.db"
        self._copies = Path(self._folder.name) / "copies"
        self._copies.mkdir()

    def start(self) -> Start:
        try:
            with self._named_as_given():
                kept = self._journal()
                rebuilt_from = self._from_state() if kept is None else self._rebuilt(kept)
                return self._begin(kept, rebuilt_from)
        except OSError as wrong:
            text = f"{self._data} cannot be read: {wrong}"
            raise InvalidInput(text, field="--replay", value=str(self._data)) from None

    def _begin(self, kept: Kept | None, rebuilt_from: str) -> Start:
        with contextlib.closing(Store(self._built)) as store:
            meta, launches = store.meta, frozenset(_names(store.db))
        shutil.rmtree(self._copies)
        if not meta.seq:
            raise self._empty()
        return Start(
            folder=self._folder,
            birth=kept.birth if kept else Birth(meta.incarnation),
            trimmed=kept.trimmed if kept else meta.seq,
            records=kept.records if kept else [],
            seq=meta.seq,
            time_ms=meta.time_ms,
            launches=launches,
            schedules=meta.schedules,
            rebuilt_from=rebuilt_from,
        )

    # The journal

    def _journal(self) -> Kept | None:
        """None: there is none, or it cannot be got at."""
        if (self._data / "journal.db").exists():
            copy = self._copied("journal.db", "", "-wal")
            return asyncio.run(self._read(SqliteJournal(copy)))
        etcd = self._data / "member" / "etcd"
        if not etcd.is_dir():
            if (self._data / "member").is_dir():
                self._tell("its journal is not in this directory: going on from its state alone")
            return None
        try:
            self._tell("reading the journal from a copy of its etcd ...")
            with etcd_journal(etcd, self._copies / "etcd") as journal:
                return asyncio.run(self._read(journal))
        except (ClusterError, JournalError, OSError) as wrong:
            self._tell(f"the journal in {etcd} cannot be read, going on from the state alone: {wrong}")
            return None

    async def _read(self, journal: Journal) -> Kept:
        await journal.open(self._no_journal)
        try:
            bounds = await journal.bounds()
            records: list[Record] = []
            if bounds.first <= bounds.last:
                async for record in journal.read(bounds.first - 1):
                    records.append(record)
                    self._progress("read", len(records), bounds.last - bounds.first + 1)
                    if record.seq == bounds.last:
                        break
            return Kept(journal.birth, bounds.first - 1, records)
        finally:
            await journal.close()

    async def _no_journal(self) -> NoReturn:
        raise JournalUnavailable("there is no journal in it")

    # The state

    def _rebuilt(self, kept: Kept) -> str:
        """From as far back as can be: the more entries this version has to read, the better."""
        begun = self._base(kept)
        known = self._known(kept)
        same: list[str] = []
        with contextlib.closing(Store(self._built)) as store:
            _adopt(store, kept.birth)
            begun_at = store.meta.seq
            for record in kept.records[max(0, begun_at - kept.trimmed) :]:
                apply(store, record.seq, codec.decode(record.raw, record.seq), record.raw)
                self._progress("applied", record.seq - begun_at, kept.last - begun_at)
                if found := known.get(record.seq):
                    digest = full_digest(store.db)
                    for one in found:
                        one.check(digest, record.seq)
                        same.append(one.name)
        count = kept.last - begun_at
        compared = f", the same as {' and '.join(same)}" if same else ", with nothing to compare it with"
        return f"rebuilt from {begun} and {count:,} {'entry' if count == 1 else 'entries'}{compared}"

    def _base(self, kept: Kept) -> str:
        """What the first entry follows, in words. It is put in place."""
        if not kept.trimmed:
            return "the journal's beginning"
        folder, damaged = self._data / "snapshots", ""
        for made in reversed(self._manifests()):
            if kept.trimmed <= made.seq <= kept.last and kept.birth.fits(made.incarnation, made.seq):
                try:
                    snapshot.restore(folder, made, self._built)
                except SnapshotDamaged as wrong:
                    damaged = wrong.message
                    self._tell(f"passed over: {damaged}")
                else:
                    return f"snapshot {made.seq}"
        raise StateDamaged(
            damaged or f"the journal begins at {kept.trimmed + 1}, and {folder} holds no snapshot that it follows",
            hint=_AGAIN,
        )

    def _known(self, kept: Kept) -> dict[int, list[_Known]]:
        """What the service itself had, by entry."""
        found: dict[int, list[_Known]] = {}
        for made in self._manifests():
            if made.digest and kept.birth.fits(made.incarnation, made.seq):
                found.setdefault(made.seq, []).append(_Known(f"snapshot {made.seq}", made.digest))
        try:
            theirs = self._their_state()
        except StateDamaged as wrong:
            self._tell(f"not compared: {wrong.message}")
            theirs = None
        if theirs is None:
            return found
        state, is_sealed = theirs
        with contextlib.closing(state):
            meta = state.meta
            if not kept.birth.fits(meta.incarnation, meta.seq):
                raise WrongIncarnation(
                    f"the state belongs to journal {meta.incarnation}, the journal there is {kept.birth.incarnation}",
                    hint="they were mixed up: give a whole copy of one service's data",
                )
            if meta.seq > kept.last:
                self._tell(f"not compared: the state is at entry {meta.seq}, the journal ends at {kept.last}")
            else:
                known = _Known(str(self._data / "state.db"), full_digest(state.db), is_sealed)
                found.setdefault(meta.seq, []).append(known)
        return found

    def _from_state(self) -> str:
        """Without a journal: the state as it is, or the newest snapshot."""
        damaged: StateError | None = None
        try:
            theirs = self._their_state()
        except StateDamaged as wrong:
            damaged, theirs = wrong, None
        if theirs is not None:
            with contextlib.closing(theirs[0]), contextlib.closing(sqlite3.connect(self._built)) as ours:
                theirs[0].db.backup(ours)
            return "from its state file"
        for made in self._manifests():
            try:
                snapshot.restore(self._data / "snapshots", made, self._built)
            except SnapshotDamaged as wrong:
                damaged = damaged or wrong
                self._tell(f"passed over: {wrong.message}")
            else:
                if damaged:
                    self._tell(f"passed over: {damaged.message}")
                return f"from snapshot {made.seq}"
        raise damaged or self._empty()

    def _their_state(self) -> tuple[Store, bool] | None:
        """A copy of the state file, and whether it was closed in peace. None: there is none."""
        state = self._data / "state.db"
        if not state.exists():
            return None
        check_not_diverged(state)
        copy = self._copied("state.db", "", "-wal", ".seal")
        is_sealed = seal.check(copy)
        store = Store(copy)
        try:
            if not is_sealed:
                seal.look_over(store)
        except BaseException:
            store.close()
            raise
        return store, is_sealed

    def _manifests(self) -> list[snapshot.Manifest]:
        return snapshot.manifests(self._data / "snapshots")

    # Small things

    def _copied(self, name: str, *suffixes: str) -> Path:
        """Not what SQLite keeps in ``-shm``: that is for those who have the file open at the same time."""
        for suffix in suffixes:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(self._data / (name + suffix), self._copies / (name + suffix))
        return self._copies / name

    def _progress(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._told_s > TELL_EVERY_S:
            self._told_s = time.monotonic()
            self._tell(f"{done:,} of {total:,} entries {what} ...")

    @contextlib.contextmanager
    def _named_as_given(self) -> Iterator[None]:
        """Errors speak of the copies: whoever reads them knows the original. And there is another remedy than for a
        service that is to start."""
        try:
            yield
        except (StateError, JournalError) as wrong:
            text = wrong.message.replace(str(self._copies), str(self._data))
            hint = wrong.hint
            if isinstance(wrong, UnknownChange) or "form" in text or "newer" in hint:
                hint = f"was it written by a newer version? This is {__version__}"
            elif not isinstance(wrong, (Diverged, WrongIncarnation, Differs)):
                hint = _AGAIN
            raise type(wrong)(text, hint=hint) from None

    def _empty(self) -> InvalidInput:
        return InvalidInput(
            f"{self._data} holds nothing to go on from",
            field="--replay",
            value=str(self._data),
            hint="give a copy of a data directory of 'tocsin serve'",
        )
