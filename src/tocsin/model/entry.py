"""One journal record: a batch of changes, with term, time and a unique id."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from tocsin.errors import ChainBroken
from tocsin.model.change import Change

REMEDY = (
    "the journal's engine was restored from an old copy, cloned or replaced, or it lost entries. Put its newest data "
    "back; or let a new journal go on from this replica: 'tocsin restore ITS-DATA --data NEW', or from a backup. See "
    "docs/damage.md"
)


class Position(NamedTuple):
    """A place in the journal: behind the entry with this number and id. Another entry with the same number belongs to
    another history."""

    seq: int
    id: bytes

    def __str__(self) -> str:
        return f"entry {self.seq} ({self.id.decode() if self.id.isalnum() else self.id.hex()})"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """``id`` is unique for ever: it tells whether an append whose answer was lost has landed."""

    id: bytes
    prev: bytes
    """The id of the entry before it, or of the journal's birth: entries are a chain, and no other entry fits there."""
    term: int
    time_ms: int
    changes: list[Change]


def id_instead_of(id: bytes) -> bytes:
    """Of the entry that takes the place of one that is skipped. It follows from the id of that one: several replicas
    may replace it at the same time, and a replica that has applied the former entry can tell what happened."""
    return hashlib.blake2b(b"skipped " + id, digest_size=16).digest()


def chain_broken(known: Position, found: Position) -> ChainBroken:
    """``known`` was applied here last; the journal has ``found`` instead."""
    if found == (known.seq, id_instead_of(known.id)):
        return ChainBroken(
            f"{known} was skipped with 'tocsin journal skip', and this replica has applied it",
            hint="move state.db* and the folder snapshots of its data directory away: at the next start the state is "
            "built anew without that entry. See docs/damage.md",
        )
    return ChainBroken(
        f"the journal does not continue what this replica has applied: the replica's last is {known}, the journal has "
        f"{found}",
        hint=REMEDY,
    )
