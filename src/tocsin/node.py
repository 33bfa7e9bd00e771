"""The composition root: the only file that names concrete engines."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tocsin.api.around import Around
from tocsin.backup.manifest import Owner
from tocsin.backup.store import Backups
from tocsin.clock import Clock, SystemClock, boot_id
from tocsin.config import Settings
from tocsin.cron import parse_duration
from tocsin.decide.clock import Bounds
from tocsin.decide.retention import Retention
from tocsin.errors import ClusterError, InvalidInput, shown_url
from tocsin.journal.contract import Journal, PresenceStore, Roster, SnapshotStore
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.address import parse as parse_etcd
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.journal.etcd.names import EtcdNames
from tocsin.journal.etcd.presence import EtcdPresence
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.journal.etcd.snapshots import SNAPSHOT_DEADLINE_S, EtcdSnapshots
from tocsin.journal.original import Original
from tocsin.journal.sqlite import SqliteJournal
from tocsin.member.address import split_address
from tocsin.member.heirs import Heirs
from tocsin.member.member import Enrolment, EtcdMember
from tocsin.member.membership import Membership
from tocsin.member.record import replica_of
from tocsin.model.cluster import Hello, Member, Voters
from tocsin.model.limit import Limit
from tocsin.observe.metrics import Metrics
from tocsin.peers.client import PeerClient
from tocsin.peers.directory import Directory
from tocsin.peers.server import PeerServer
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.consents import NobodyElse, RosterConsents, SkipConsents
from tocsin.replica.name_guard import NameGuard
from tocsin.replica.objection import Objection, nobody_was_asked
from tocsin.replica.office import ElectedOffice, Office, SoleOffice
from tocsin.replica.parts import Paths, Setup
from tocsin.replica.peers import NoPeers, Peers
from tocsin.replica.publisher import StoredSnapshots
from tocsin.replica.replica import Replica
from tocsin.replica.surroundings import Losses, NoLosses
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.permissions import permissions_of
from tocsin.targets.registry import Brokers, build_targets

PRESENCE_DEADLINE_S = 0.5


class Node(NamedTuple):
    """One process: the replica, and what the API needs to know of the others."""

    replica: Replica
    around: Around


def raise_file_limit() -> None:
    """Every running command and every call holds a descriptor; the usual soft limit of 1024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def compose(settings: Settings, clock: Clock | None = None) -> Node:
    """A node with the engines that the settings ask for. Nothing runs yet."""
    settings.check()
    clock = _guarded(settings, clock or SystemClock())
    if settings.cluster:
        return _clustered(settings, clock)
    _check_alone(settings)
    url = settings.journal_url()
    if url.startswith("etcd:"):
        return _alone_on_etcd(settings, clock)
    path = _sqlite(url)
    original = Original(path)
    replica = _replica(settings, clock, SqliteJournal(path), SoleOffice(clock), NoPeers(), original)
    replica.foundations.append(original)
    return Node(replica, Around())


def _guarded(settings: Settings, clock: Clock) -> ClockGuard:
    """Nobody here is given any other clock."""
    step_s = parse_duration(settings.clock_step, field="clock_step")
    gap_s = parse_duration(settings.clock_gap, field="clock_gap")
    paths = Paths(settings.data.absolute())
    return ClockGuard(clock, paths.clock, boot_id(), Bounds(step_s * 1000, gap_s * 1000))


def _check_alone(settings: Settings) -> None:
    """A replica's disk has no journal of its own: without the others it would begin with nothing."""
    if name := replica_of(settings.data):
        raise InvalidInput(
            f"{settings.data.absolute()} is the disk of replica {name} of a cluster",
            field="data",
            value=str(settings.data),
            hint="give --cluster, --cluster-secret and --name as before, or choose another --data directory",
        )


def _clustered(settings: Settings, clock: Clock) -> Node:
    """Several replicas that know each other. Each runs an etcd of its own, unless there is one for all."""
    enrolment = Enrolment(settings)
    own = Member(enrolment.own.name, enrolment.own.peer, _api_url(settings, enrolment.own))
    directory = Directory(own.name, [own, *enrolment.others])
    peers = PeerClient(own.name, directory, enrolment.client_context())
    member: EtcdMember | None = None
    if settings.journal:
        client, prefix = _external(settings.journal)
    else:
        member = EtcdMember(
            enrolment,
            peers,
            program=settings.etcd,
            recover=settings.recover,
            clock=clock,
        )
        client, prefix = EtcdClient(member.endpoints(), tls=enrolment.client_context()), DEFAULT_PREFIX
    roster = EtcdRoster(client, prefix)
    directory.consult(roster)
    losses: Losses = NoLosses() if member is None else _Recovered(member)
    owner = Owner(
        enrolment.secrets.digest,
        lambda: [f"{each.name}={each.peer}" for each in directory.members()],
        enrolment.secrets.other_digests,
    )
    heirs = Heirs([own, *enrolment.others], enrolment.spelt, peers)
    replica = _replica(
        settings,
        clock,
        EtcdJournal(client, prefix, own.name),
        ElectedOffice(clock, own.name),
        peers,
        losses,
        own.api,
        owner,
        nobody_was_asked if member is None else heirs.objection,
        EtcdPresence(_beside(client), prefix),
        consents=RosterConsents(roster, own),
        joined=(lambda: Voters(tuple(directory.started()), 1)) if member is None else member.voters,
    )
    hello = _no_founding(own.name) if member is None else member.condition
    server = PeerServer(own.peer, enrolment.server_context(), replica, hello)
    guard: NameGuard | None = None
    if member is None:  # a disk that runs an etcd of its own is known there
        guard = _guard_of_name(replica, settings, client, prefix, clock)
        replica.endings.append(directory.removed)  # nothing but the roster tells it there
    replica.secrets = enrolment.credentials.fingerprints
    replica.foundations = [server, peers, *replica.foundations]
    if member is not None:
        replica.foundations.append(member)
        replica.endings = [member.lost]
        replica.troubles = [lambda: member.problem]

    async def on_open() -> None:
        if guard is not None:
            await guard.take()
        if member is not None and member.condition().condition == "founding":
            for other in enrolment.others:
                await roster.expect(other)
        await roster.enlist(own)
        if member is not None:
            await _check_membership(member, roster, own.name)
            member.mark_founded()
        await directory.refresh()

    replica.on_open = on_open
    membership = Membership(roster, None if member is None else client)
    return Node(replica, Around(peers, directory.members, membership, directory.refresh))


async def _check_membership(member: EtcdMember, roster: Roster, name: str) -> None:
    """Asked after this replica was enlisted: it may have been removed just before, and must not be in the roster then,
    which lets it take office and join."""
    try:
        await member.check_membership()
    except ClusterError:
        await roster.strike(name)
        raise


def _alone_on_etcd(settings: Settings, clock: Clock) -> Node:
    """On an existing etcd, not to be reached by other replicas: they can take over, but not forward anything to it."""
    client, prefix = _external(settings.journal)
    roster: Roster = EtcdRoster(client, prefix)
    stored = EtcdSnapshots(client.another(deadline_s=SNAPSHOT_DEADLINE_S), prefix)
    own = Member(settings.replica_name(), "", _api_url(settings))
    replica = _replica(
        settings,
        clock,
        EtcdJournal(client, prefix),
        ElectedOffice(clock, own.name),
        StoredSnapshots(stored),
        NoLosses(),
        own.api,
        presence=EtcdPresence(_beside(client), prefix),
        stored_snapshots=stored,
        consents=RosterConsents(roster, own),
    )

    guard = _guard_of_name(replica, settings, client, prefix, clock)

    async def on_open() -> None:
        await guard.take()
        await roster.enlist(own)

    replica.on_open = on_open
    return Node(replica, Around(members=lambda: [own]))


def _guard_of_name(
    replica: Replica, settings: Settings, client: EtcdClient, prefix: str, clock: Clock
) -> NameGuard:
    """On an etcd that others use as well, two replicas may have been given one name."""
    disk = Paths(settings.data.absolute()).disk
    guard = NameGuard(settings.replica_name(), disk, EtcdNames(_beside(client), prefix), clock)
    replica.foundations.append(guard)
    replica.endings.append(guard.lost)
    return guard


def _replica(
    settings: Settings,
    clock: Clock,
    journal: Journal,
    office: Office,
    peers: Peers,
    losses: Losses | None = None,
    api: str = "",
    owner: Owner | None = None,
    objection: Objection = nobody_was_asked,
    presence: PresenceStore | None = None,
    stored_snapshots: SnapshotStore | None = None,
    consents: SkipConsents | None = None,
    joined: Callable[[], Voters | None] = lambda: None,
) -> Replica:
    paths = Paths(settings.data.absolute())
    return Replica(
        Setup(
            name=settings.replica_name(),
            paths=paths,
            journal=journal,
            office=office,
            peers=peers,
            targets=build_targets(
                paths.data / "exec",
                _exec_settings(settings),
                clock=clock,
                permissions=permissions_of(settings),
                brokers=_brokers(settings),
            ),
            clock=clock,
            metrics=Metrics(settings.audit_label_keys()),
            retention=Retention.parse(settings.history_age, settings.history_each, settings.history_total),
            snapshot_interval_s=parse_duration(settings.snapshot_interval, field="snapshot_interval"),
            backups=_backups(settings, owner),
            objection=objection,
            losses=losses or NoLosses(),
            limits=_limits(settings),
            presence=presence,
            stored_snapshots=stored_snapshots,
            consents=consents or NobodyElse(),
            joined=joined,
        ),
        api,
    )


def _beside(client: EtcdClient) -> EtcdClient:
    """Another client of the same etcd, for a thread of its own. It does not wait for an answer for as long as a lease
    lasts: the next server may answer."""
    return client.another(deadline_s=PRESENCE_DEADLINE_S)


def _backups(settings: Settings, owner: Owner | None) -> Backups | None:
    """A URL that makes no sense is refused now, not told when the first snapshot is to be copied."""
    if not settings.backup:
        return None
    backups = Backups(settings.backup, settings.backup_keep, owner=owner)
    backups.check()
    return backups


class _Recovered:
    """Whether the cluster went on with a minority, of which the journal has yet to hear."""

    def __init__(self, member: EtcdMember) -> None:
        self._member = member

    @property
    def are_to_be_noted(self) -> bool:
        return self._member.recovered_ms is not None

    @property
    def may_leave_state_ahead(self) -> bool:
        return self.are_to_be_noted

    @property
    def may_leave_foreign_state(self) -> bool:
        return self._member.has_joined

    def noted(self) -> None:
        self._member.recovery_noted()

    def state_begun(self) -> None:
        self._member.state_taken_over()


def _no_founding(name: str) -> Callable[[], Hello]:
    return lambda: Hello(name, "founded", "")


def _exec_settings(settings: Settings) -> ExecSettings:
    return ExecSettings(
        head_bytes=settings.output_bytes,
        tail_bytes=settings.output_bytes,
        grace_s=parse_duration(settings.kill_grace, field="kill_grace"),
        may_group=settings.exec_cgroups == "auto",
    )


def _brokers(settings: Settings) -> Brokers:
    return Brokers(
        settings.kafka, settings.kafka_config, settings.nats, settings.nats_creds, settings.nats_ca
    )


def _api_url(settings: Settings, own: Member | None = None) -> str:
    """Where clients find this replica: an address that listens everywhere is told as the one of its peers."""
    host, port = settings.address()
    if host in ("0.0.0.0", "::") and own is not None:
        host = split_address(own.peer)[0]
    scheme = "https" if settings.is_tls() else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _external(url: str) -> tuple[EtcdClient, str]:
    if not url.startswith("etcd:"):
        raise _no_journal(
            url, "etcd://h1:2379,h2:2379,h3:2379, or nothing: then each replica runs its own etcd"
        )
    address = parse_etcd(url)
    return address.client(), address.prefix


def _sqlite(url: str) -> Path:
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/"):
        return Path(rest[1:]).absolute()
    raise _no_journal(
        url, "sqlite:///relative/path, sqlite:////absolute/path or etcd://h1:2379,h2:2379,h3:2379"
    )


def _no_journal(url: str, allowed: str) -> InvalidInput:
    shown = shown_url(url)
    return InvalidInput(
        f"{shown!r} is not the URL of a journal", field="journal", value=shown, allowed=allowed
    )


def _limits(settings: Settings) -> tuple[Limit, ...]:
    if not settings.limits:
        return ()
    from tocsin.replica.limits_file import read_limits  # it loads a reader of YAML, which few services need

    return read_limits(settings.limits)
