"""What every journal engine promises.

- Sequence numbers start at 1 and have no gaps. ``append`` lands at exactly ``after.seq + 1``, if the entry before it is
the one with ``after.id``, or raises ``Conflict``.
- Durable before acknowledged: when ``append`` returns, the record survives a power cut.
- ``append`` may raise ``Unknown``: the record may have landed, or may land later. ``settle`` finds out.
- ``read`` yields records in order and then waits for more; a missing one raises ``Gap``. Whenever it has yielded all
that there are, also after a reconnect, it compares the end of the journal with the last one that the reader knows, and
raises ``ChainBroken`` if that is another one. Whoever reads compares each entry with the one before it.
- A record is never changed, except the last one by ``replace_last``: an entry that no replica can apply. The journal
then ends with another id, so a replica that has applied the former entry can neither append nor read on.
- The incarnation is written at the journal's birth. A state of another incarnation does not belong to it, except
the one that the journal was born to go on from.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tocsin.errors import Conflict, PlaceTrimmed, PresenceMoved
from tocsin.model.cluster import Member
from tocsin.model.entry import Position, chain_broken
from tocsin.model.presence import Presence
from tocsin.state.snapshot import Manifest


class Record(NamedTuple):
    """An entry as the engine keeps it."""

    seq: int
    id: bytes
    raw: bytes


class Bounds(NamedTuple):
    """What the journal holds: ``first`` to ``last``. Empty when first is last + 1."""

    first: int
    last: int
    last_id: bytes
    """Also known when that entry was trimmed."""

    @property
    def end(self) -> Position:
        return Position(self.last, self.last_id)


class Origin(NamedTuple):
    """What a journal goes on from: a state that was restored from a backup, or nothing at all."""

    after: int = 0
    """The first entry has the next number."""
    incarnation: str = ""
    """Of the journal that the restored state belonged to."""


class Birth(msgspec.Struct, frozen=True):
    """Written once, when the journal is created, and never changed."""

    incarnation: str
    after: int = 0
    origin: str = ""

    @property
    def start(self) -> Position:
        """What the first entry is appended behind. No other journal begins like this one."""
        return Position(self.after, self.incarnation.encode())

    def fits(self, incarnation: str, seq: int) -> bool:
        """Is a state of that journal, at that entry, one of this journal, or the very one that it was born to go on
        from?"""
        return incarnation == self.incarnation or (
            self.after > 0 and (incarnation, seq) == (self.origin, self.after)
        )


async def from_nothing() -> Origin:
    """How a journal begins when there is nothing to restore."""
    return Origin()


class Election(NamedTuple):
    """What an entry that begins a term compares and records in the same transaction."""

    term: int
    leader: str = ""
    """The replica that led until now. Its presence must be the one that was observed. Empty: nobody led."""
    version: int = 0
    """Of the presence that was observed; 0: there is none."""


class Journal(Protocol):
    """One journal."""

    @property
    def birth(self) -> Birth:
        """Known once it is open."""
        ...

    async def open(self, origin: Callable[[], Awaitable[Origin]] = from_nothing) -> None:
        """Connect; create the journal if it does not exist. Only then ``origin`` is asked. Of several that create it at
        the same time one wins, and all of them see its birth."""
        ...

    async def append(self, id: bytes, raw: bytes, after: Position, election: Election | None = None) -> None:
        """Land behind ``after``, durably. Raises Conflict, Unknown, JournalFull or JournalUnavailable.

        With an ``election`` it lands only if the presence of the former leader is the one that was observed, else
        PresenceMoved is raised; and from then on no presence is stored that lists a former term. A journal with a
        roster raises NotEnlisted for the election of a replica that was struck from it."""
        ...

    def read(self, after: int, id: bytes | None = None) -> AsyncIterator[Record]:
        """Records behind ``after``, in order, then the ones to come. ``id`` is that of the entry at ``after``, if the
        reader knows it. Raises Gap or ChainBroken."""
        ...

    async def get(self, seq: int) -> Record | None:
        """One record, or None where nothing has landed."""
        ...

    async def trim(self, upto: int) -> None:
        """Forget records up to and including ``upto``: a snapshot covers them."""
        ...

    async def bounds(self) -> Bounds:
        """The first and last sequence number held."""
        ...

    async def replace_last(self, last: Position, id: bytes, raw: bytes) -> None:
        """Put another record in the place of the last one, durably, and keep a note of the former one. It may be
        repeated. Raises Conflict, and changes nothing, unless the journal ends with ``last``, or already with ``id`` at
        its place."""
        ...

    async def close(self) -> None:
        """Let go. Nothing acknowledged is lost."""
        ...


class Roster(Protocol):
    """The replicas of a journal, kept where the journal is."""

    async def members(self) -> list[Member]:
        """All that are enlisted, by name."""
        ...

    async def enlist(self, member: Member) -> None:
        """Add it, or replace what is known of it."""
        ...

    async def expect(self, member: Member) -> None:
        """Add it, unless something is known of it: what a replica says of itself counts for more."""
        ...

    async def strike(self, name: str) -> None:
        """It is no replica any more."""
        ...


class NameHolder(msgspec.Struct, frozen=True):
    """The process that runs under a name."""

    disk: str
    """Of its data directory, made by chance."""
    process: str
    """Made by chance when it started."""
    beat: int = 0
    """Grows as long as it lives."""


class NameStore(Protocol):
    """Which process runs under which name, stored where the journal is. Each method raises JournalUnavailable if no
    answer came: what it was to write may have been written."""

    async def holder(self, name: str) -> NameHolder | None:
        """None: nobody."""
        ...

    async def put(self, name: str, holder: NameHolder, instead: NameHolder | None) -> bool:
        """Replace exactly that record. False: there is another one."""
        ...

    async def release(self, name: str, holder: NameHolder) -> None:
        """Remove exactly that record."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


class SnapshotStore(Protocol):
    """The newest snapshot, stored where the journal is, for replicas that cannot ask each other for theirs."""

    async def newest(self) -> Manifest | None:
        """What is stored."""
        ...

    async def put(self, manifest: Manifest, path: Path) -> bool:
        """Store it in place of the present one. False: it is too large, and only its manifest is there."""
        ...

    async def fetch(self, folder: Path) -> Manifest | None:
        """Put it into the folder, verified. None: there is none."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


class SeenPresence(NamedTuple):
    """A presence as it is stored."""

    replica: str
    version: int
    """Another one with each write."""
    presence: Presence


class PresenceStore(Protocol):
    """The presence of each replica, stored where the journal is. One thread uses it, not the one of the journal."""

    async def put(self, replica: str, presence: Presence) -> None:
        """Replace the record of this replica. Raises Conflict if a listed term is over: then nothing was written.
        Raises JournalUnavailable if no answer came: it may have been written, or may be later."""
        ...

    def watch(self) -> AsyncIterator[list[SeenPresence]]:
        """All that there are, then those that change, as they do. An empty list: the store was asked, and nothing has
        changed. Raises JournalUnavailable when it must be watched anew."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


def check_end(end: Position, after: int, id: bytes | None) -> None:
    """Nothing is behind ``after``. Raises ChainBroken unless the journal ends with the very entry that is known."""
    if end.seq < after or (id is not None and end != (after, id)):
        raise chain_broken(Position(after, id or b""), end)


async def _not_certain(journal: Journal, after: Position) -> None:
    """An append conflicts, and nothing stands in its place. Raises if it is not certain that it did not land."""
    end = (await journal.bounds()).end
    if end.seq > after.seq:
        raise PlaceTrimmed(f"entry {after.seq + 1} is no longer kept: whose it was cannot be told any more")
    if end != after:
        raise chain_broken(after, end)


async def settle(
    journal: Journal, id: bytes, raw: bytes, after: Position, election: Election | None = None
) -> None:
    """Make an append whose answer was lost certain: it landed, or another one has its place (``Conflict``).

    The identical record is offered again until one of the two is known. It cannot land twice, because both
    offers are for the same sequence number. A presence that has moved never comes back: then neither offer lands.
    Raises PlaceTrimmed where the place was trimmed meanwhile, and ChainBroken where the journal went back: it is not
    certain then that it did not land.
    """
    seq = after.seq + 1
    found = await journal.get(seq)
    if found is None:
        try:
            await journal.append(id, raw, after, election)
            return
        except Conflict as conflict:  # the first offer may have landed in between
            found = await journal.get(seq)
            if found is None and not isinstance(conflict, PresenceMoved):
                await _not_certain(journal, after)
    if found is None or found.id != id:
        raise Conflict(f"another entry holds sequence number {seq}")
