"""How a replica with an empty disk, or with a copy of one, gets into a cluster that exists.

It goes in as a new member, never as the one it was: what that one promised is forgotten. So the old member of the same
name, or at the same address, is removed first, unless it runs. Any step may be the last before a crash; the next try
begins again. A member that this very disk has asked for, and that never started, need not be replaced: this matters
where only one other is left, who cannot agree to anything more once there are to be two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.errors import ClusterError, JournalUnavailable
from tocsin.journal.contract import Roster
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.messages import EtcdMember as Voter
from tocsin.member.address import etcd_url, raft_url
from tocsin.member.founding import Greeter, Inquiry, describe_disk, still_recovering
from tocsin.member.health import healthy, is_of, is_running
from tocsin.member.process import find
from tocsin.member.record import Memory
from tocsin.model.cluster import Member

_log = structlog.get_logger()
_TRY_EVERY_S = 1.0
_TELL_EVERY_S = 10.0


def _remedy(reason: str) -> str:
    if "TLS" in reason:
        return "their secret is another one: give all replicas the same --cluster-secret"
    return "start the others; if their majority is lost for ever, start a survivor with --recover"


def _taken(name: str, what: str) -> ClusterError:
    return ClusterError(
        f"{what}, and this replica, which joins anew, would take its place",
        hint=f"stop it first, or take another --name; if it cannot be stopped: tocsin cluster remove {name}",
    )


class Ticket(NamedTuple):
    """Those who are members now, this one included: ``name=URL``."""

    initial_cluster: str


class Door:
    """``client`` reaches those that belong to the cluster."""

    def __init__(
        self,
        own: Member,
        memory: Memory,
        client: EtcdClient,
        roster: Roster,
        greeter: Greeter,
        clock: Clock,
    ) -> None:
        self._own = own
        self._memory = memory
        self._client = client
        self._roster = roster
        self._greeter = greeter
        self._clock = clock
        self._never = asyncio.Event()

    async def enter(self, tell: Callable[[str], None]) -> Ticket:
        """Returns when the others have taken this replica in. Raises ``ClusterError`` when they never will."""
        said, said_s = "", 0.0
        while True:
            try:
                ticket = await self._try()
            except JournalUnavailable as wrong:
                reason = str(wrong)
            else:
                tell("")
                return ticket
            tell(f"it cannot join yet: {reason}")
            now = self._clock.elapsed_s()
            if reason != said or now - said_s >= _TELL_EVERY_S:
                said, said_s = reason, now
                _log.warning(
                    f"{describe_disk(is_copy=self._memory.is_copy())}; it waits until it can join the others",
                    reason=reason,
                    remedy=_remedy(reason),
                )
            await self._clock.wait(self._never, _TRY_EVERY_S)

    async def _try(self) -> Ticket:
        peers = await self._client.members(agreed=False)
        former = [peer for peer in peers if is_of(peer, self._own)]
        if self._memory.record.asked and len(former) == 1 and not former[0].name:
            return self._ticket(peers)
        await self._check_permission(former)
        await self._check_majority(peers)
        await self._check_gone(former)
        await self._check_settled()
        for peer in former:
            _log.info("the former member of this replica is replaced", member=f"{peer.id:x}")
            await self._client.remove_member(peer.id)
        self._memory.keep(asked=True)
        await self._client.add_member([raft_url(self._own)])
        return self._ticket(await self._client.members())

    def _ticket(self, peers: Sequence[Voter]) -> Ticket:
        return Ticket(",".join(self._spelt(peer) for peer in peers))

    async def _check_permission(self, former: Sequence[Voter]) -> None:
        name = self._own.name
        if not former and name not in {member.name for member in await self._roster.members()}:
            raise ClusterError(
                f"{name} is not a member of this cluster",
                hint=f"run: tocsin cluster add {name}={self._own.peer}",
            )

    async def _check_majority(self, peers: Sequence[Voter]) -> None:
        """Counted with the one that is to be replaced: it still has a vote, and does not use it."""
        others = [peer for peer in peers if not is_of(peer, self._own)]
        answering = await healthy(others, self._client)
        needed = len(peers) // 2 + 1
        if len(answering) < needed:
            silent = ", ".join(
                sorted(peer.name or "one that never started" for peer in others if peer not in answering)
            )
            raise JournalUnavailable(
                f"{len(answering)} of {len(peers)} members answer and {needed} are needed; no answer from {silent}"
            )

    async def _check_settled(self) -> None:
        """Whoever came in before the loss is written down could take office and know nothing of it."""
        enlisted = [one for one in await self._roster.members() if one.peer and one.name != self._own.name]
        hellos = await Inquiry(enlisted, self._greeter, self._clock).ask()
        for name, hello in hellos.items():
            if hello is not None and hello.condition == "recovering":
                raise JournalUnavailable(still_recovering(name))

    async def _check_gone(self, former: Sequence[Voter]) -> None:
        """Nobody is thrown out by a second one of its name, which was started by mistake."""
        if not former:
            return
        names = {self._own.name, *(peer.name for peer in former)}
        enlisted = [one for one in await self._roster.members() if one.name in names and one.peer]
        for member in enlisted:
            hello = (await Inquiry([member], self._greeter, self._clock).ask())[member.name]
            # It may be this very replica that answers there.
            if hello is not None and hello.token != self._memory.record.token:
                raise _taken(member.name, f"{member.name} runs at {member.peer}")
        for peer in former:
            for url in peer.client_urls:
                if await self._is_running(peer, url):
                    raise _taken(peer.name, f"the etcd of {peer.name} runs at {url}")

    async def _is_running(self, peer: Voter, url: str) -> bool:
        # One that has lost this very disk is ended when the new one is started.
        is_left_over = url == etcd_url(self._own) and find(self._memory.etcd) is not None
        return not is_left_over and await is_running(self._client, peer, url)

    def _spelt(self, peer: Voter) -> str:
        """A member that has not started yet has no name; any will do."""
        name = self._own.name if is_of(peer, self._own) else peer.name or f"unknown-{peer.id:x}"
        return ",".join(f"{name}={url}" for url in peer.peer_urls)
