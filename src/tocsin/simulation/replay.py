"""A real service's data, to go on from in a world that is not real: would this version, under faults, keep its word?

What is given is a copy: a data directory with its snapshots, its state and its journal, be it that of one machine or
that of a replica, whose own etcd has it. The state is built anew from the oldest snapshot and the journal, by the code
that is about to be used, and has to come out as the service itself had it: in its state file, and in every snapshot
on the way. Then three replicas begin with it, and its targets are simulated.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tocsin.errors import ChainBroken, InvalidInput, StateDamaged, StateError, UnknownChange, WrongIncarnation
from tocsin.journal import codec
from tocsin.journal.contract import Birth, Record
from tocsin.model.entry import Position
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.simulation.history import Final
from tocsin.simulation.original import AGAIN, Kept, Original, Tell
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
    end: Position
    time_ms: int
    launches: frozenset[str]
    """Names of those that there were before."""
    schedules: int
    rebuilt_from: str

    @property
    def state(self) -> Path:
        return Path(self.folder.name) / "state.db"

    def __str__(self) -> str:
        return f"entry {self.end.seq} with {self.schedules:,} schedules, {self.rebuilt_from}"

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


class _Known(NamedTuple):
    """What the service itself had at some entry."""

    where: str
    digest: str
    is_certain: bool


_loaded: dict[Path, Start] = {}
"""Every seed begins with the same."""


def load(data: Path, tell: Tell = lambda text: None) -> Start:
    """From a copy of a data directory, which is not touched. Raises InvalidInput, StateError or JournalError."""
    data = data.absolute()
    if data not in _loaded:
        try:
            _loaded[data] = _start(data, tell)
        except OSError as wrong:
            raise InvalidInput(f"{data} cannot be read: {wrong}", field="--replay", value=str(data)) from None
    return _loaded[data]


def _start(data: Path, tell: Tell) -> Start:
    folder = tempfile.TemporaryDirectory(prefix="tocsin-replay-")
    built = Path(folder.name) / "state.db"
    with tempfile.TemporaryDirectory(prefix="tocsin-copies-") as copies:
        original = Original(data, Path(copies), tell)
        kept = original.journal()
        rebuilt_from = _as_it_is(original, built) if kept is None else _rebuilt(original, kept, built)
    with contextlib.closing(Store(built)) as store:
        meta, launches = store.meta, frozenset(_names(store.db))
    if not meta.seq:
        raise original.nothing()
    return Start(
        folder=folder,
        birth=Birth(meta.incarnation) if kept is None else kept.birth,
        trimmed=meta.seq if kept is None else kept.trimmed,
        records=[] if kept is None else kept.records,
        end=meta.position,
        time_ms=meta.time_ms,
        launches=launches,
        schedules=meta.schedules,
        rebuilt_from=rebuilt_from,
    )


def _rebuilt(original: Original, kept: Kept, built: Path) -> str:
    """From as far back as can be: the more entries this version has to read, the better. Returns how, in words."""
    begun = _base(original, kept, built)
    known = _known(original, kept)
    same: list[str] = []
    with contextlib.closing(Store(built)) as store:
        _adopt(store, kept.birth)
        begun_at = store.meta.seq
        same += _compared(store, known)
        for record in kept.records[begun_at - kept.trimmed :]:
            _apply(original, store, record)
            original.progress("applied", record.seq - begun_at, kept.last - begun_at)
            same += _compared(store, known)
    count = kept.last - begun_at
    compared = f": the same as {', '.join(same)}" if same else "; there is nothing to compare it with"
    return f"rebuilt from {begun} and {count:,} {'entry' if count == 1 else 'entries'}{compared}"


def _base(original: Original, kept: Kept, built: Path) -> str:
    """Put in place what the first entry follows."""
    if not kept.trimmed:
        return "the journal's beginning"
    fitting = [
        made
        for made in original.manifests()
        if kept.trimmed <= made.seq <= kept.last and kept.birth.fits(made.incarnation, made.seq)
    ]
    for made in reversed(fitting):
        if original.restored(made, built):
            return f"snapshot {made.seq}"
    raise StateDamaged(
        f"the journal in {original.data} begins at entry {kept.trimmed + 1}, and no whole snapshot that it follows "
        "is there",
        hint=AGAIN,
    )


def _apply(original: Original, store: Store, record: Record) -> None:
    try:
        apply(store, record.seq, codec.decode(record.raw, record.seq), record.raw)
    except (ChainBroken, StateDamaged, UnknownChange) as wrong:
        raise type(wrong)(f"in {original.data}: {wrong.message}", hint=wrong.hint or AGAIN) from None


def _known(original: Original, kept: Kept) -> dict[int, list[_Known]]:
    """By entry: what the result can be compared with."""
    found: dict[int, list[_Known]] = {}
    for made in original.manifests():
        if made.digest and kept.birth.fits(made.incarnation, made.seq):
            found.setdefault(made.seq, []).append(_Known(f"snapshot {made.seq}", made.digest, True))
    try:
        theirs = original.state()
    except StateDamaged as wrong:
        original.tell(f"not compared: {wrong.message}")
        return found
    if theirs is None:
        return found
    state, is_sealed = theirs
    with contextlib.closing(state):
        meta = state.meta
        if not kept.birth.fits(meta.incarnation, meta.seq):
            raise WrongIncarnation(
                f"in {original.data} the state belongs to journal {meta.incarnation}, the journal there is "
                f"{kept.birth.incarnation}",
                hint="they were mixed up: give a whole copy of one service's data",
            )
        if meta.seq > kept.last:
            original.tell(
                f"not compared: the state file is at entry {meta.seq}, the journal ends at {kept.last}"
            )
        known = _Known("its state file", full_digest(state.db), is_sealed)
        found.setdefault(meta.seq, []).append(known)
    return found


def _compared(store: Store, known: dict[int, list[_Known]]) -> list[str]:
    """With which of them the store, at this entry, is the same. Raises if it is not."""
    there = known.get(store.meta.seq, [])
    digest = full_digest(store.db) if there else ""
    for one in there:
        if one.digest != digest:
            hint = "do not run this version on that data: it applies entries differently"
            if not one.is_certain:
                hint += "; unless the service ran while this was copied: then copy once more"
            raise StateDamaged(
                f"at entry {store.meta.seq} this version builds another state from the same journal than "
                f"{one.where} is",
                hint=hint,
            )
    return [one.where for one in there]


def _adopt(store: Store, birth: Birth) -> None:
    """A new state, or the one that the journal was born to go on from, becomes the journal's own."""
    if store.meta.incarnation != birth.incarnation:
        store.adopt(birth.incarnation, birth.start)


def _as_it_is(original: Original, built: Path) -> str:
    """Without a journal: the state file, or the newest snapshot that is whole."""
    damaged: StateError | None = None
    try:
        theirs = original.state()
    except StateDamaged as wrong:
        damaged, theirs = wrong, None
    if theirs is not None:
        state, _ = theirs
        with contextlib.closing(state), contextlib.closing(sqlite3.connect(built)) as ours:
            state.db.backup(ours)
        return "from its state file"
    for made in original.manifests():
        if original.restored(made, built):
            if damaged is not None:
                original.tell(f"passed over: {damaged.message}")
            return f"from snapshot {made.seq}"
    raise damaged or original.nothing()


def _names(db: sqlite3.Connection) -> Iterator[str]:
    """Of all launches."""
    ids = dict(db.execute("SELECT sid, id FROM revision"))
    ids.update(db.execute("SELECT sid, id FROM schedule"))
    for sid, instant_s, kind in db.execute("SELECT sid, instant_s, kind FROM launch"):
        yield launch_name(ids[sid], instant_s, kind == LaunchKind.MANUAL)
