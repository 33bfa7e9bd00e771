"""The other replicas, as this one needs them. How they are reached is not its business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from tocsin.errors import NoLeader
from tocsin.model.cluster import Asked, PeerStatus
from tocsin.model.command import Command
from tocsin.state.snapshot import Manifest
from tocsin.targets.contract import Outcome, Output

_NOBODY_ASKED = (
    "the replica that was to make the call cannot be asked: replicas reach each other only with --cluster"
)


class Fate(msgspec.Struct, frozen=True):
    """What became of an attempt, as the replica that was to make the call knows it."""

    how: Literal["flying", "ended", "never", "unknown"]
    """``never``: certain that no call was made, and none will be."""
    outcome: Outcome | None = None
    reason: str = ""
    """Why it is unknown; empty: that replica no longer knows."""
    called_ms: int | None = None
    """When the call was made that is under way; None: that is not known, or stands in the journal."""


class Answered(msgspec.Struct, frozen=True):
    """A command was carried out by the leader, in that entry."""

    seq: int
    result: Any


class Peers(Protocol):
    """Every call has a deadline of its own and raises ``Unreachable`` when there is no answer."""

    @property
    def are_reachable(self) -> bool:
        """False: there is no way from here to a leader, whoever it is."""
        ...

    async def statuses(self) -> dict[str, PeerStatus | None]:
        """All others that are enlisted; None: no answer."""
        ...

    async def propose(self, leader: str, command: Command) -> Answered:
        """Have the leader carry it out. Raises what it raises: ``Refused`` and its kin, ``NoLeader`` when it does not
        lead (nothing was done), ``Uncertain`` when the answer was lost."""
        ...

    async def position(self, leader: str) -> int:
        """The last entry that the leader has applied. Raises ``NoLeader`` when it does not lead or does not answer."""
        ...

    async def fates(self, replica: str, asked: Sequence[Asked], term: int) -> list[Fate]:
        """What became of these, and that replica will make no call of an earlier term any more."""
        ...

    async def cancel(self, replica: str, asked: Asked, reason: str) -> None:
        """Stop an attempt that runs there."""
        ...

    async def output(self, replica: str, kind: str, name: str, attempt: int) -> Output | None:
        """What an attempt printed there."""
        ...

    async def step_down(self, leader: str) -> None:
        """Ask the leader to resign."""
        ...

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: Callable[[], Awaitable[int]] | None = None
    ) -> Manifest | None:
        """The newest snapshot of ``least`` or later that any of them holds, verified and put into the folder with its
        manifest. Goes on where it was broken off. None: nobody has one. ``newest`` tells where the journal ends:
        there is no snapshot of anything later."""
        ...


class NoPeers:
    """On one machine there is nobody else."""

    are_reachable = False

    async def statuses(self) -> dict[str, PeerStatus | None]:
        return {}

    async def propose(self, leader: str, command: Command) -> Answered:
        raise _no_way(leader)

    async def position(self, leader: str) -> int:
        raise _no_way(leader)

    async def fates(self, replica: str, asked: Sequence[Asked], term: int) -> list[Fate]:
        return [Fate("unknown", reason=_NOBODY_ASKED) for _ in asked]

    async def cancel(self, replica: str, asked: Asked, reason: str) -> None:
        return

    async def output(self, replica: str, kind: str, name: str, attempt: int) -> Output | None:
        return None

    async def step_down(self, leader: str) -> None:
        return

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: Callable[[], Awaitable[int]] | None = None
    ) -> Manifest | None:
        return None


def _no_way(leader: str) -> NoLeader:
    if not leader:
        return NoLeader("nobody leads")
    return NoLeader(
        f"{leader} leads, and cannot be reached from here",
        hint="ask that one: replicas pass writes on to each other only with --cluster",
    )


def position_of(leader: str, status: PeerStatus | None) -> int:
    """Where the leader is, by what it says of itself. Raises ``NoLeader``."""
    if status is None or status.role != "leader":
        raise NoLeader(f"{leader or 'nobody'} leads, and does not say so")
    return status.sequence
