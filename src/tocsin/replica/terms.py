"""The terms in which this disk led, written on the disk itself before anything is called in them.

What a target has recorded is on the same disk. A missing record proves that a call was never made only if the disk is
the one of the process that led the term, as that process left it. Two files tell:

- ``terms``: for each election the term and the id of the entry that was to begin it, durable before the entry is
  offered to the journal. The term is this disk's own only if the journal's term began with that very entry. An election
  that was lost, or won by another replica of the same name, therefore leaves no claim, whatever the crash.
- ``offered``: the last entry that this disk offered to the journal, written before every append. An entry of an own
  term behind it was written by a process on another disk: this one is an older copy, put back or cloned, and its
  records are those of an earlier moment. The files of a process that was merely killed are never behind the journal.

To forget a term is safe, it only means doubt. To take the term of another disk for an own one is not.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import structlog

from tocsin.errors import JournalFull
from tocsin.model.entry import Position
from tocsin.state import queries
from tocsin.state.store import Store

log = structlog.get_logger()
KEPT = 10_000
_NOTHING = Position(0, b"")


class BegunTerm(NamedTuple):
    """A term as the journal knows it."""

    term: int
    began: Position
    """The entry by which it began."""
    prev: bytes
    """The id of the entry before that one, the last of the former term."""


class OwnTerms:
    """A line for each election that this disk stood for, with its checksum."""

    def __init__(self, path: Path, offered: Path) -> None:
        self._path = path
        self._offered_path = offered
        self._claims: dict[int, set[bytes]] = {}
        """By term: the entries by which this disk wanted to begin it."""
        self._offered = _NOTHING
        """The last entry that a former process on this disk offered."""
        self._offered_upto = 0
        self._elections: set[int] = set()
        """Terms that this very process stands for, or stood for."""
        self._own: set[int] = set()
        self._began: dict[int, int] = {}
        """By term: the entry by which it began, as far as a process before this one has written it."""
        self.lost_after: Callable[[], int] = lambda: 0
        """The entry behind which a record was lost, the last time; 0: none was."""

    def proves(self, term: int) -> bool:
        """Does it prove that no call was made in that term, if this disk has no record of one? Not if a record was lost
        since: then the disk, too, may be one of before."""
        lost_after = self.lost_after()
        return term in self._own and self._began.get(term, lost_after + 1) > lost_after

    def __contains__(self, term: int) -> bool:
        return term in self._own

    @property
    def claimed(self) -> set[int]:
        """Own terms, and those that the journal has yet to decide on."""
        return set(self._claims)

    def has_offered_behind(self, seq: int) -> bool:
        """Did a former process on this disk offer more than one entry behind this, and nobody has noted the loss?"""
        return self._offered_upto > seq + 1

    def in_office(self) -> None:
        """The entry that begins the term, and tells of a loss if there was one, is in the journal."""
        self._offered_upto = 0

    def load(self) -> None:
        """Nothing counts as own before ``settle``."""
        self._offered = self._read_offered()
        self._offered_upto = self._offered.seq
        try:
            lines = [line for line in self._path.read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return
        found = [_read(line) for line in lines[-KEPT:]]
        for claim in found:
            if claim is not None:
                self._claims.setdefault(claim[0], set()).add(claim[1])
        # A power cut may leave half a line, the last one: then that entry was not offered.
        if None in found[:-1]:
            log.warning(
                "terms are forgotten", reason=f"{self._path} is damaged", lines=found[:-1].count(None)
            )

    def settle(self, begun: Sequence[BegunTerm], end: Position) -> None:
        """Compare the claims with the terms that the journal knows, in order, and with its end. Durable when it
        returns: a later process on this disk must not take for own what this one did not."""
        last_of = _last_entries(begun, end)
        newest = begun[-1].term if begun else 0
        ids = {each.term: each.began.id for each in begun}
        self._began = {each.term: each.began.seq for each in begun if each.term not in self._elections}
        is_copy = False
        for term, claims in list(self._claims.items()):
            if term > newest:
                continue
            is_lost = ids.get(term) not in claims
            is_behind = not is_lost and term not in self._elections and self._is_behind(last_of[term])
            if is_lost or is_behind:
                del self._claims[term]
                self._own.discard(term)
                is_copy |= is_behind
            else:
                self._own.add(term)
        if is_copy:
            log.warning(
                "this data directory is behind the journal: it is no witness of what was called since",
                last_written_here=self._offered.seq,
                reason="the power failed, the journal skipped its last entry, or it was put back from a copy",
                remedy="launches without a record are in doubt; a copy must never run beside its original",
            )
            self._rewrite()

    def claim(self, term: int, id: bytes) -> None:
        """Durable when it returns. Raises JournalFull where there is no room for it: then the term cannot begin."""
        self._write(self._path, b"\n%b\n" % _line(term, id), os.O_APPEND, is_synced=True)
        self._elections.add(term)
        self._claims.setdefault(term, set()).add(id)

    def won(self, term: int) -> None:
        """The entry that begins it is in the journal, and it is ours."""
        self._own.add(term)

    def offer(self, entry: Position) -> None:
        """That entry is about to be offered. It survives the death of the process; after a power cut targets do not
        trust their records anyway. Not written if a former process offered more, and the journal has yet to hear of
        the loss: the number that stands there is its only witness."""
        if entry.seq < self._offered_upto:
            return
        self._write(self._offered_path, _line(*entry).ljust(80) + b"\n", 0, is_synced=False)

    def _is_behind(self, last: Position) -> bool:
        offered = self._offered
        return last.seq > offered.seq or (last.seq == offered.seq and last.id != offered.id)

    def _read_offered(self) -> Position:
        try:
            found = _read(self._offered_path.read_bytes().strip())
        except FileNotFoundError:
            return _NOTHING
        return _NOTHING if found is None else Position(*found)

    def _rewrite(self) -> None:
        lines = [_line(term, id) for term, ids in sorted(self._claims.items()) for id in ids]
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        self._write(new, b"".join(b"%b\n" % line for line in lines), 0, is_synced=True)
        new.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _write(self, path: Path, raw: bytes, flags: int, *, is_synced: bool) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
            try:
                os.write(descriptor, raw)
                if is_synced:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as wrong:
            raise JournalFull(f"{path} cannot be written: {wrong.strerror}") from wrong


def settle(own: OwnTerms, store: Store) -> None:
    """By the state as it is."""
    begun = [
        BegunTerm(term, Position(seq, id), prev)
        for term, seq, id, prev in queries.begun_terms(store.db, KEPT)
    ]
    own.settle(begun, store.meta.position)


def _last_entries(begun: Sequence[BegunTerm], end: Position) -> dict[int, Position]:
    """Of each term: every entry between two elections is one of the earlier term."""
    found = {term.term: Position(after.began.seq - 1, after.prev) for term, after in pairwise(begun)}
    if begun:
        found[begun[-1].term] = end
    return found


def _line(number: int, id: bytes) -> bytes:
    text = b"%d %b" % (number, id.hex().encode())
    return b"%b %08x" % (text, zlib.crc32(text))


def _read(line: bytes) -> tuple[int, bytes] | None:
    found = re.fullmatch(rb"([0-9]{1,18}) ((?:[0-9a-f]{2})+) [0-9a-f]{8}", line)
    if found is None:
        return None
    number, id = int(found[1]), bytes.fromhex(found[2].decode())
    return (number, id) if line == _line(number, id) else None
