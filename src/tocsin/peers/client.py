"""Asks the other replicas. Every question has a deadline of its own; no answer in that time is ``Unreachable``."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import aiohttp

from tocsin.client.reach import unreached
from tocsin.errors import NoLeader, TocsinError, Uncertain, Unreachable
from tocsin.member.secret import certified_name
from tocsin.model.cluster import Asked, Hello, Member, PeerStatus
from tocsin.model.command import Command
from tocsin.peers import messages
from tocsin.peers.directory import Directory
from tocsin.peers.messages import MEDIA_TYPE, Nothing
from tocsin.peers.server import WRONG
from tocsin.peers.transfer import Transfer
from tocsin.replica.peers import Answered, Fate, position_of
from tocsin.state.snapshot import Manifest
from tocsin.targets.contract import Output

_T = TypeVar("_T")
HELLO_S, STATUS_S, FATES_S, CANCEL_S = 1.0, 0.5, 1.0, 2.0
OUTPUT_S, STEP_DOWN_S, SNAPSHOTS_S, PROPOSE_S = 5.0, 10.0, 2.0, 10.0
CONNECT_S = 2.0
"""Whoever does not take a connection within this time is not there."""
PORTION = 2_000
"""So many attempts are asked after, or told of, at a time."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_IDLE_S = 30.0
_CONNECTIONS_MAX = 64


_NOT_TRUSTED = (
    "if this goes on, it does not trust the secret of this replica: give both the same --cluster-secret; to change "
    "the secret see 'tocsin cluster secret --help'"
)
"""A server that does not accept a certificate hangs up, and does not say why."""


class NotSent(Unreachable):
    """Nobody took the connection: certain that nothing was done."""


class PeerClient:
    """The port ``Peers``, over the network."""

    are_reachable = True

    def __init__(self, name: str, directory: Directory, tls: ssl.SSLContext) -> None:
        self._name = name
        self._directory = directory
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        await self._directory.start()

    async def stop(self) -> None:
        await self._directory.stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    # What replicas ask each other

    async def hello(self, member: Member) -> Hello:
        """By its address alone: nobody need be enlisted for it."""
        return await self._ask(member, "hello", Nothing(), Hello, HELLO_S)

    async def statuses(self) -> dict[str, PeerStatus | None]:
        others = self._directory.others()
        found = await asyncio.gather(*(self._status(member) for member in others))
        return {member.name: status for member, status in zip(others, found, strict=True)}

    async def propose(self, leader: str, command: Command) -> Answered:
        try:
            member = self._member(leader)
            proposal = messages.proposal_of(command)
            return messages.answered_of(
                await self._ask(member, "propose", proposal, messages.Result, PROPOSE_S)
            )
        except NotSent as wrong:
            raise NoLeader(f"{leader} leads, and cannot be reached: {wrong.message}") from None
        except Unreachable as wrong:
            raise Uncertain(
                f"the answer of the leader was lost: {wrong.message}",
                hint="it may have been carried out nevertheless: look before you repeat it",
            ) from None

    async def position(self, leader: str) -> int:
        return position_of(leader, await self._status(self._member(leader)))

    async def fates(self, replica: str, asked: Sequence[Asked], term: int) -> list[Fate]:
        member = self._member(replica)
        found: list[Fate] = []
        # Also where nothing is asked after: it makes no call of an earlier term any more.
        for first in range(0, max(1, len(asked)), PORTION):
            some = list(asked[first : first + PORTION])
            told = await self._ask(member, "fates", messages.Inquiry(some, term), list[Fate], FATES_S)
            if len(told) != len(some):
                raise Unreachable(f"{replica} tells of {len(told)} attempts and was asked for {len(some)}")
            found += told
        return found

    async def cancel(self, replica: str, asked: Asked, reason: str) -> None:
        await self._tell(self._member(replica), "cancel", messages.Cancelling(asked, reason), CANCEL_S)

    async def output(self, replica: str, kind: str, name: str, attempt: int) -> Output | None:
        wanted = messages.Printed(kind, name, attempt)
        shape: type[Output | None] = Output | None  # type: ignore[assignment]  # why: msgspec decodes unions
        return await self._ask(self._member(replica), "output", wanted, shape, OUTPUT_S)

    async def step_down(self, leader: str) -> None:
        await self._tell(self._member(leader), "step-down", Nothing(), STEP_DOWN_S)

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: Callable[[], Awaitable[int]] | None = None
    ) -> Manifest | None:
        return await Transfer(self, incarnation, least, folder, newest).run()

    # For the transfer of snapshots

    async def offers(self) -> dict[str, list[Manifest]]:
        """What snapshots the others hold, of all that answer. Raises ``Unreachable`` when none of them does."""
        others = self._directory.others()
        found = await asyncio.gather(*(self._offer(member) for member in others))
        told = {member.name: offer for member, offer in zip(others, found, strict=True) if offer is not None}
        if others and not told:
            raise Unreachable(f"none of {', '.join(member.name for member in others)} answers")
        return told

    def lent(
        self, replica: str, manifest: Manifest, first: int, silence_s: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The snapshot from that byte on, as it comes."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        return self._open().get(
            f"https://{self._member(replica).peer}/snapshots/{manifest.seq}/{manifest.sha256}",
            headers={"Range": f"bytes={first}-"},
            server_hostname=certified_name(replica),
            timeout=timeout,
            allow_redirects=False,
        )

    # How

    async def _status(self, member: Member) -> PeerStatus | None:
        try:
            return await self._ask(member, "status", Nothing(), PeerStatus, STATUS_S)
        except TocsinError:
            return None

    async def _offer(self, member: Member) -> list[Manifest] | None:
        try:
            return await self._ask(member, "snapshots", Nothing(), list[Manifest], SNAPSHOTS_S)
        except TocsinError:
            return None

    def _member(self, name: str) -> Member:
        found = self._directory.find(name)
        if found is None:
            raise NotSent(f"no address of {name or 'a leader'} is known")
        return found

    async def _tell(self, member: Member, what: str, message: object, within_s: float) -> None:
        await self._ask(member, what, message, type(None), within_s)

    async def _ask(self, member: Member, what: str, message: object, shape: type[_T], within_s: float) -> _T:
        """Raises what the other raises, ``NotSent`` where it never heard of it, else ``Unreachable``."""
        body = messages.encode(message)
        timeout = aiohttp.ClientTimeout(total=within_s, connect=min(CONNECT_S, within_s))
        try:
            async with self._open().post(
                f"https://{member.peer}/{what}",
                data=body,
                headers={"Content-Type": MEDIA_TYPE},
                server_hostname=certified_name(member.name),
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                raw = await bounded(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as wrong:
            self._directory.look_again()
            raise silence(member.name, wrong) from None
        if response.status == WRONG:
            raise messages.error_of(messages.decode(raw, messages.Wrong))
        if response.status != 200:
            raise Unreachable(f"{member.name} answered with HTTP status {response.status}")
        return messages.decode(raw, shape)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls, limit=0, limit_per_host=_CONNECTIONS_MAX, keepalive_timeout=_IDLE_S
            )
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self._session


async def bounded(response: aiohttp.ClientResponse) -> bytes:
    """The whole answer, if it is not beyond all measure."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise aiohttp.ClientPayloadError("the answer is too long")
    return b"".join(parts)


def silence(name: str, wrong: Exception) -> Unreachable:
    """Why there was no answer, and whether anything was sent at all."""
    if isinstance(wrong, aiohttp.ClientConnectorCertificateError):
        return NotSent(
            f"{name} shows a certificate that is not of this cluster, or not its own",
            hint="all replicas need the same --cluster-secret",
        )
    if isinstance(wrong, aiohttp.ClientConnectorError):
        return NotSent(f"{name} cannot be reached: {unreached(wrong.os_error)}")
    if isinstance(wrong, aiohttp.ConnectionTimeoutError):
        return NotSent(f"{name} cannot be reached: it took too long")
    if isinstance(wrong, TimeoutError):
        return Unreachable(f"{name} did not answer in time")
    hint = _NOT_TRUSTED if isinstance(wrong, OSError) and wrong.errno == errno.ECONNRESET else ""
    return Unreachable(f"{name} did not answer: {str(wrong) or type(wrong).__name__}", hint=hint)
