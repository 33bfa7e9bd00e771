"""Whether all replicas of a journal agree that an entry is skipped.

A replica agrees for itself alone: it could not apply the entry, and an operator has asked for the skip in its data
directory. What it agrees to is a part of its record in the roster, which each start writes anew. A replica that has
applied the entry never agrees, running or not.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from tocsin.journal.contract import Roster
from tocsin.model.cluster import Member
from tocsin.model.entry import Position


class SkipConsents(Protocol):
    """The consents of all enlisted replicas."""

    async def give(self, entry: Position) -> None:
        """This replica agrees that the entry is skipped, until its next start."""
        ...

    async def missing(self, entry: Position) -> list[str]:
        """The replicas that have not agreed, by name."""
        ...


class NobodyElse:
    """On one machine there is nobody else to ask."""

    async def give(self, entry: Position) -> None:
        return

    async def missing(self, entry: Position) -> list[str]:
        return []


class RosterConsents:
    """In the roster of the journal."""

    def __init__(self, roster: Roster, own: Member) -> None:
        self._roster = roster
        self._own = own

    async def give(self, entry: Position) -> None:
        await self._roster.enlist(msgspec.structs.replace(self._own, skip=_spelt(entry)))

    async def missing(self, entry: Position) -> list[str]:
        agreed = _spelt(entry)
        return [member.name for member in await self._roster.members() if member.skip != agreed]


def _spelt(entry: Position) -> str:
    return f"{entry.seq} {entry.id.hex()}"
