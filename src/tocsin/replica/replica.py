"""One process holding the state: start, stop, propose, read. It follows, and leads when it is its turn (``career``)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import structlog

from tocsin import __version__
from tocsin.backup.manifest import BackupManifest
from tocsin.decide.retention import Retention
from tocsin.errors import (
    CannotApply,
    Gap,
    JournalUnavailable,
    NoLeader,
    Refused,
    Stopping,
    Uncertain,
    Unreachable,
)
from tocsin.journal import codec
from tocsin.model.cluster import Asked, PeerStatus
from tocsin.model.command import Command, MakeCheckpoint
from tocsin.model.entry import Entry
from tocsin.replica.claims import ASKED_S, check_term
from tocsin.replica.clock_guard import guarded
from tocsin.replica.entry_skip import EntrySkip, forget, is_noted, note
from tocsin.replica.follower import catch_up
from tocsin.replica.leader import GRACE_S
from tocsin.replica.nagging import Nag
from tocsin.replica.notices import Applied
from tocsin.replica.office import DataLock
from tocsin.replica.origins import Origins
from tocsin.replica.parts import Parts, Setup
from tocsin.replica.peers import Answered, Fate
from tocsin.replica.recovery import Recovery, mark_damaged
from tocsin.replica.snapshotter import Snapshotter
from tocsin.state import seal
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Meta
from tocsin.targets.contract import Output

log = structlog.get_logger()
_P = ParamSpec("_P")
_T = TypeVar("_T")
_READERS = 2
PATIENCE_S = 8.0
"""So long a caller waits for somebody to take office, and to see here what was done there."""


class Foundation(Protocol):
    """Something that has to run before the journal can be opened."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def _raised(ending: Callable[[], Awaitable[BaseException]]) -> None:
    raise await ending()


class Replica:
    """Holds the state of one journal, and leads it while in office."""

    def __init__(self, setup: Setup, api: str = "") -> None:
        self.name = setup.name
        self.metrics = setup.metrics
        self.clock = guarded(setup.clock, setup.paths.clock)
        """What all of it goes by."""
        self.api = api
        self.foundations: list[Foundation] = []
        """Started before the journal is opened, in order; stopped after it is closed."""
        self.on_open: Callable[[], Awaitable[None]] | None = None
        """Called when the journal is open."""
        self.endings: list[Callable[[], Awaitable[BaseException]]] = []
        """Each returns when this replica cannot go on, and why."""
        self.troubles: list[Callable[[], str]] = []
        """What is wrong with what it stands on, in words."""
        self.secrets: list[str] = []
        """Fingerprints of the cluster's secrets that it was started with; the first is of the one in use."""
        self._setup = setup
        self._lock = DataLock(setup.paths.lock)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        self._readers = ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="reader")
        self._has_closed_readers = False
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._parts: Parts | None = None
        self._standing: list[Foundation] = []
        self._waits_for = ""
        self._started_ms = self.clock.wall_ms()

    # Its life

    async def start(self) -> None:
        """Returns when it leads and has concluded what was open, or follows and has caught up."""
        self._lock.take()
        try:
            await self._start()
        except BaseException:
            await self._leave_foundations()
            raise

    async def _start(self) -> None:
        setup, origins = self._setup, Origins(self._setup)
        for foundation in self.foundations:
            self._standing.append(foundation)
            await foundation.start()
        await origins.prepare()
        await self._patiently(lambda: setup.journal.open(origins.of_journal))
        origins.check(setup.journal.birth)
        if self.on_open is not None:
            await self._patiently(self.on_open)
        recovery = Recovery(
            setup.journal,
            setup.paths.state,
            setup.paths.snapshots,
            setup.metrics,
            [origins.from_peers, origins.from_backup],
            may_go_back=setup.losses.may_leave_state_ahead,
            others_may_come=setup.office.renew_s is not None and not setup.losses.are_to_be_noted,
            cannot_apply=is_noted(setup.paths.cannot_apply),
            may_be_foreign=setup.losses.may_leave_foreign_state,
        )
        self._store = await self._patiently(recovery.store)
        await asyncio.to_thread(setup.losses.state_begun)
        await origins.tidy()
        parts = Parts(setup, self._store, self._on_state, self.status, self, self.clock)
        await self._catch_up(parts)
        meta = self._store.meta
        self.clock.begin(meta.time_ms)
        setup.office.observed(self.clock.elapsed_s(), term=meta.term, is_vacant=not meta.leader)
        await asyncio.to_thread(parts.own_terms.load)
        await asyncio.to_thread(parts.kept_answers.load)
        await parts.settle_terms()
        for target in setup.targets.values():
            await target.start(meta.time_ms)
        self._parts = parts
        self._tasks = [*parts.run(), *(asyncio.create_task(_raised(ending)) for ending in self.endings)]
        ready = asyncio.create_task(parts.career.ready.wait())
        await asyncio.wait([ready, self._tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        if self._tasks[0].done():
            ready.cancel()
            error = await self.failed()
            await self.stop()
            if error is not None:
                raise error

    async def _catch_up(self, parts: Parts) -> None:
        """With the journal. An entry that cannot be applied is skipped if an operator has asked for it and all replicas
        agree; then it is another entry that is applied."""
        setup, paths = self._setup, self._setup.paths
        skip = EntrySkip(setup, self._store)
        while True:
            try:
                await self._patiently(
                    lambda: catch_up(setup.journal, parts.applier, self._store, self._on_state)
                )
                break
            except CannotApply as failure:
                await asyncio.to_thread(note, paths.cannot_apply, failure)
                await self._patiently(partial(skip.carry_out, failure))
        await asyncio.to_thread(forget, paths)

    async def _patiently(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """A quorum that is electing does not answer for a moment: that is no reason not to start."""
        nag = Nag(self.clock)
        while True:
            try:
                done = await work()
                self._waits_for = ""
                return done
            except JournalUnavailable as wrong:
                if self._setup.office.renew_s is None:
                    raise
                self._waits_for = str(wrong)
                if nag.is_due(self._waits_for):
                    log.warning("the journal does not answer yet", reason=self._waits_for, for_s=nag.lasted_s)
            await asyncio.sleep(0.5)

    async def failed(self) -> BaseException | None:
        """Returns when a part of it ends: with what ended it, or None after ``stop``."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        error = next((task.exception() for task in done if task.exception() is not None), None)
        mark_damaged(self._setup.paths.state, error)
        if isinstance(error, CannotApply):
            note(self._setup.paths.cannot_apply, error)
        return error

    async def stop(self) -> None:
        """Leave office cleanly. Commands that run go on running."""
        parts = self.parts
        parts.stop()
        parts.applier.applied.end()
        for task in self._tasks[len(self._tasks) - len(self.endings) :]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        is_sole = self._setup.office.renew_s is None
        await parts.afterlife.finish(0.0 if is_sole else GRACE_S)  # alone, nobody would ask
        for target in self._setup.targets.values():
            await target.stop()
        await self._setup.journal.close()
        parts.snapshotter.close()
        self._has_closed_readers = True
        self._readers.shutdown(wait=True)
        for connection in self._connections:
            connection.close()
        await self._on_state(seal.close, self._store)
        self._writer.shutdown(wait=True)
        await self._leave_foundations()

    async def _leave_foundations(self) -> None:
        for foundation in reversed(self._standing):
            await foundation.stop()
        self._standing = []
        self._lock.leave()

    # What others may ask of it

    async def propose(self, command: Command) -> Any:
        """Make a command durable and apply it, on whichever replica leads. Raises ``Refused`` if it does not fit the
        present state, ``NoLeader`` if nobody leads and nothing was done."""
        return await self._with_leader(lambda: self._try_to_propose(command))

    async def catch_up(self) -> None:
        """Apply what the leader has applied by now. Before somebody is told that there is no such thing, or another
        version of it: the write that says otherwise may be under way to this replica. Raises ``NoLeader``."""
        await self._with_leader(self._try_to_catch_up)

    async def _with_leader(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Somebody else may be taking over: it is waited for, unless there is a leader and no way to it from here."""
        began_s = self.clock.elapsed_s()
        until_s, opens_s = began_s + PATIENCE_S, began_s + self._setup.office.opens_in_s()
        while True:
            seq = self.meta.seq
            try:
                return await ask()
            except NoLeader as nobody:
                if (
                    self._is_out_of_reach(opens_s)
                    or self.clock.elapsed_s() >= until_s
                    or self.applied.is_over
                ):
                    raise
                log.debug("nobody to carry it out yet", reason=str(nobody))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self.applied.wait_beyond(seq)

    def _is_out_of_reach(self, opens_s: float) -> bool:
        """Does somebody else lead, and there is no way to them from here? They do if they were heard of since the
        moment when this replica could have stood for election at ``opens_s``."""
        if self._setup.peers.are_reachable or self.meta.leader in ("", self.name):
            return False
        return self.clock.elapsed_s() + self._setup.office.opens_in_s() > opens_s + 0.05

    async def _try_to_propose(self, command: Command) -> Any:
        leader = self.meta.leader
        if self.is_leader or leader in ("", self.name):
            return await self.parts.career.propose(command)
        answered = await self._setup.peers.propose(leader, command)
        await self._applied_here(answered.seq, "it was done, but this replica has not heard of it yet")
        return answered.result

    async def _try_to_catch_up(self) -> None:
        leader = self.meta.leader
        if not self.parts.has_authority:
            if self.is_leader or leader in ("", self.name):
                raise NoLeader("nobody leads at this moment", hint="try again in a moment")
            position = await self._setup.peers.position(leader)
            try:
                await self._applied_here(position, "this replica has not heard yet of all that was done")
            except Uncertain as behind:
                raise NoLeader(behind.message, hint="try again in a moment") from None

    async def _applied_here(self, seq: int, otherwise: str) -> None:
        """What was done there is to be seen here, before whoever asked for it looks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self.applied.wait_beyond(seq - 1)
        if self.applied.seq < seq:  # also where it stops: then no more entries are applied here
            raise Uncertain(otherwise, hint="look again in a moment")

    async def read(
        self, query: Callable[Concatenate[sqlite3.Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Ask the state, on a thread and a connection that hold nobody up."""
        loop = asyncio.get_running_loop()
        try:
            asked = loop.run_in_executor(self._readers, lambda: query(self._reader(), *args, **kwargs))
        except RuntimeError as wrong:
            if not self._has_closed_readers:
                raise NoLeader(
                    f"the state cannot be read now: {wrong}", hint="try again in a moment"
                ) from wrong
            raise Stopping("this replica has stopped") from wrong
        return await asked

    async def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        """The next entries behind that one, up to the last one applied. Raises ``Gap`` where they were trimmed away.

        One by one: it takes no more memory than the entries that are returned, and holds up no append for longer
        than one of them takes to be read.
        """
        found: list[tuple[int, Entry]] = []
        for seq in range(after + 1, min(after + limit, self.meta.seq) + 1):
            record = await self._setup.journal.get(seq)
            if record is None:
                if found:
                    break
                raise Gap(f"journal entry {seq} is no longer kept")
            loop = asyncio.get_running_loop()
            found.append((seq, await loop.run_in_executor(self._readers, codec.decode, record.raw, seq)))
        return found

    async def first_kept(self) -> int:
        """The sequence number of the first entry that the journal still holds."""
        return (await self._setup.journal.bounds()).first

    async def snapshot_now(self) -> Manifest:
        """Every replica makes a snapshot. Returns this one's."""
        seq: int = await self.propose(MakeCheckpoint())
        snapshotter = self.snapshotter
        while snapshotter.newest is None or snapshotter.newest.seq < seq:
            taken = snapshotter.taken
            if snapshotter.newest is None or snapshotter.newest.seq < seq:
                await taken.wait()
                if snapshotter.failure:
                    raise Refused(f"no snapshot could be made: {snapshotter.failure}")
        return snapshotter.newest

    async def backup_now(self) -> BackupManifest:
        """A snapshot, copied to the place of the backups."""
        if self.parts.backuper is None:
            raise Refused("there is no place for backups", hint="start the service with --backup URL")
        return await self.parts.backuper.copied(await self.snapshot_now())

    async def step_down(self) -> None:
        """Resign, on whichever replica leads."""
        if self.is_leader:
            others = (await self.parts.rounds.look()).statuses.values()
            if not any(status is not None and status.role == "follower" for status in others):
                raise Refused("no other replica answers that could take over")
            self.parts.career.step_down()
        elif self.meta.leader in ("", self.name):
            raise NoLeader("nobody leads at this moment")
        else:
            await self._setup.peers.step_down(self.meta.leader)

    # What other replicas may ask of it

    async def carry_out(self, command: Command) -> Answered:
        """Raises NoLeader if it does not lead: then nothing was done."""
        result = await self.parts.career.propose(command)
        return Answered(self.meta.seq, result)

    async def fates(self, asked: Sequence[Asked], term: int) -> list[Fate]:
        """What became of attempts that were to be made here. Whoever asks leads in that term: ours are over."""
        await check_term(self._setup.journal, self.meta.term, term)
        leader = self.parts.career.any_leader
        if leader is not None:
            leader.depose(term)
        self.parts.afterlife.end_before(term)
        if any(each.term not in self.parts.afterlife.terms() for each in asked):
            await self._knows_ends_before(term)
        return await self.parts.afterlife.fates(asked)

    async def _knows_ends_before(self, term: int) -> None:
        """A term's last entry is known here once the next term has begun here. Until then a missing record proves
        nothing. Raises ``Unreachable`` where that takes too long: whoever asks will ask again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASKED_S):
                while self.meta.term < term and not self.applied.is_over:
                    await self.applied.wait_beyond(self.meta.seq)
        if self.meta.term < term:  # also where it stops: then it never will
            raise Unreachable(f"{self.name} has not applied the beginning of term {term} yet")
        await self.parts.settle_terms()

    async def cancel_here(self, asked: Asked, reason: str) -> None:
        await self.parts.afterlife.cancel(asked, reason)

    async def output_here(self, kind: str, name: str, attempt: int) -> Output | None:
        target = self._setup.targets.get(kind)
        return None if target is None else await target.output(name, attempt)

    def lend(self, seq: int) -> AbstractContextManager[tuple[Manifest, Path]]:
        return self.snapshotter.lend(seq)

    def snapshots(self) -> list[Manifest]:
        return self.snapshotter.held

    def status(self) -> PeerStatus:
        """Works before anything is started."""
        wall_ms = self.clock.system_ms()
        if self._parts is None:
            return PeerStatus(
                name=self.name,
                version=__version__,
                role="starting",
                wall_ms=wall_ms,
                clock="unknown",
                api=self.api,
                secrets=self.secrets,
                problem=self._waits_for or self.trouble,
            )
        meta, parts = self.meta, self._parts
        # A leader that is not heard by a majority any more does not lead, whoever comes next.
        is_cut_off = parts.career.role == "leader" and not parts.has_authority
        return PeerStatus(
            name=self.name,
            version=__version__,
            role="follower" if is_cut_off else parts.career.role,
            term=meta.term,
            leader="" if is_cut_off else meta.leader,
            sequence=meta.seq,
            incarnation=meta.incarnation,
            wall_ms=wall_ms,
            clock=self.clock.state,
            clock_step_ms=self.clock.step_ms(),
            clock_preceded_by=parts.rounds.preceded_by(),
            started_ms=self._started_ms,
            api=self.api,
            secrets=self.secrets,
            snapshots=parts.snapshotter.marks(),
            digests=dict(parts.applier.digests),
            lent_seq=parts.snapshotter.lent_seq(),
            limits=parts.limits.views() if parts.limits and parts.career.role == "leader" else [],
            problem=self.problem,
        )

    # Small facts

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            raise NoLeader("this replica is starting", hint="try again in a moment")
        return self._parts

    @property
    def meta(self) -> Meta:
        self.parts  # noqa: B018  # why: raises while it is starting, when there may be no state yet
        return self._store.meta

    @property
    def told_ms(self) -> int:
        """Until when this replica is known to know everything, by the wall clock."""
        return self.parts.told_ms

    @property
    def is_leader(self) -> bool:
        return self.parts.career.leader is not None

    @property
    def retention(self) -> Retention:
        """How much history is kept."""
        return self._setup.retention

    @property
    def snapshotter(self) -> Snapshotter:
        return self.parts.snapshotter

    @property
    def applied(self) -> Applied:
        """Tells when the next entry has been applied."""
        return self.parts.applier.applied

    @property
    def problem(self) -> str:
        """What keeps it from working, in words; empty when it works."""
        if self._tasks and self._tasks[0].done() and not self._tasks[0].cancelled():
            return f"the scheduling loop has ended: {self._tasks[0].exception()}"
        return self.parts.problem or self.trouble

    @property
    def trouble(self) -> str:
        """The problem of a part that this replica runs, and that others may do in its place; empty: there is none."""
        return next(filter(None, (trouble() for trouble in self.troubles)), "")

    @property
    def open_calls(self) -> int:
        launcher = self.parts.launcher
        return 0 if launcher is None else launcher.calls

    @property
    def open_payload_bytes(self) -> int:
        launcher = self.parts.launcher
        return 0 if launcher is None else launcher.payload_bytes

    async def _on_state(self, work: Callable[..., _T], *args: Any) -> _T:
        """On the one thread that may write the state."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, lambda: work(*args))

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._store.reader()
            self._connections.append(connection)
        return connection
