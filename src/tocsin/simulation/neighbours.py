"""The other replicas, reached through the simulated network: the port ``Peers``."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from tocsin.errors import NoLeader, TocsinError, Uncertain, Unreachable
from tocsin.model.cluster import Asked, PeerStatus
from tocsin.model.command import Command
from tocsin.replica.peers import Answered, Fate, position_of
from tocsin.replica.replica import Replica
from tocsin.simulation.network import Network, Refusal, Silence
from tocsin.simulation.virtual import Process
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest
from tocsin.targets.contract import Output

_T = TypeVar("_T")
PATIENCE_S = 1.0
COMMAND_PATIENCE_S = 20.0


class House(Protocol):
    """A machine, as the others find it."""

    @property
    def process(self) -> Process | None: ...

    @property
    def replica(self) -> Replica | None: ...


class Neighbours:
    """How one process sees the others."""

    are_reachable = True

    def __init__(self, name: str, houses: Mapping[str, House], network: Network) -> None:
        self._name = name
        self._houses = houses
        self._network = network

    async def statuses(self) -> dict[str, PeerStatus | None]:
        others = [name for name in self._houses if name != self._name]
        found = await asyncio.gather(*(self._status(name) for name in others))
        return dict(zip(others, found, strict=True))

    async def _status(self, name: str) -> PeerStatus | None:
        async def status(replica: Replica) -> PeerStatus:
            return replica.status()

        try:
            return await self._ask(name, status)
        except Unreachable:
            return None

    async def propose(self, leader: str, command: Command) -> Answered:
        try:
            return await self._ask(leader, lambda replica: replica.carry_out(command), COMMAND_PATIENCE_S)
        except _NotThere as wrong:
            raise NoLeader(str(wrong)) from None
        except Unreachable as wrong:
            raise Uncertain(str(wrong)) from None

    async def position(self, leader: str) -> int:
        return position_of(leader, await self._status(leader))

    async def fates(self, replica: str, asked: Sequence[Asked], term: int) -> list[Fate]:
        return await self._ask(replica, lambda there: there.fates(asked, term))

    async def cancel(self, replica: str, asked: Asked, reason: str) -> None:
        await self._ask(replica, lambda there: there.cancel_here(asked, reason))

    async def output(self, replica: str, kind: str, name: str, attempt: int) -> Output | None:
        return await self._ask(replica, lambda there: there.output_here(kind, name, attempt))

    async def step_down(self, leader: str) -> None:
        await self._ask(leader, lambda there: there.step_down())

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: Callable[[], Awaitable[int]] | None = None
    ) -> Manifest | None:
        async def offered(replica: Replica) -> list[Manifest]:
            return replica.snapshots()

        offers: list[tuple[Manifest, str]] = []
        answers = 0
        for name in [name for name in self._houses if name != self._name]:
            try:
                found = await self._ask(name, offered)
            except TocsinError:  # also one that is starting itself
                continue
            answers += 1
            offers += [
                (made, name) for made in found if made.incarnation == incarnation and made.seq >= least
            ]
        if not answers:
            raise Unreachable("none of the others answers")
        for made, name in sorted(offers, key=lambda offer: -offer[0].seq):
            fetched = await self._fetch(made, name, folder)
            if fetched is not None:
                return fetched
        return None

    async def _fetch(self, made: Manifest, name: str, folder: Path) -> Manifest | None:
        async def read(replica: Replica) -> bytes:
            with replica.lend(made.seq) as (_, path):
                return path.read_bytes()

        try:
            content = await self._ask(name, read, COMMAND_PATIENCE_S)
        except TocsinError:
            return None
        # What comes over the wire is checked before it is let in, as the real transfer does.
        if hashlib.sha256(content).hexdigest() != made.sha256:
            return None
        await asyncio.to_thread(_admit, content, folder, made)
        return made

    async def _ask(
        self, name: str, work: Callable[[Replica], Awaitable[_T]], patience_s: float = PATIENCE_S
    ) -> _T:
        house = self._houses[name]

        async def there() -> _T:
            replica = house.replica
            if replica is None:
                raise _NotThere(f"{name} is starting")
            return await work(replica)

        try:
            return await self._network.ask(self._name, name, lambda: house.process, there, patience_s)
        except Refusal as wrong:
            raise _NotThere(str(wrong)) from None
        except Silence as wrong:
            raise Unreachable(str(wrong)) from None


def _admit(content: bytes, folder: Path, made: Manifest) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "fetched.partial"
    partial.write_bytes(content)
    snapshot.admit(folder, partial, made)


class _NotThere(Unreachable):
    """Certain that it was not done."""
