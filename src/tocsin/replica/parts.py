"""What a replica is made of once its state is there, and how the parts are joined."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from tocsin.backup.store import Backups
from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.errors import Gap, Unreachable
from tocsin.journal.contract import Journal, PresenceStore, SnapshotStore
from tocsin.model.cluster import Asked, PeerStatus, Voters
from tocsin.model.limit import Limit
from tocsin.observe.metrics import Metrics
from tocsin.replica import auditor, silence
from tocsin.replica.afterlife import Afterlife
from tocsin.replica.applying import Applier, OnApplied, OnDropped
from tocsin.replica.auditor import Auditor, Reading
from tocsin.replica.backuper import Backuper
from tocsin.replica.career import Career
from tocsin.replica.chain import ChainCheck
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.clock_witness import ClockWitness
from tocsin.replica.consents import NobodyElse, SkipConsents
from tocsin.replica.digesting import Digesting, Digests
from tocsin.replica.elsewhere import Elsewhere
from tocsin.replica.follower import Follower
from tocsin.replica.forgetting import Forgetting
from tocsin.replica.housekeeper import Housekeeper
from tocsin.replica.kept_answers import KeptAnswers
from tocsin.replica.lanes import Room
from tocsin.replica.launcher import Launcher
from tocsin.replica.leader import Leader
from tocsin.replica.limits import Limits
from tocsin.replica.liveness import DISK_TAKES_NO_WRITES, DiskProbe, Liveness
from tocsin.replica.objection import Objection, nobody_was_asked
from tocsin.replica.office import ElectedOffice, Office, SoleOffice
from tocsin.replica.peers import Fate, NoPeers, Peers
from tocsin.replica.presence import Heartbeat, Host, Observer, PresencePart, Turns, in_thread
from tocsin.replica.proposer import Proposer
from tocsin.replica.publisher import SnapshotPublisher
from tocsin.replica.recovery import remedy_of_divergence
from tocsin.replica.rounds import Rounds
from tocsin.replica.silence import Silence
from tocsin.replica.snapshotter import Snapshotter
from tocsin.replica.surroundings import Losses, NoLosses, Surroundings
from tocsin.replica.terms import OwnTerms, settle
from tocsin.replica.wal import WalCheckpointer
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store
from tocsin.targets.contract import Target

log = structlog.get_logger()
SNAPSHOT_SPARED = 10
"""So many times as long as the last snapshot took no other is made."""


class Paths(msgspec.Struct, frozen=True):
    """Where a replica keeps its things."""

    data: Path

    @property
    def state(self) -> Path:
        return self.data / "state.db"

    @property
    def snapshots(self) -> Path:
        return self.data / "snapshots"

    @property
    def restore(self) -> Path:
        """A snapshot that a person has put there, for a new journal to go on from."""
        return self.data / "restore"

    @property
    def terms(self) -> Path:
        """Those in which this disk led."""
        return self.data / "terms"

    @property
    def offered(self) -> Path:
        """The last entry that this disk offered to the journal."""
        return self.data / "offered"

    @property
    def answers(self) -> Path:
        """Answers to calls that nobody has asked after."""
        return self.data / "answers"

    @property
    def disk(self) -> Path:
        """An id of this disk, made by chance."""
        return self.data / "disk"

    @property
    def clock(self) -> Path:
        """How far the wall clock was from the clock that never steps."""
        return self.data / "clock.json"

    @property
    def cannot_apply(self) -> Path:
        """The entry that could not be applied here."""
        return self.data / "cannot-apply.json"

    @property
    def skip(self) -> Path:
        """The entry that an operator wants skipped."""
        return self.data / "skip.json"

    @property
    def lock(self) -> Path:
        return self.data / "office.lock"

    @property
    def alive(self) -> Path:
        """Overwritten with the time, as long as the disk takes writes."""
        return self.data / "alive"


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root decides."""

    name: str
    paths: Paths
    journal: Journal
    office: Office
    peers: Peers
    targets: Mapping[str, Target]
    clock: Clock
    metrics: Metrics
    retention: Retention
    snapshot_interval_s: float
    backups: Backups | None = None
    objection: Objection = nobody_was_asked
    losses: Losses = NoLosses()
    digests: Callable[[], Digests] = Digesting
    new_id: Callable[[], bytes] = lambda: os.urandom(16)
    """Of an entry: unlike any other."""
    consents: SkipConsents = NobodyElse()
    """To skip an entry that cannot be applied."""
    on_applied: OnApplied | None = None
    """Told of every entry that was applied."""
    on_dropped: OnDropped | None = None
    """Told of changes that a leader decided on and could not apply."""
    limits: Sequence[Limit] = ()
    presence: PresenceStore | None = None
    """None: no other replica can lead."""
    presence_host: Host = in_thread
    stored_snapshots: SnapshotStore | None = None
    """Beside the journal, where the replicas have no way to each other."""
    joined: Callable[[], Voters | None] = lambda: None
    """The replicas that have joined the cluster; None: not known."""


class _Running(Protocol):
    def run(self) -> Coroutine[None, None, None]: ...

    def stop(self) -> None: ...


class Parts:
    """All that runs on top of one state."""

    def __init__(
        self,
        setup: Setup,
        store: Store,
        on_state: Callable[..., Awaitable[Any]],
        status: Callable[[], PeerStatus],
        reading: Reading,
        guard: ClockGuard,
    ) -> None:
        self._setup = setup
        self._store = store
        self._on_state = on_state
        self.guard = guard
        clock, metrics, paths = guard, setup.metrics, setup.paths
        self.snapshotter = Snapshotter(
            paths.snapshots, setup.journal.birth, clock, metrics, self._on_snapshot, setup.digests()
        )
        self.applier = Applier(store, self.snapshotter.pin, setup.on_applied, setup.on_dropped)
        self.own_terms = OwnTerms(paths.terms, paths.offered)
        self.own_terms.lost_after = lambda: store.meta.common_seq
        self.kept_answers = KeptAnswers(paths.answers, self.own_terms)
        self.afterlife = Afterlife(setup.targets, clock, self.own_terms, self.kept_answers)
        self.follower = Follower(
            setup.journal, store, self.applier, setup.office, clock, on_state, clock.confirmed_elsewhere
        )
        remedy = remedy_of_divergence(paths.state)
        self.publisher: SnapshotPublisher | None = None
        if setup.stored_snapshots is not None:
            self.publisher = SnapshotPublisher(
                setup.stored_snapshots,
                paths.snapshots,
                clock,
                lambda: self.snapshotter.newest,
                lambda: self.career.any_leader is not None,
            )
        self.liveness = Liveness(clock)
        self._witness = self._make_witness()
        self.rounds = Rounds(
            setup.peers,
            setup.journal,
            clock,
            metrics,
            status,
            remedy,
            self._trim_limit,
            setup.office.leader_offset_ms,
            setup.joined,
            setup.office.opens_in_s,
            lambda: self._witness is not None and self._witness.is_another_right,
        )
        self.career = Career(
            setup.office, self.follower, self._make_leader, self._may_stand, self._leap, clock
        )
        self.presence = self._make_presence()
        self.chain_check = ChainCheck(setup.journal, store, clock, lambda: self.career.any_leader is not None)
        self.wal_checkpointer = WalCheckpointer(store.path, self.applier)
        self.housekeeper = Housekeeper(setup.targets, clock, setup.retention)
        self.backuper: Backuper | None = None
        if setup.backups is not None:
            self.backuper = Backuper(setup.backups, paths.snapshots, clock, metrics)
        self.limits = Limits(setup.limits, clock)
        for limit in setup.limits:
            metrics.limit_waits.labels(limit.name)
        self.launcher: Launcher | None = None
        """Of the newest term."""
        self.proposer: Proposer | None = None
        self.silence = Silence(
            reading,
            clock,
            silence.Around(
                lambda: store.meta,
                lambda: self.told_ms,
                self._room,
                self._known_problem,
                self.limits.keys_of,
            ),
        )
        self.auditor = Auditor(
            reading,
            clock,
            metrics,
            setup.retention,
            auditor.Around(lambda: store.meta, lambda: self.has_authority),
        )

    def run(self) -> list[asyncio.Task[None]]:
        """Start everything. The first one is the career."""
        return [asyncio.create_task(part.run(), name=type(part).__name__.lower()) for part in self._running()]

    def stop(self) -> None:
        for part in self._running():
            part.stop()

    def _running(self) -> list[_Running]:
        always: list[_Running] = [self.career, self.presence, self.snapshotter, self.housekeeper, self.rounds]
        always += [self.silence, self.auditor, self.wal_checkpointer]
        if self._setup.office.renew_s is not None:
            always.append(self.chain_check)  # alone, nobody but this process has the file open
        if self.publisher is not None:
            always.append(self.publisher)
        return always if self.backuper is None else [*always, self.backuper]

    def _trim_limit(self) -> int | None:
        """None: there is none."""
        return None if self.publisher is None else self.publisher.stored_seq

    def checkpoint_every_s(self) -> float:
        """As the operator says; but a state so large that each one takes minutes is not copied all the time."""
        return max(self._setup.snapshot_interval_s, SNAPSHOT_SPARED * self.snapshotter.lasted_s)

    def _room(self) -> Room | None:
        """How much may be started here; None: another one leads."""
        if self.career.any_leader is None or self.launcher is None:
            return None
        return self.limits.room(self.launcher.room())

    @property
    def problem(self) -> str:
        """What keeps it from writing or applying entries."""
        if self.career.any_leader is not None and self.proposer is not None:
            return self.proposer.problem or self.presence.problem or self.liveness.wedged
        return self.follower.problem or ("" if self.liveness.is_disk_alive else DISK_TAKES_NO_WRITES)

    def _known_problem(self) -> str:
        """Why nothing is decided, if that is known."""
        if self.is_leader_in_doubt:
            return self.problem or "the wall clock of the leader is not believed"
        return self.problem or ("" if self.guard.is_believed else "the wall clock is not believed")

    @property
    def is_leader_in_doubt(self) -> bool:
        """Does another replica lead, and not believe its wall clock?"""
        office = self._setup.office
        return isinstance(office, ElectedOffice) and office.doubting_leader() is not None

    @property
    def has_authority(self) -> bool:
        """Is it in office by the clock, and not only by the last entry that it has seen? One that is cut off goes on
        seeing its own."""
        until_s = self._setup.office.until_s()
        is_over = until_s is not None and self.guard.elapsed_s() >= until_s
        return self.career.leader is not None and not is_over

    async def ask_fates(self, host: str, asked: Sequence[Asked]) -> list[Fate]:
        """What became of attempts that ``host`` was to make."""
        if host == self._setup.name:
            return await self.afterlife.fates(asked)
        return await self._setup.peers.fates(host, asked, self._store.meta.term)

    async def settle_terms(self) -> None:
        """Find out which of the terms that this disk claims are its own, by what is applied here."""
        await self._on_state(settle, self.own_terms, self._store)

    async def _cancel_elsewhere(self, host: str, asked: Asked, reason: str) -> None:
        if host == self._setup.name:
            await self.afterlife.cancel(asked, reason)
        else:
            await self._setup.peers.cancel(host, asked, reason)

    async def _leap(self, gap: Gap) -> None:
        """The journal was trimmed beyond what this replica has applied, while it was paused or cut off: somebody's
        snapshot brings it over the gap."""
        setup, store = self._setup, self._store
        bounds = await setup.journal.bounds()
        if bounds.first - 1 <= store.meta.seq:
            raise gap
        log.warning(
            "too far behind for the journal, fetching a snapshot", at=store.meta.seq, begins=bounds.first
        )
        folder = setup.paths.snapshots

        async def newest() -> int:
            return (await setup.journal.bounds()).last

        incarnation = setup.journal.birth.incarnation
        made = await setup.peers.fetch_snapshot(incarnation, bounds.first - 1, folder, newest)
        if made is None:
            raise Unreachable(f"nobody who answers holds a snapshot from entry {bounds.first - 1} on")
        path = await asyncio.to_thread(snapshot.verify, folder, made)
        await self._on_state(store.become, path)
        setup.metrics.state_rebuilds.labels("snapshot").inc()
        self.applier.applied.notice(store.meta.seq)
        setup.office.observed(self.guard.elapsed_s(), term=store.meta.term, is_vacant=False)

    def _counted_since_ms(self) -> int:
        """The times that a clock showed before it was put back say nothing of how long ago they were."""
        return max(self.guard.counted_since_ms, self._store.meta.ahead_until_ms)

    def _seq(self) -> int:
        return self._store.meta.seq

    @property
    def told_ms(self) -> int:
        """Until when this replica is known to know everything, by the wall clock."""
        office, meta = self._setup.office, self._store.meta
        if self.career.leader is not None:
            return self._moment_ms(self.liveness.iterated_s)
        told_s = office.told_s(meta.seq) if isinstance(office, ElectedOffice) else None
        last_ms = min(meta.time_ms, self.guard.wall_ms())
        return last_ms if told_s is None else max(last_ms, self._moment_ms(told_s))

    def _moment_ms(self, at_s: float) -> int:
        """By the wall clock as it is now: it may have been another one at that moment."""
        return self.guard.wall_ms() - round((self.guard.elapsed_s() - at_s) * 1000)

    async def _may_stand(self) -> bool:
        """A replica whose disk takes no writes could not keep the lease."""
        return self.liveness.is_disk_alive and await self.rounds.may_stand()

    def _make_presence(self) -> PresencePart:
        setup, office, store = self._setup, self._setup.office, self._setup.presence
        probe = DiskProbe(setup.paths.alive, is_synced=store is not None)
        heartbeat = observer = None
        if isinstance(office, SoleOffice):
            office.former_ms = probe.read()
        if store is not None and isinstance(office, ElectedOffice):
            turns = Turns(office)
            heartbeat = Heartbeat(setup.name, store, office, turns, self.liveness, self.guard, self._seq)
            observer = Observer(store, office, turns, self.guard, self._seq)
        assert isinstance(office, ElectedOffice | SoleOffice)
        return PresencePart(
            office,
            heartbeat,
            observer,
            self._witness,
            store,
            probe,
            self.liveness,
            self.guard,
            setup.presence_host,
        )

    def _make_witness(self) -> ClockWitness | None:
        """None: replicas have a way to each other, or there is only one."""
        setup, office = self._setup, self._setup.office
        if (
            setup.presence is None
            or not isinstance(office, ElectedOffice)
            or not isinstance(setup.peers, NoPeers)
        ):
            return None
        return ClockWitness(setup.name, setup.presence, office, self.liveness, self.guard, self._seq)

    def _on_snapshot(self, made: Manifest) -> None:
        if self.backuper is not None and self.career.role == "leader":
            self.backuper.offer(made)

    def _make_leader(self) -> Leader:
        """One term, with a launcher of its own: what it calls belongs to this term alone."""
        setup, store = self._setup, self._store
        wake = asyncio.Event()
        around = Surroundings(
            name=setup.name,
            store=store,
            office=setup.office,
            clock=self.guard,
            metrics=setup.metrics,
            on_state=self._on_state,
            checkpoint_every_s=self.checkpoint_every_s,
            checkpoint_seen_s=self.snapshotter.checkpoint_s,
            born_after=setup.journal.birth.after,
            own_terms=self.own_terms,
            answers=self.kept_answers,
            losses=setup.losses,
            ask_clock=self.rounds.ask_clock,
            seen_clock=lambda: self.rounds.seen.verdict,
            is_clock_off_to_all=self.rounds.is_clock_off_to_all,
            cancel_elsewhere=self._cancel_elsewhere,
            limits=self.limits,
            liveness=self.liveness,
        )
        term = store.meta.term + 1
        if around.lost_since_ms() is not None:
            # Terms that the record has lost were told to receivers, which may refuse lower ones.
            term = max(term, self.guard.wall_ms() // 1000, self.guard.system_ms() // 1000)
        former_terms = self.afterlife.terms()
        launcher = self.launcher = Launcher(
            setup.targets, setup.office, self.guard, wake.set, self._counted_since_ms
        )
        self.proposer = Proposer(
            setup.journal,
            self.applier,
            setup.office,
            self.guard,
            setup.metrics,
            self._on_state,
            setup.new_id,
            self.own_terms.offer,
        )
        return Leader(
            around,
            term=term,
            former_terms=former_terms,
            proposer=self.proposer,
            launcher=launcher,
            elsewhere=Elsewhere(self.ask_fates, self._cancel_elsewhere, launcher, self.guard, wake.set),
            forgetting=Forgetting(store, self.guard, setup.retention, self._on_state),
            wake=wake,
            on_won=lambda: self.afterlife.add(term, launcher),
        )
