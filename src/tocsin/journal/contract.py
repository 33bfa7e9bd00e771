"""What every journal engine promises.

- Sequence numbers start at 1 and have no gaps. ``append`` lands at exactly ``after + 1`` or raises ``Conflict``.
- Durable before acknowledged: when ``append`` returns, the record survives a power cut.
- ``append`` may raise ``Unknown``: the record may have landed, or may land later. ``settle`` finds out.
- ``read`` yields records in order and then waits for more; a missing one raises ``Gap``.
- The incarnation is written at the journal's birth. A state of another incarnation does not belong to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from tocsin.errors import Conflict


class Record(NamedTuple):
    """An entry as the engine keeps it."""

    seq: int
    id: bytes
    raw: bytes


class Bounds(NamedTuple):
    """What the journal holds: ``first`` to ``last``. Empty when first is last + 1."""

    first: int
    last: int


class Journal(Protocol):
    """One journal."""

    @property
    def incarnation(self) -> str:
        """Given at birth, the same for ever."""
        ...

    async def open(self) -> None:
        """Connect; create the journal if it does not exist."""
        ...

    async def append(self, id: bytes, raw: bytes, after: int) -> None:
        """Land at ``after + 1``, durably. Raises Conflict, Unknown, JournalFull or JournalUnavailable."""
        ...

    def read(self, after: int) -> AsyncIterator[Record]:
        """Records behind ``after``, in order, then the ones to come. Raises Gap."""
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

    async def close(self) -> None:
        """Let go. Nothing acknowledged is lost."""
        ...


async def settle(journal: Journal, id: bytes, raw: bytes, after: int) -> None:
    """Make an append whose answer was lost certain: it landed, or another one has its place (``Conflict``).

    The identical record is offered again until one of the two is known. It cannot land twice, because both
    offers are for the same sequence number.
    """
    found = await journal.get(after + 1)
    if found is None:
        await journal.append(id, raw, after)
        return
    if found.id != id:
        raise Conflict(f"another entry holds sequence number {after + 1}")
