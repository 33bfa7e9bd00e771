"""A real service's data, to go on from in a world that is not real: would this version, under faults, keep its word?

What is given is a copy: a data directory with its snapshots, its state and, on one machine, its journal. The state is
built anew from the oldest snapshot and the journal, by the code that is about to be used, and has to come out as the
service itself had it. Then three replicas begin with it, and its targets are simulated.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
import sqlite3
import tempfile
from pathlib import Path

import msgspec

from tocsin.errors import InvalidInput, StateDamaged
from tocsin.journal import codec
from tocsin.journal.contract import Birth, Journal, Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.simulation.finals import final
from tocsin.simulation.history import Final
from tocsin.state import snapshot
from tocsin.state.apply import apply
from tocsin.state.digest import full_digest
from tocsin.state.store import Store

SETTLED_S = 60
"""The simulation begins so long after the last entry."""


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
                msgspec.structs.replace(row, since_ms=max(row.since_ms, self.time_ms))
                for row in found.versions
                if row.until_ms is None or row.until_ms > self.time_ms
            ],
            launches=[row for row in found.launches if row.name not in self.launches],
            missed=[row for row in found.missed if row.at_ms > self.time_ms],
        )


@functools.lru_cache(maxsize=4)
def load(data: Path) -> Start:
    """From a copy of a data directory, which is not touched. Raises InvalidInput or StateDamaged."""
    if not data.is_dir():
        raise InvalidInput(f"there is no directory {data}", field="--replay", value=str(data))
    folder = tempfile.TemporaryDirectory(prefix="tocsin-replay-")
    built = Path(folder.name) / "state.db"
    birth, trimmed, records = _journal(data, Path(folder.name))
    rebuilt_from = _build(data, built, trimmed, records)
    with contextlib.closing(Store(built)) as store:
        meta = store.meta
        found = final(store)
    if not meta.seq:
        raise InvalidInput(f"{data} holds nothing to go on from", field="--replay", value=str(data))
    return Start(
        folder=folder,
        birth=birth or Birth(meta.incarnation),
        trimmed=trimmed if records else meta.seq,
        records=records,
        seq=meta.seq,
        time_ms=meta.time_ms,
        launches=frozenset(launch.name for launch in found.launches),
        schedules=meta.schedules,
        rebuilt_from=rebuilt_from,
    )


def _journal(data: Path, folder: Path) -> tuple[Birth | None, int, list[Record]]:
    """The embedded engine's file, if there is one."""
    path = data / "journal.db"
    if not path.exists():
        return None, 0, []
    for part in sorted(data.glob("journal.db*")):
        shutil.copyfile(part, folder / part.name)
    return asyncio.run(_read(SqliteJournal(folder / path.name)))


async def _read(journal: Journal) -> tuple[Birth, int, list[Record]]:
    await journal.open()
    try:
        bounds = await journal.bounds()
        found = [await journal.get(seq) for seq in range(bounds.first, bounds.last + 1)]
        return journal.birth, bounds.first - 1, [record for record in found if record is not None]
    finally:
        await journal.close()


def _build(data: Path, built: Path, trimmed: int, records: list[Record]) -> str:
    """The state, from a snapshot and the journal where these are there. Returns in words what it was made of."""
    fitting = [made for made in snapshot.manifests(data / "snapshots") if not records or made.seq >= trimmed]
    if records and (fitting or not trimmed):
        # From as far back as can be: the more entries this version has to read, the better.
        if trimmed:
            snapshot.restore(data / "snapshots", fitting[-1], built)
        begun = f"snapshot {fitting[-1].seq}" if trimmed else "the journal's beginning"
        with contextlib.closing(Store(built)) as store:
            for record in records:
                if record.seq > store.meta.seq:
                    apply(store, record.seq, codec.decode(record.raw, record.seq), record.raw)
            _compare(store, data / "state.db", built.with_name("theirs.db"))
        return f"rebuilt from {begun} and {len(records):,} entries"
    if (data / "state.db").exists():
        _copy_state(data / "state.db", built)
        return "from its state file"
    if fitting:
        snapshot.restore(data / "snapshots", fitting[0], built)
        return f"from snapshot {fitting[0].seq}"
    raise InvalidInput(
        f"{data} holds neither a state nor a whole snapshot",
        field="--replay",
        value=str(data),
        hint="give a copy of a data directory of 'tocsin serve'",
    )


def _compare(store: Store, theirs: Path, copy: Path) -> None:
    """The service's own state, where it is of the same entry, has to be the same."""
    if not theirs.exists():
        return
    _copy_state(theirs, copy)
    with contextlib.closing(Store(copy)) as other:
        if other.meta.seq != store.meta.seq:
            return
        if full_digest(other.db) != full_digest(store.db):
            raise StateDamaged(
                f"at entry {store.meta.seq} this version builds another state from the same journal than {theirs} is",
                hint="do not run this version on that data: it applies entries differently",
            )


def _copy_state(source: Path, to: Path) -> None:
    """As SQLite sees it, with what is in its log."""
    folder = to.with_name(to.name + ".copy")
    folder.mkdir()
    for part in sorted(source.parent.glob(source.name + "*")):
        if part.name.removeprefix(source.name) in ("", "-wal"):
            shutil.copyfile(part, folder / part.name)
    with (
        contextlib.closing(sqlite3.connect(folder / source.name)) as theirs,
        contextlib.closing(sqlite3.connect(to)) as ours,
    ):
        theirs.backup(ours)
    shutil.rmtree(folder)
