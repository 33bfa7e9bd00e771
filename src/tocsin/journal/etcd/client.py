"""A thin client of etcd 3.4 and newer: keys, transactions, watches, maintenance, members."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence

from tocsin.errors import ClusterError, JournalUnavailable
from tocsin.journal.etcd import messages as m
from tocsin.journal.etcd.channel import Channel, Metadata
from tocsin.journal.etcd.endpoints import Endpoint, Endpoints
from tocsin.journal.etcd.failures import UNAVAILABLE, Lost, NotSent, Said
from tocsin.journal.etcd.stream import Stream

DEADLINE_S = 1.0
_BYTES_PER_S = 1 << 20
QUIET_S = 0.4
_SILENT_S = 0.6
_MAINTENANCE_S = 60.0
_KV, _AUTH = "/etcdserverpb.KV/", "/etcdserverpb.Auth/"
_MAINTENANCE, _CLUSTER = "/etcdserverpb.Maintenance/", "/etcdserverpb.Cluster/"
_WATCH = "/etcdserverpb.Watch/Watch"


class EtcdClient:
    """One etcd cluster.

    Reads, and writes that may be repeated, are tried at one server after the other. What must not be repeated is tried
    at the next one only while it is certain that nothing has left.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        tls: ssl.SSLContext | None = None,
        user: str = "",
        password: str = "",
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._endpoints = Endpoints(endpoints, tls)
        self._user = user
        self._password = password
        self._token: str | None = None
        self._deadline_s = deadline_s

    def another(self, *, deadline_s: float) -> EtcdClient:
        """Of the same cluster, with connections of its own."""
        return EtcdClient(
            self._endpoints.given,
            tls=self._endpoints.tls,
            user=self._user,
            password=self._password,
            deadline_s=deadline_s,
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return self._endpoints.given

    async def close(self) -> None:
        await self._endpoints.close()

    # Keys

    async def range(
        self, key: bytes, end: bytes = b"", *, limit: int = 0, keys_only: bool = False
    ) -> m.Ranged:
        request = m.range_of(key, end, limit=limit, keys_only=keys_only)
        return m.ranged(await self._call(_KV + "Range", request))

    async def put(self, key: bytes, value: bytes) -> int:
        """The revision at which it was written. May be carried out twice."""
        return m.revision_of(await self._call(_KV + "Put", m.put(key, value)))

    async def delete(self, key: bytes, end: bytes = b"") -> int:
        """The revision at which it is gone."""
        return m.revision_of(await self._call(_KV + "DeleteRange", m.delete(key, end)))

    async def transact(
        self,
        conditions: list[bytes],
        then: list[bytes],
        otherwise: list[bytes],
        *,
        repeatable: bool = False,
    ) -> m.Transacted:
        """Raises Lost when it is not known what came of it, unless it may be repeated."""
        request = m.transaction(conditions, then, otherwise)
        return m.transacted(await self._call(_KV + "Txn", request, repeatable=repeatable))

    async def compact(self, revision: int, *, wait: bool = False) -> None:
        """Forget what was before this revision. To ask for less than was done already is fine."""
        try:
            deadline_s = _MAINTENANCE_S if wait else self._deadline_s
            await self._call(_KV + "Compact", m.compaction(revision, wait), deadline_s=deadline_s)
        except Said as said:
            if "has been compacted" not in said.reason:
                raise

    async def watch(
        self, key: bytes, end: bytes, start_revision: int, quiet_s: float = QUIET_S
    ) -> AsyncGenerator[m.Batch, None]:
        """Puts from that revision on, as they come. An empty batch: nothing came for ``quiet_s``.

        Raises JournalUnavailable when it must be opened again: the server is gone or silent, or has forgotten the
        revision. Where it stands the caller knows best.
        """
        endpoint, channel = await self._first_open()
        async with channel.stream(_WATCH, await self._credentials(channel)) as stream:
            await stream.send(m.create_watch(key, end, start_revision))
            while True:
                told = m.watched(await self._next_message(endpoint, stream, quiet_s))
                if told.cancelled:
                    if Said(UNAVAILABLE, told.reason).is_stale_token:
                        self._token = None
                    raise Lost(f"{endpoint} ended the watch: {told.reason or 'its history is gone'}")
                yield told.batch

    # Maintenance, one server at a time

    async def status(self, endpoint: Endpoint) -> m.Status:
        return m.status(await self._ask(endpoint, _MAINTENANCE + "Status", b""))

    async def defragment(self, endpoint: Endpoint) -> None:
        """The server does nothing else meanwhile."""
        await self._ask(endpoint, _MAINTENANCE + "Defragment", b"", _MAINTENANCE_S)

    async def move_leader(self, endpoint: Endpoint, member: int) -> None:
        """Only the server that leads can be asked."""
        await self._ask(endpoint, _MAINTENANCE + "MoveLeader", m.member_id(member))

    async def alarms(self) -> list[m.Alarm]:
        return m.alarms(await self._call(_MAINTENANCE + "Alarm", m.alarms_request()))

    async def disarm(self, alarm: m.Alarm) -> None:
        await self._call(_MAINTENANCE + "Alarm", m.disarm(alarm))

    # Members

    async def members(self, *, agreed: bool = True) -> list[m.EtcdMember]:
        """``agreed``: as the majority has it. Else as the server knows them, which needs no majority."""
        return m.members(
            await self._call(_CLUSTER + "MemberList", b"\x08\x01" if agreed else b"", agreed=agreed)
        )

    async def add_member(self, peer_urls: list[str], *, is_learner: bool = False) -> m.EtcdMember:
        """Not repeated: the second one would be refused, and hide that the first one succeeded."""
        request = m.member_add(peer_urls, is_learner)
        return m.added(await self._call(_CLUSTER + "MemberAdd", request, repeatable=False, deadline_s=5.0))

    async def remove_member(self, id: int) -> None:
        await self._call(_CLUSTER + "MemberRemove", m.member_id(id), repeatable=False, deadline_s=5.0)

    async def update_member(self, id: int, peer_urls: list[str]) -> None:
        await self._call(_CLUSTER + "MemberUpdate", m.member_update(id, peer_urls), deadline_s=5.0)

    async def promote_member(self, id: int) -> None:
        await self._call(_CLUSTER + "MemberPromote", m.member_id(id), repeatable=False, deadline_s=5.0)

    # How

    async def _call(
        self,
        path: str,
        body: bytes,
        *,
        repeatable: bool = True,
        deadline_s: float | None = None,
        agreed: bool = False,
    ) -> bytes:
        """At the first server that answers. After an election it is worth asking once more. ``agreed``: that server
        knows all that the majority had agreed on before."""
        complaints = await self._tour(path, body, repeatable, deadline_s, agreed)
        if isinstance(complaints, bytes):
            return complaints
        if repeatable and any(isinstance(complaint, Said) for complaint in complaints):
            complaints = await self._tour(path, body, repeatable, deadline_s, agreed)
            if isinstance(complaints, bytes):
                return complaints
        what = "etcd does not answer: " + "; ".join(complaint.message for complaint in complaints)
        raise JournalUnavailable(what) if repeatable else NotSent(what)

    async def _tour(
        self, path: str, body: bytes, repeatable: bool, deadline_s: float | None, agreed: bool
    ) -> bytes | list[NotSent | Lost | Said]:
        """The answer, or what each of the servers had to say."""
        complaints: list[NotSent | Lost | Said] = []
        for endpoint in self._endpoints.in_order():
            try:
                if agreed:  # etcd 3.4 has no such flag for its members, but it has for its keys
                    await self._ask(endpoint, _KV + "Range", m.range_of(b"tocsin", keys_only=True))
                answer = await self._ask(endpoint, path, body, deadline_s, expires=not repeatable)
                self._endpoints.answered(endpoint)
                return answer
            except (NotSent, Lost, Said) as wrong:
                if isinstance(wrong, Said) and not wrong.is_passing:
                    raise
                await self._endpoints.failed(endpoint, wrong.message)
                if not (repeatable or wrong.is_certain):
                    raise
                complaints.append(wrong)
        return complaints

    async def _ask(
        self,
        endpoint: Endpoint,
        path: str,
        body: bytes,
        deadline_s: float | None = None,
        *,
        expires: bool = False,
    ) -> bytes:
        """One server. A token that is no longer valid is renewed: nothing was done with it."""
        if deadline_s is None:
            deadline_s = self._deadline_s + len(body) / _BYTES_PER_S
        expiry: Metadata = (("grpc-timeout", f"{int(deadline_s * 1000)}m"),) if expires else ()
        channel = await self._endpoints.channel(endpoint)
        for may_be_stale in (True, False):
            try:
                metadata = (*await self._credentials(channel), *expiry)
                return await channel.call(path, body, deadline_s, metadata)
            except Said as said:
                if not (self._user and may_be_stale and said.is_stale_token):
                    raise _explained(said) from None
                self._token = None
        raise AssertionError("the second try answers or raises")

    async def _first_open(self) -> tuple[Endpoint, Channel]:
        complaints: list[str] = []
        for endpoint in self._endpoints.in_order():
            try:
                return endpoint, await self._endpoints.channel(endpoint)  # it has answered
            except NotSent as wrong:
                complaints.append(wrong.message)
                await self._endpoints.failed(endpoint, wrong.message)
        raise NotSent("etcd does not answer: " + "; ".join(complaints))

    async def _next_message(self, endpoint: Endpoint, stream: Stream, quiet_s: float) -> bytes:
        """A server that says nothing is asked for a sign of life; one that gives none is left."""
        try:
            async with asyncio.timeout(quiet_s):
                return await stream.receive()
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout(_SILENT_S):
                await stream.send(m.ask_for_progress())
                return await stream.receive()
        except TimeoutError:
            await self._endpoints.failed(endpoint, "it is silent")
            raise Lost(f"{endpoint} is silent") from None

    async def _credentials(self, channel: Channel) -> Metadata:
        if not self._user:
            return ()
        if self._token is None:
            self._token = await self._authenticated(channel)
        return (("token", self._token),) if self._token else ()

    async def _authenticated(self, channel: Channel) -> str:
        request = m.authenticate(self._user, self._password)
        try:
            return m.token(await channel.call(_AUTH + "Authenticate", request, self._deadline_s))
        except Lost as wrong:
            raise NotSent(wrong.message) from wrong  # of what was to be done, nothing has left
        except Said as said:
            if "authentication is not enabled" in said.reason:
                return ""
            if said.is_passing:
                raise NotSent(said.message) from None
            raise ClusterError(
                f"etcd refuses the user {self._user!r}: {said.reason}",
                hint="check user and password of the journal",
            ) from None


def _explained(said: Said) -> Said | ClusterError:
    """What no other try can mend."""
    if "user name is empty" in said.reason:
        return ClusterError("etcd wants a user and a password", hint="etcd://USER@HOST?password_file=FILE")
    if "permission denied" in said.reason:
        return ClusterError(
            "etcd does not permit this user what the journal needs",
            hint="grant its role readwrite on the journal's prefix",
        )
    return said
