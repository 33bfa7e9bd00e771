"""How the etcd of this replica is doing, seen from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalUnavailable, TocsinError
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.messages import EtcdMember as Voter
from tocsin.member.address import raft_url
from tocsin.member.founding import Missing
from tocsin.member.process import Process
from tocsin.model.cluster import Member

_log = structlog.get_logger()
_LOOK_EVERY_S = 5.0
_LOOK_OFTEN_S = 0.1
_TELL_EVERY_S = 10.0
_REMEDY = "start the others; if their majority is lost for ever, start this one with --recover"


def endpoint_of(url: str) -> Endpoint:
    parts = urlsplit(url)
    return Endpoint(parts.hostname or "", parts.port or 0)


def is_of(peer: Voter, member: Member) -> bool:
    """Is it the etcd of this replica, as far as name and address tell?"""
    return peer.name == member.name or raft_url(member) in peer.peer_urls


async def healthy(peers: Sequence[Voter], client: EtcdClient) -> list[Voter]:
    """Those that answer and know a leader."""
    found = await asyncio.gather(*(_is_healthy(peer, client) for peer in peers))
    return [peer for peer, fine in zip(peers, found, strict=True) if fine]


async def _is_healthy(peer: Voter, client: EtcdClient) -> bool:
    for url in peer.client_urls:
        with suppress(JournalUnavailable):
            status = await client.status(endpoint_of(url))
            return status.leader != 0
    return False


async def is_running(client: EtcdClient, peer: Voter, url: str) -> bool:
    """Does this very member answer there?"""
    try:
        return (await client.status(endpoint_of(url))).member == peer.id
    except JournalUnavailable:
        return False


def other_address(peers: Sequence[Voter], number: int, own_url: str) -> str:
    """Where the others reach the member of this number, if it is not at its own address; empty: it is, or it is no
    member any more, which ``has_left`` tells."""
    urls = next((peer.peer_urls for peer in peers if peer.id == number), [own_url])
    return "" if own_url in urls else ", ".join(urls)


def has_left(peers: Sequence[Voter], number: int) -> bool:
    """Is the member of this number none any more, by a list that a majority has agreed on? Number 0 is of a member that
    was never seen to work: it may be joining, and the list tells nothing."""
    return number != 0 and bool(peers) and all(peer.id != number for peer in peers)


class Watch:
    """Asks this replica's etcd how it is, every few seconds, and the others who is a member. ``removed`` is called when
    this replica is none any more: an etcd that does not run cannot say so. ``displaced`` is told of the address at
    which the others reach another etcd that has the number of this one. One of them is called, once.

    ``number`` is the last that etcd had here; 0: none."""

    def __init__(
        self,
        own: Member,
        process: Process,
        client: EtcdClient,
        others: EtcdClient,
        clock: Clock,
        *,
        number: int,
        removed: Callable[[], None],
        displaced: Callable[[str], Awaitable[None]],
    ) -> None:
        self._own = own
        self._process = process
        self._client = client
        (self._endpoint,) = client.endpoints
        self._others = others
        self._number = number
        self._removed = removed
        self._displaced = displaced
        self.voters: list[str] = []
        """The names of those that etcd counts, as last seen."""
        self._clock = clock
        self._never = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        return self._process.problem or self._problem

    def start(self) -> None:
        self._task = asyncio.create_task(self._look(), name="watch etcd")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def answers(self) -> bool:
        try:
            await self._client.status(self._endpoint)
        except JournalUnavailable:
            return False
        return True

    async def number(self) -> int:
        """Of this member: its name and its address may be another's one day. 0: it does not answer."""
        with suppress(JournalUnavailable):
            return (await self._client.status(self._endpoint)).member
        return 0

    def forget_number(self) -> None:
        """The data of etcd is gone: it is to join again, and gets another number."""
        self._number = 0

    async def is_removed(self) -> bool:
        """etcd says so. Do the others? They have the secret, which cannot be said of all that stands in etcd's log."""
        try:
            peers = await self._others.members()
        except TocsinError:
            return False
        if self._number:
            return has_left(peers, self._number)
        return bool(peers) and not any(is_of(peer, self._own) for peer in peers)

    async def confirm(self) -> bool:
        """Is this replica a member still? Raises JournalUnavailable where no majority can tell."""
        return not has_left(await self._agreed_members(), self._number)

    async def until_removed(self) -> None:
        """Before ``start``: etcd may never come up."""
        while True:
            with suppress(TocsinError):
                if has_left(await self._others.members(), self._number):
                    self._removed()
                    return
            await self._clock.wait(self._never, _LOOK_EVERY_S)

    async def until_usable(
        self, tell: Callable[[str], None], missing: Callable[[], Awaitable[Missing]]
    ) -> None:
        """Returns when a majority answers through it. ``missing`` says who does not answer, and why."""
        begun = said = self._clock.elapsed_s()
        while True:
            try:
                await self._client.range(b"tocsin")
            except JournalUnavailable as wrong:
                reason = self._process.problem or str(wrong)
            else:
                break
            tell(f"there is no majority yet: {reason}")
            now = self._clock.elapsed_s()
            if now - said >= _TELL_EVERY_S:
                said = now
                why, remedy = await missing()
                _log.warning(
                    "this replica waits for a majority of the cluster",
                    reason=reason,
                    missing=why or "nobody",
                    since_s=round(now - begun),
                    remedy=remedy or _REMEDY,
                )
            await self._clock.wait(self._never, _LOOK_OFTEN_S)
        tell("")
        self._process.problem = ""

    async def hand_over(self) -> None:
        """If this member leads the others, let one of them do so that answers."""
        with suppress(JournalUnavailable):
            status = await self._client.status(self._endpoint)
            if status.leader != status.member:
                return
            peers = [peer for peer in await self._client.members(agreed=False) if peer.id != status.member]
            for peer in await healthy(peers, self._client):
                await self._client.move_leader(self._endpoint, peer.id)
                return

    async def _look(self) -> None:
        has_told = False
        while True:
            try:
                status = await self._client.status(self._endpoint)
                self._number = status.member
                self._problem = "; ".join(status.errors)
                self._process.problem = ""
                has_told = has_told or await self._tell_address(status.member)
            except JournalUnavailable as wrong:
                self._problem = str(wrong)
            peers = await self._members_if_agreed()
            if has_left(peers, self._number):
                self._removed()
                return
            # This replica may have stood still while a clone of its machine took its place.
            if has_told and (url := other_address(peers, self._number, raft_url(self._own))):
                await self._displaced(url)
                return
            await self._clock.wait(self._never, _LOOK_EVERY_S)

    async def _members_if_agreed(self) -> list[Voter]:
        """Empty: no majority answers."""
        try:
            peers = await self._agreed_members()
        except TocsinError:
            return []
        self.voters = [peer.name for peer in peers if not peer.is_learner]
        return peers

    async def _agreed_members(self) -> list[Voter]:
        """Only what a majority has agreed on counts: one that is behind may still know an earlier address, or not know
        yet who has joined. The others are asked first, because they may reach a clone in place of the etcd here."""
        with suppress(TocsinError):
            return await self._others.members()
        return await self._client.members()

    async def _tell_address(self, member: int) -> bool:
        """It may have moved while it was away; the others then look for it where it was."""
        url = raft_url(self._own)
        before = other_address(await self._client.members(agreed=False), member, url)
        if before:
            await self._client.update_member(member, [url])
            _log.info("the others know the new address of this replica", address=url, before=before)
        return True
