"""An entry that no replica can apply is skipped, by all of them: an empty entry takes its place in the journal.

A leader executes an entry before it appends it, so such an entry is a defect: its author ran another version, or
executed it otherwise than it applies it, or its bytes are damaged. It is skipped only where all of this is certain:

- It cannot be applied here, at this very start, and an operator has asked for exactly this entry.
- It is the last one. The author of a successor had applied it, and what the successor says rests on that.
- No snapshot covers it: none here, none beside the journal, none of a replica that answers; no replica that answers has
  applied it.
- Every enlisted replica agrees (``consents``), apart from those that the operator has declared lost.

The last entry is replaced in one transaction that compares the end of the journal. The new entry has another id, so a
replica that has applied the former one stops at its next append or read: two histories are never mixed.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from tocsin.errors import CannotApply, Conflict, InvalidInput, JournalUnavailable, Refused
from tocsin.journal import codec
from tocsin.model.change import EntrySkipped
from tocsin.model.entry import Entry, Position, id_instead_of
from tocsin.replica.parts import Paths, Setup
from tocsin.state import snapshot
from tocsin.state.store import Store

log = structlog.get_logger()
_T = TypeVar("_T")
FETCH = (
    "move state.db* and the folder snapshots of this data directory away: at the next start the state is fetched from "
    "a replica that has applied the entry and holds a snapshot of it. See docs/damage.md"
)


class Failure(msgspec.Struct, frozen=True):
    """The entry that could not be applied, as it lies in the data directory."""

    seq: int
    id: bytes


class Request(msgspec.Struct, frozen=True):
    """What ``tocsin journal skip`` leaves in the data directory."""

    seq: int
    id: bytes
    without: list[str] = []
    """Replicas that are lost for good."""


# In the data directory


def note(path: Path, failure: CannotApply) -> None:
    """Remember which entry it was."""
    path.write_bytes(msgspec.json.encode(Failure(failure.seq, failure.id)))


def is_noted(path: Path) -> bool:
    return path.exists()


def forget(paths: Paths) -> None:
    """Every entry was applied: nothing is to be skipped."""
    if paths.skip.exists():
        log.warning("nothing is skipped: every journal entry could be applied")
        paths.skip.unlink()
    paths.cannot_apply.unlink(missing_ok=True)


def request(paths: Paths, seq: int, without: list[str]) -> None:
    """Have the entry skipped at the next start. Raises Refused unless it is the one that could not be applied here."""
    failure = _read(paths.cannot_apply, Failure)
    if failure is None or failure.seq != seq:
        stopped = (
            "it has not stopped at any entry" if failure is None else f"it stopped at entry {failure.seq}"
        )
        raise Refused(
            f"entry {seq} is not one that this replica could not apply: {stopped}",
            hint="only the entry that 'tocsin serve' on this data directory could not apply can be skipped",
        )
    incarnation = _check_state(paths.state, seq)
    _check_snapshots(paths.snapshots, seq, incarnation)
    paths.skip.write_bytes(msgspec.json.encode(Request(seq, failure.id, without)))


def withdraw(paths: Paths, seq: int) -> None:
    """Raises Refused where nothing of the kind is asked for."""
    found = _read(paths.skip, Request)
    if found is None or found.seq != seq:
        raise Refused(
            f"nothing here asks for entry {seq} to be skipped",
            hint="an entry that was skipped stays skipped: another one has its place in the journal",
        )
    paths.skip.unlink()


def _check_state(path: Path, seq: int) -> str:
    """Raises Refused if the state has applied the entry. Returns the journal that it belongs to; empty: there is no
    state."""
    if not path.exists():
        return ""
    with contextlib.closing(Store(path)) as store:
        meta = store.meta
    if meta.seq >= seq:
        raise Refused(
            f"entry {seq} was applied here: the state is at {meta.seq}",
            hint="only an entry that could not be applied can be skipped",
        )
    return meta.incarnation


def _check_snapshots(folder: Path, seq: int, incarnation: str) -> None:
    """Raises Refused if one of them has applied the entry."""
    held = [made.seq for made in snapshot.manifests(folder) if incarnation in ("", made.incarnation)]
    if max(held, default=0) >= seq:
        raise Refused(
            f"entry {seq} was applied: a snapshot of entry {max(held)} is in {folder}",
            hint="move state.db* away: at the next start the state is restored from that snapshot",
        )


def _read(path: Path, shape: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeError) as wrong:
        raise InvalidInput(
            f"the file cannot be read: {wrong}", field=path.name, value=str(path), hint="remove it"
        ) from None


# At the start


class EntrySkip:
    """Puts an empty entry in the place of one that cannot be applied."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self._setup = setup
        self._paths = setup.paths
        self._journal = setup.journal
        self._store = store

    async def carry_out(self, failure: CannotApply) -> None:
        """Returns when another entry stands there. Raises the failure if nobody has asked for the skip, Refused if it
        would lose what others have applied, and JournalUnavailable while not all replicas agree."""
        entry = Position(failure.seq, failure.id)
        found = await self._journal.get(entry.seq)
        if found is not None and found.id != entry.id:
            return  # another replica was faster
        wanted = _read(self._paths.skip, Request)
        if wanted is None or (wanted.seq, wanted.id) != entry:
            raise failure
        try:
            await self._check_unapplied(entry)
            await self._setup.consents.give(entry)
            await self._check_agreed(entry, wanted.without)
            await self._replace(entry)
        except (Refused, Conflict):
            self._paths.skip.unlink()
            raise

    async def _check_unapplied(self, entry: Position) -> None:
        """Raises Refused if there is a sign that somebody has applied the entry."""
        end = (await self._journal.bounds()).end
        if end != entry:
            raise _refused(entry, f"entry {entry.seq + 1} follows it, and whoever wrote that had applied it")
        _check_snapshots(self._paths.snapshots, entry.seq, self._journal.birth.incarnation)
        stored = self._setup.stored_snapshots
        newest = None if stored is None else await stored.newest()
        if newest is not None and self._is_behind(entry, newest.incarnation, newest.seq):
            raise _refused(entry, f"the snapshot beside the journal is of entry {newest.seq}")
        for name, status in (await self._setup.peers.statuses()).items():
            if status is None:
                continue
            seq = max([status.sequence, *(mark.seq for mark in status.snapshots)])
            if self._is_behind(entry, status.incarnation, seq):
                raise _refused(entry, f"replica {name} has applied it and is at entry {seq}")

    def _is_behind(self, entry: Position, incarnation: str, seq: int) -> bool:
        return incarnation == self._journal.birth.incarnation and seq >= entry.seq

    async def _check_agreed(self, entry: Position, without: list[str]) -> None:
        missing = [name for name in await self._setup.consents.missing(entry) if name not in without]
        if missing:
            raise JournalUnavailable(
                f"entry {entry.seq} is skipped by all replicas or by none, and {', '.join(missing)} did not agree yet",
                hint=f"run 'tocsin journal skip {entry.seq}' on each of them and start it; if one is lost for good, "
                "stop this replica and repeat the command here with '--without NAME'",
            )

    async def _replace(self, entry: Position) -> None:
        """With what every replica would put there: its state is the same."""
        meta, id = self._store.meta, id_instead_of(entry.id)
        empty = Entry(id, meta.last_id, meta.term, meta.time_ms, [EntrySkipped(entry.id)])
        await self._journal.replace_last(entry, id, codec.encode(empty))
        log.warning("journal entry skipped by all replicas", seq=entry.seq, entry=entry.id.hex())
        self._paths.skip.unlink()


def _refused(entry: Position, reason: str) -> Refused:
    return Refused(f"entry {entry.seq} is not skipped: {reason}", hint=FETCH)
