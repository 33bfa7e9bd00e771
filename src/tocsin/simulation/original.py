"""The data directory of a real service, as somebody gave a copy of it: what its journal, state and snapshots hold.

Nothing in it is touched: what has to be opened is copied first, into a folder of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import (
    ClusterError,
    InvalidInput,
    JournalError,
    JournalUnavailable,
    SnapshotDamaged,
    StateDamaged,
)
from tocsin.journal.contract import Birth, Journal, Origin, Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.replica.recovery import check_not_diverged
from tocsin.simulation.etcd_copy import etcd_journal
from tocsin.state import seal, snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store

TELL_EVERY_S = 2.0
AGAIN = "if the service ran while this was copied, stop it, or copy once more"

Tell = Callable[[str], None]
"""Hears what somebody who waits for it, or who relies on it, should know."""


class Kept(NamedTuple):
    """A journal, as it was found."""

    birth: Birth
    trimmed: int
    records: list[Record]

    @property
    def last(self) -> int:
        return self.trimmed + len(self.records)


class Original:
    """One directory. ``copies`` is the folder for what is opened."""

    def __init__(self, data: Path, copies: Path, tell: Tell) -> None:
        if not data.is_dir():
            raise InvalidInput(f"there is no directory {data}", field="--replay", value=str(data))
        self.data = data
        self.tell = tell
        self._copies = copies
        self._told_s = time.monotonic()

    def journal(self) -> Kept | None:
        """None: there is none, or it cannot be got at."""
        if (self.data / "journal.db").exists():
            with self._named_as_given():
                return asyncio.run(self._read(SqliteJournal(self._copied("journal.db", "", "-wal"))))
        member = self.data / "member"
        etcd = member / "etcd"
        if not etcd.is_dir():
            if member.is_dir():
                self.tell(f"there is no journal in {self.data}: going on from its state alone")
            return None
        self.tell(f"reading the journal from a copy of {etcd} ...")
        try:
            with etcd_journal(etcd) as journal:
                return asyncio.run(self._read(journal))
        except (ClusterError, JournalError, StateDamaged, OSError) as wrong:
            self.tell(f"the journal in {etcd} cannot be read, going on from the state alone: {wrong}")
            return None

    async def _read(self, journal: Journal) -> Kept:
        try:
            await journal.open(self._not_born)
            bounds = await journal.bounds()
            records: list[Record] = []
            if bounds.first <= bounds.last:
                async for record in journal.read(bounds.first - 1):
                    records.append(record)
                    self.progress("read", len(records), bounds.last - bounds.first + 1)
                    if record.seq == bounds.last:
                        break
            return Kept(journal.birth, bounds.first - 1, records)
        finally:
            await journal.close()

    async def _not_born(self) -> Origin:
        raise JournalUnavailable(f"the journal in {self.data} was never begun")

    def manifests(self) -> list[Manifest]:
        """Of all that claim to be snapshots, the newest first."""
        return snapshot.manifests(self.data / "snapshots")

    def restored(self, made: Manifest, built: Path) -> bool:
        """Put a snapshot there. False: it is damaged, which is told."""
        try:
            snapshot.restore(self.data / "snapshots", made, built)
        except SnapshotDamaged as wrong:
            self.tell(f"passed over: {wrong.message}")
            return False
        return True

    def state(self) -> tuple[Store, bool] | None:
        """A copy of the state file, and whether the service had closed it in peace. None: there is none."""
        state = self.data / "state.db"
        if not state.exists():
            return None
        check_not_diverged(state)
        with self._named_as_given():
            copy = self._copied(state.name, "", "-wal", ".seal")
            is_sealed = seal.check(copy)
            store = Store(copy)
            try:
                if not is_sealed:
                    seal.look_over(store)
            except BaseException:
                store.close()
                raise
        return store, is_sealed

    def progress(self, what: str, done: int, total: int) -> None:
        """Now and then, for whoever waits."""
        now_s = time.monotonic()
        if done <= 1:
            self._told_s = now_s
        if now_s - self._told_s > TELL_EVERY_S:
            self._told_s = now_s
            self.tell(f"{done:,} of {total:,} entries {what} ...")

    def nothing(self) -> InvalidInput:
        return InvalidInput(
            f"{self.data} holds nothing to go on from",
            field="--replay",
            value=str(self.data),
            hint="give a copy of a data directory of 'tocsin serve'",
        )

    def _copied(self, name: str, *suffixes: str) -> Path:
        """Not what SQLite keeps in ``-shm``: that is for those who have the file open at the same time."""
        for suffix in suffixes:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(self.data / (name + suffix), self._copies / (name + suffix))
        return self._copies / name

    @contextlib.contextmanager
    def _named_as_given(self) -> Iterator[None]:
        """What is wrong with a copy is told of the original; and the remedy is another than for a service."""
        try:
            yield
        except (JournalError, StateDamaged) as wrong:
            text = wrong.message.replace(str(self._copies), str(self.data))
            if str(self.data) not in text:
                text = f"in {self.data}: {text}"
            raise type(wrong)(text, hint=AGAIN) from None
