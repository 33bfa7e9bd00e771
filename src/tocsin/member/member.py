"""The etcd member of this replica: founded, joined or just started, and kept running."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from tocsin.clock import Clock, SystemClock
from tocsin.config import Settings
from tocsin.errors import ClusterError, TocsinError
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.member.address import PORTS, etcd_url, on_host, parse_cluster, raft_url
from tocsin.member.founding import Found, Greeter, Inquiry
from tocsin.member.health import Watch, endpoint_of, is_running
from tocsin.member.joining import Door, Ticket
from tocsin.member.process import Process
from tocsin.member.program import Program, find_program, listening_host
from tocsin.member.record import Memory
from tocsin.member.recovery import RECOVERING, Recovery
from tocsin.member.secret import Credentials
from tocsin.member.secret_file import read_secrets
from tocsin.model.cluster import Hello, Voters, majority_of

_log = structlog.get_logger()
_ANSWER_S = 2.0


class Enrolment:
    """What the settings say of the cluster: who this replica is, who the others are, and what proves it."""

    def __init__(self, settings: Settings) -> None:
        members = parse_cluster(settings.cluster, settings.replica_name(), 1 if settings.journal else PORTS)
        self.own = next(member for member in members if member.name == settings.replica_name())
        self.others = [member for member in members if member is not self.own]
        self.spelt = ",".join(f"{member.name}={member.peer}" for member in members)
        self.folder = settings.data.resolve() / "member"
        if not settings.cluster_secret:
            raise ClusterError(
                "a cluster needs a secret that all its replicas share",
                hint="(umask 077; tocsin cluster secret > FILE), then --cluster-secret FILE on each of them",
            )
        self.secrets = read_secrets(Path(settings.cluster_secret))
        self.credentials = Credentials(self.secrets, self.own, self.folder / "tls")
        self.credentials.write()

    def server_context(self) -> ssl.SSLContext:
        return self.credentials.server_context()

    def client_context(self) -> ssl.SSLContext:
        return self.credentials.client_context()


class EtcdMember:
    """A foundation of the replica: the journal is opened when it has started and closed before it stops."""

    def __init__(
        self,
        enrolment: Enrolment,
        greeter: Greeter,
        *,
        prefix: str = DEFAULT_PREFIX,
        program: str = "etcd",
        recover: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._enrolment = enrolment
        self._own = enrolment.own
        self._prefix = prefix
        self._program = program
        self._recover = recover
        self._clock = clock or SystemClock()
        self._memory = Memory(enrolment.folder, self._own.name)
        self._greeter = greeter
        self._inquiry = Inquiry(enrolment.others, greeter, self._clock)
        self._recovery = Recovery(self._own.name, self._memory, self._inquiry, self._clock)
        self._process: Process | None = None
        self._watch: Watch | None = None
        self._client: EtcdClient | None = None
        self._others: EtcdClient | None = None
        self._ticket: Ticket | None = None
        self._force = False
        self._is_recovering = recover
        self._waiting = ""
        self._is_removed = False
        self._lost: ClusterError | None = None
        self._lost_event = asyncio.Event()

    # What others ask of it

    def condition(self) -> Hello:
        """What ``hello`` answers, before the start as well."""
        record = self._memory.record
        # Who is joining remembers from its first entry on, not only when its journal is open.
        joining = record.condition in ("empty", "bereft") and self._memory.has_data()
        is_copy = self._memory.is_copy() and not self._is_recovering
        condition = "copied" if is_copy else "founded" if joining else record.condition
        # A replica that joined before the loss is written down could take office and know nothing of it.
        is_recovering = self._is_recovering or (self.recovered_ms is not None and not is_copy)
        return Hello(
            self._own.name,
            "recovering" if is_recovering else condition,
            record.token,
            founding=record.founding,
            cluster=self._enrolment.spelt,
        )

    def mark_founded(self) -> None:
        """The journal is open: from now on an empty replica joins this one."""
        if self._memory.record.condition != "founded":
            self._memory.keep(condition="founded")

    def endpoints(self) -> list[Endpoint]:
        """Of etcd's clients: this replica's own first."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(found := listening_host(self._own), found)
        urls = [on_host(self._own, host, 2), *(etcd_url(member) for member in self._enrolment.others)]
        return [endpoint_of(url) for url in urls]

    def server_context(self) -> ssl.SSLContext:
        return self._enrolment.server_context()

    def client_context(self) -> ssl.SSLContext:
        return self._enrolment.client_context()

    @property
    def problem(self) -> str:
        """What keeps it from working, in one sentence; empty: nothing."""
        if self._lost is not None:
            return str(self._lost)
        watched = self._watch.problem if self._watch else ""
        return self._waiting or watched

    def voters(self) -> Voters | None:
        """None: not known yet."""
        names = self._watch.voters if self._watch else []
        return majority_of(names) if names else None

    async def lost(self) -> ClusterError:
        """Returns when this replica belongs to the cluster no longer: it has to stop, and this says why."""
        await self._lost_event.wait()
        assert self._lost is not None
        return self._lost

    async def check_membership(self) -> None:
        """Raises ClusterError if this replica was removed, JournalUnavailable if no majority can tell."""
        assert self._watch is not None
        if not await self._watch.confirm():
            self._on_removed()
        if self._lost is not None:
            raise self._lost

    @property
    def recovered_ms(self) -> int | None:
        """When the cluster went on with this replica alone; None: it did not, or ``recovery_noted`` was called."""
        return self._recovery.marked_ms()

    @property
    def has_joined(self) -> bool:
        """It was let in anew. What it has applied before may be what the others went on without (``--recover``)."""
        return self._memory.record.joined

    def state_taken_over(self) -> None:
        """It has the state of the others."""
        if self._memory.record.joined:
            self._memory.keep(joined=False)

    def recovery_noted(self) -> None:
        """It stands in the journal."""
        self._recovery.unmark()

    # Start and stop

    async def start(self) -> None:
        """Returns when etcd has a majority. Raises ``ClusterError`` when this replica cannot or may not take part; then
        nothing is left running."""
        self._memory.lock()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        program = await asyncio.to_thread(find_program, self._program)
        self._enrolment.credentials.write()
        self._enrolment.credentials.remove_former_authorities()
        secret, *trusted = self._enrolment.credentials.fingerprints
        _log.info(
            "this replica is part of a cluster",
            name=self._own.name,
            replicas=self._enrolment.spelt,
            secret=secret,
            **({"trusted_too": ", ".join(trusted)} if trusted else {}),
        )
        self._client = self._client_of([self.endpoints()[0]])
        self._others = self._client_of(self.endpoints()[1:])
        self._force = self._is_recovering = await self._recovery.is_due(self._recover)
        is_copy = not self._force and self._memory.is_copy()
        if is_copy:
            self._judge_copy()
        # An etcd may still run that has lost its disk. It is not to go on.
        afresh = self._force or is_copy or not self._memory.has_data()
        if not self._memory.has_data() or (is_copy and self._enrolment.others):
            await self._settle()
        elif not self._force:
            await self._check_alone()
        if self._is_recovering:
            self._memory.disown()  # a recovery that is broken off must not be taken for a replica that knows everything
        process, watch = await self._run(program, afresh)
        if self._is_recovering:
            await self._recovery.check_journal(self._client, self._prefix)
            await self._recovery.make_whole(self._client)
            await process.stop()
            self._force = False
            process, watch = await self._run(program, afresh=True)
            self._recovery.mark()
            self._is_recovering = False
        watch.start()

    def _judge_copy(self) -> None:
        """A copy may be older than what this replica has acknowledged: only the other replicas can know that."""
        if self._enrolment.others:
            _log.warning(
                "the etcd data of this replica is a copy and may be too old: it joins the other replicas anew"
                if not self._memory.is_disowned()
                else "the etcd data of this replica must not vote: a recovery was broken off, or another has its place",
                directory=str(self._memory.etcd),
                remedy="start the other replicas first; if they are lost, start this one with --recover",
            )
            return
        if self._memory.is_disowned():
            raise ClusterError(
                "a recovery of this replica was broken off",
                hint="start it with --recover; launches since the loss are in doubt then",
            )
        _log.warning(
            "the etcd data of this replica is a copy; --cluster names no other replica, so it goes on from there",
            directory=str(self._memory.etcd),
            remedy="if the cluster has other replicas, stop this one and name them in --cluster",
        )
        if self._memory.is_surely_copy():
            self._recovery.mark()  # what was launched since the copy was made stands in no record
        else:
            self._memory.sign()

    async def _check_alone(self) -> None:
        """Its disk may be a copy. Two etcds that are one member would each acknowledge what the other does not have."""
        assert self._others is not None
        number = self._memory.record.member
        try:
            peers = await self._others.members(agreed=False)
        except TocsinError:
            return  # nobody answers who could know
        for peer in peers:
            has_moved = peer.id == number and raft_url(self._own) not in peer.peer_urls
            for url in peer.client_urls if has_moved else ():
                if await is_running(self._others, peer, url):
                    raise _copied(self._own.name, url)

    async def _run(self, program: Program, afresh: bool) -> tuple[Process, Watch]:
        """Returns when etcd answers with a majority behind it."""
        assert self._client is not None
        assert self._others is not None
        process = self._process = Process(
            program.command(self._own, self._enrolment.credentials, self._memory.etcd),
            self._memory.etcd,
            self._clock,
            once=self._once,
            removed=self._confirm_removal,
            went_back=self._on_log_went_back,
        )
        watch = self._watch = Watch(
            self._own,
            process,
            self._client,
            self._others,
            self._clock,
            number=self._memory.record.member,
            removed=self._on_removed,
            displaced=self._on_displaced,
        )
        await process.start(watch.answers, afresh=afresh)
        await self._until_usable()
        if number := await watch.number():
            self._memory.keep(member=number)
        return process, watch

    async def stop(self) -> None:
        """In good order: if this member leads the others, another one does before it goes."""
        if self._watch is not None:
            await self._watch.stop()
            await self._watch.hand_over()
        if self._process is not None:
            await self._process.stop(at_once=self._is_removed)
            if self._is_removed:
                self._put_aside()
            else:
                self._renew_mark()
        for client in (self._client, self._others):
            if client is not None:
                await client.close()
        self._watch = self._process = self._client = self._others = None
        self._memory.unlock()

    def _renew_mark(self) -> None:
        """Before etcd is started and after it has ended: a copy that was made before is then recognised by the name of
        its mark. But data of which nobody has said that it is this replica's own does not become so by a stop."""
        if self._memory.has_data() and not self._memory.is_copy() and not self._is_recovering:
            with suppress(ClusterError):  # a full disk: the present mark stays, and is as good
                self._memory.sign()

    async def _settle(self) -> None:
        """etcd has no data, or a copy: found or join."""
        choice = await self._inquiry.settle(self.condition(), self._tell)
        if isinstance(choice, Found):
            self._memory.keep(condition="founding", founding=choice.token)
            _log.info("all replicas are there and empty: they found the cluster")
            await self._inquiry.gather()
        else:
            if self._memory.record.condition == "founding":
                self._memory.keep(condition="empty", founding="")
            _log.info("this replica joins the cluster", through=", ".join(choice.others))
            self._ticket = await self._enter()
            if self._memory.is_copy():
                aside = self._memory.set_aside(asked=True)
                _log.warning("the copy of the former etcd data was put aside", aside=str(aside))
            self._memory.keep(joined=True)

    async def _once(self) -> list[str]:
        """What etcd needs to be told as long as it has no data; nothing any more when it has."""
        if self._memory.has_data():
            self._check_original()
            self._renew_mark()
            return list(RECOVERING) if self._force else []
        with suppress(FileNotFoundError):
            shutil.rmtree(self._memory.etcd)
        self._memory.sign(member=0)
        if self._watch is not None:
            self._watch.forget_number()
        record = self._memory.record
        if record.condition == "founding":
            members = [self._own, *self._enrolment.others]
            together = ",".join(f"{member.name}={raft_url(member)}" for member in members)
            return _initial("new", together, f"tocsin-{record.founding}")
        ticket, self._ticket = self._ticket or await self._enter(), None
        return _initial("existing", ticket.initial_cluster)

    def _check_original(self) -> None:
        """The data may have been replaced while this process runs."""
        if self._memory.is_copy() and not self._is_recovering:
            raise ClusterError(
                f"{self._memory.etcd} is a copy, and not the directory that this replica wrote",
                hint="restart this replica: it then joins the others anew",
            )

    async def _enter(self) -> Ticket:
        assert self._others is not None
        roster = EtcdRoster(self._others, self._prefix)
        door = Door(self._own, self._memory, self._others, roster, self._greeter, self._clock)
        return await door.enter(self._tell)

    async def _until_usable(self) -> None:
        assert self._watch is not None
        usable = asyncio.create_task(self._watch.until_usable(self._tell, self._inquiry.missing))
        gone = asyncio.create_task(self._lost_event.wait())
        # A replica that recovers goes on without the others, whatever they have agreed on.
        removed = [] if self._is_recovering else [asyncio.create_task(self._watch.until_removed())]
        try:
            await asyncio.wait((usable, gone), return_when=asyncio.FIRST_COMPLETED)
            if self._lost is not None:
                raise self._lost
            await usable
        finally:
            for waiting in (usable, gone, *removed):
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting

    # Small things

    def _client_of(self, endpoints: list[Endpoint]) -> EtcdClient:
        return EtcdClient(endpoints, tls=self.client_context(), deadline_s=_ANSWER_S)

    def _tell(self, what: str) -> None:
        self._waiting = what

    async def _confirm_removal(self) -> bool:
        """etcd says that it was removed. If the others do not say so too, nothing is given up."""
        assert self._watch is not None
        if not await self._watch.is_removed():
            return False
        self._on_removed()
        return True

    def _on_removed(self) -> None:
        """The others have agreed on it. Nothing here touches the disk, which may be what is broken: the replica has to
        stop first, and the data is put aside when etcd has ended."""
        if self._lost is not None:
            return
        self._is_removed = True
        aside = str(self._memory.aside)
        _log.error("this replica was removed from the cluster; it stops", aside=aside)
        self._lose(
            f"{self._own.name} was removed from the cluster; its data is put aside to {aside}",
            hint=f"to let it in again, run: tocsin cluster add {self._own.name}={self._own.peer}, and start it",
        )

    def _put_aside(self) -> None:
        """The data is of no use any more. What cannot be put aside now is put aside by the next start, which finds the
        same list of members."""
        try:
            self._memory.set_aside()
        except (OSError, ClusterError) as wrong:
            _log.warning("the data of the removed etcd was not put aside", reason=str(wrong))

    async def _on_displaced(self, url: str) -> None:
        """Two etcds with one number: each votes and acknowledges as if the other did not exist. The etcd here ends at
        once. Its data lacks what the other one has acknowledged, so it does not vote again."""
        assert self._process is not None
        _log.error("another etcd has taken the address of this replica's etcd; it stops", other=url)
        await self._process.stop(at_once=True)
        self._memory.disown()
        self._lose(
            f"another machine runs as {self._own.name}, with the etcd data of this one: the other replicas reach it at "
            f"{url}, so {self._own.name} stops here",
            hint="one of the two is a clone: stop it. Whichever is started then joins the others anew; a further "
            "replica needs a --name of its own and an empty --data directory",
        )

    def _on_log_went_back(self) -> None:
        """The leader of the etcds counts on entries that the log here does not have."""
        _log.error("the etcd data of this replica is older than what it has acknowledged; it stops")
        self._memory.disown()
        self._lose(
            f"{self._own.name} stops: its etcd data is older than what it has acknowledged. Its machine was put back "
            "to an earlier snapshot, or a clone of it runs elsewhere",
            hint="stop the clone, if there is one, and start this replica again: it then joins the others anew",
        )

    def _lose(self, why: str, hint: str) -> None:
        self._lost = ClusterError(why, hint=hint)
        self._lost_event.set()


def _copied(name: str, url: str) -> ClusterError:
    return ClusterError(
        f"{name} runs already: its etcd answers at {url}, and the disk here is a copy of its disk",
        hint="stop that one first if this replica has moved; another replica needs a name and an empty directory",
    )


def _initial(state: str, members: str, token: str = "") -> list[str]:
    given: dict[str, Any] = {"initial-cluster-state": state, "initial-cluster": members}
    if token:
        given["initial-cluster-token"] = token
    return [f"--{name}={value}" for name, value in given.items()]
