"""Replicas come and go: ``tocsin cluster add`` and ``tocsin cluster remove``.

The roster is the permission. Who is added may join, and becomes a member of etcd when it starts with its empty disk;
until then nobody waits for its vote. Who is removed loses its vote at once, notices, and stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from tocsin.errors import AlreadyExists, ClusterError, JournalError, JournalUnavailable, NotFound
from tocsin.journal.contract import Roster
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.messages import EtcdMember as Voter
from tocsin.member.address import check_together, raft_url
from tocsin.member.health import endpoint_of, healthy
from tocsin.model.cluster import Member

_log = structlog.get_logger()


class _Leaving(NamedTuple):
    """The etcd member of a replica that is removed, and those that stay and answer: one at least."""

    voter: Voter
    heirs: Sequence[Voter]


class Membership:
    """``client`` is None where the etcd is somebody else's: then only the roster is ours to change."""

    def __init__(self, roster: Roster, client: EtcdClient | None) -> None:
        self._roster = roster
        self._client = client

    async def add(self, member: Member) -> None:
        """Let a new replica in. To say it twice does no harm."""
        members = await self._roster.members()
        known = next((one for one in members if one.name == member.name), None)
        if known is not None and known.peer == member.peer:
            return
        if known is not None:
            raise AlreadyExists(
                f"{member.name} is a member already, at {known.peer}",
                hint=f"to move it, start it with its new address; to replace it: tocsin cluster remove {member.name}",
            )
        check_together([*(one for one in members if one.peer), member])
        await self._check_room()
        await self._roster.enlist(member)
        _log.info("a replica may join", name=member.name, peer=member.peer)

    async def remove(self, name: str) -> None:
        """Shut a replica out. It stops by itself when it notices."""
        members = await self._roster.members()
        known = next((one for one in members if one.name == name), None)
        leaving = await self._leaving(name, known)
        if known is None and leaving is None:
            listed = ", ".join(one.name for one in members) or "nobody"
            raise NotFound(f"there is no replica {name}", hint=f"members are: {listed}")
        if len(members) == 1 and known is not None:
            raise ClusterError(f"{name} is the last replica", hint="stop it instead")
        if leaving is not None:
            await self._hand_over(leaving)
        # The permission goes first, or it would come in again as soon as it is out.
        if known is not None:
            await self._roster.strike(name)
        if leaving is not None:
            await self._take_vote(name, known, leaving.voter)
        if leaving is not None:
            await self._strike_again(name)
        _log.info("a replica was removed", name=name)

    async def _take_vote(self, name: str, known: Member | None, voter: Voter) -> None:
        """That etcd did not confirm it says nothing: it ends as soon as it is removed. The others' list tells."""
        assert self._client is not None
        try:
            await self._client.remove_member(voter.id)
            return
        except JournalError as failed:
            wrong = failed
        try:
            peers = await self._client.members()
        except JournalError as silent:
            raise ClusterError(
                f"it is not known whether {name} was removed: {wrong}; {silent}",
                hint="ask another replica to remove it, once more",
            ) from wrong
        if any(peer.id == voter.id for peer in peers):
            if known is not None:
                await self._roster.enlist(known)
            raise ClusterError(f"{name} was not removed: {wrong}", hint="try again in a moment") from wrong

    async def _strike_again(self, name: str) -> None:
        """The replica may have been starting, and have enlisted itself again before it lost its vote."""
        try:
            await self._roster.strike(name)
        except JournalError as wrong:
            raise ClusterError(
                f"{name} has lost its vote, but it is not known whether it is off the list of replicas: {wrong}",
                hint=f"ask another replica for the list: 'tocsin cluster'; if {name} is on it, remove it once more",
            ) from wrong

    async def _leaving(self, name: str, known: Member | None) -> _Leaving | None:
        """The etcd member of that replica. Raises where the others could not decide anything without it."""
        if self._client is None:
            return None
        peers = await self._client.members()
        url = raft_url(known) if known is not None and known.peer else ""
        voter = next((peer for peer in peers if peer.name == name or url in peer.peer_urls), None)
        if voter is None:
            return None
        if len(peers) == 1:
            raise ClusterError(f"{name} is the last replica", hint="stop it instead")
        left = [peer for peer in peers if peer is not voter]
        answering = await healthy(left, self._client)
        needed = len(left) // 2 + 1
        if len(answering) < needed:
            raise ClusterError(
                f"without {name}, {needed} of {_names(left)} would be needed and only {len(answering)} answer",
                hint="start the others first, or remove one that does not answer",
            )
        return _Leaving(voter, answering)

    async def _hand_over(self, leaving: _Leaving) -> None:
        """An etcd that leads ends as soon as it has agreed to its own removal, and the others have to elect another.
        Of two, the other one may not have heard of the agreement, and waits for a vote of the one that is gone."""
        assert self._client is not None
        voter, heir = leaving.voter, leaving.heirs[0]
        for url in voter.client_urls:
            try:
                status = await self._client.status(endpoint_of(url))
            except JournalUnavailable:
                continue  # an etcd that does not answer does not lead for long
            if status.leader != voter.id:
                return
            try:
                await self._client.move_leader(endpoint_of(url), heir.id)
            except JournalUnavailable as wrong:
                raise ClusterError(
                    f"{voter.name} was not removed: its etcd leads, and {heir.name} did not take over: {wrong}",
                    hint="try again in a moment",
                ) from wrong
            return

    async def _check_room(self) -> None:
        """One more to count means one more that is needed."""
        if self._client is None:
            return
        peers = await self._client.members()
        answering = await healthy(peers, self._client)
        needed = (len(peers) + 1) // 2 + 1
        if len(answering) < min(needed, len(peers)):
            raise ClusterError(
                f"with one more, {needed} replicas would be needed and only {len(answering)} of {_names(peers)} answer",
                hint="start the others first, or remove one that does not answer",
            )


def _names(peers: Sequence[Voter]) -> str:
    return ", ".join(sorted(peer.name or "one that never started" for peer in peers))
