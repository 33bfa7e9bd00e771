"""The other replicas, as the API sees them. On one machine there are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from tocsin.model.cluster import Member
from tocsin.replica.peers import NoPeers, Peers


class Membership(Protocol):
    """Replicas come and go, one at a time."""

    async def add(self, member: Member) -> None:
        """From now on it may join. Raises ``ClusterError`` where that cannot be done now."""
        ...

    async def remove(self, name: str) -> None:
        """It is no replica any more."""
        ...


class Around(NamedTuple):
    """What a node hands to the API about the others."""

    peers: Peers = NoPeers()
    members: Callable[[], list[Member]] = list
    """All that are enlisted, as last seen; this one need not be among them."""
    membership: Membership | None = None
    """None: there is no cluster that could grow."""
    look_again: Callable[[], Awaitable[object]] | None = None
    """Bring ``members`` up to date, after they were changed."""
