"""What replicas know of each other."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from tocsin.model.limit import LimitView

ClockState = Literal["steady", "fresh", "unknown", "doubted", "stepped"]
"""What a replica knows by itself of its wall clock. ``steady``: it went on evenly since it was last confirmed.
``fresh``: no other replica and no person has believed it since the machine was started, and it was not far from the
last entry. ``unknown``: the machine was started, and the clock is far from the last entry. ``doubted``: it did not
step, and the last leader went by another time. ``stepped``: it was put forward or back, or other replicas say that it
is wrong as such a clock is."""


class Member(msgspec.Struct, frozen=True):
    """A replica of this journal, as it is enlisted."""

    name: str
    peer: str = ""
    """HOST:PORT at which other replicas reach it; empty: they cannot."""
    api: str = ""
    """URL of its API."""
    skip: str = ""
    """The number and id of an entry that it cannot apply, and that an operator there wants skipped."""


class Voters(NamedTuple):
    """The replicas that have joined. One that is only enlisted holds nothing, and nothing waits for its vote."""

    names: tuple[str, ...]
    """This one too. An empty name: it was let in and has not started yet."""
    needed: int
    """How many of them it takes to write anything down. 1 where the journal is elsewhere: it asks no replica."""


def majority_of(names: Iterable[str]) -> Voters:
    voters = tuple(names)
    return Voters(voters, len(voters) // 2 + 1)


class SnapshotMark(msgspec.Struct, frozen=True):
    """A snapshot that a replica holds on its disk."""

    seq: int
    digest: str
    """Of every row of every table: equal on all replicas, or one of them has gone wrong."""
    time_ms: int


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica says of itself."""

    name: str
    version: str
    role: Literal["starting", "follower", "leader", "former"]
    """``former``: it has resigned and stays only until the calls it made have ended."""
    term: int = 0
    leader: str = ""
    """Who leads, as far as it knows; empty: nobody."""
    sequence: int = 0
    incarnation: str = ""
    wall_ms: int = 0
    """What its system's wall clock shows, believed or not."""
    clock: ClockState = "steady"
    """What it knows by itself of that clock."""
    clock_step_ms: int = 0
    """By how much that clock is ahead of the time that it believes; 0: it believes the clock."""
    clock_preceded_by: list[str] = []
    """Replicas whose clocks showed that time before the clock here stepped to it: its step is not held against them."""
    started_ms: int = 0
    api: str = ""
    snapshots: list[SnapshotMark] = []
    """The newest first."""
    digests: dict[int, str] = {}
    """The running digest after some of the entries that it applied last."""
    limits: list[LimitView] = []
    """How limits stand, of whoever leads."""
    secrets: list[str] = []
    """Fingerprints of the cluster's secrets that it trusts; the first is of the one that it presents. Empty: it was
    given none."""
    lent_seq: int | None = None
    """A snapshot that somebody is fetching at this time: the journal behind it is still needed."""
    problem: str = ""


class Hello(msgspec.Struct, frozen=True):
    """What a replica answers before it knows anything of the journal: does its disk remember a cluster?"""

    name: str
    condition: Literal["empty", "bereft", "copied", "founding", "founded", "recovering"]
    """``bereft``: it belonged to a cluster, and has lost what it promised there. It may join, and never found.
    ``copied``: the same, but a copy is left of what it promised, which may be an older one.
    ``recovering``: it goes on alone with what is left of one, and nobody is to join before the journal says so."""
    token: str = ""
    """Of its disk, made by chance when it was empty: a replica that comes back with another one has forgotten."""
    founding: str = ""
    """Of the cluster that it founds or founded; it stands for the disks of all its founders."""
    cluster: str = ""
    """The replicas as it was told them, ``a=HOST:PORT,b=HOST:PORT``."""


class Asked(msgspec.Struct, frozen=True):
    """An attempt whose fate a new leader asks after, at the replica that was to make the call."""

    name: str
    attempt: int
    kind: str
    generated_at_ms: int
    term: int = 0
    """The leadership in which the call was to be made."""
    asked_lid: int = 0
    """See ``Order``."""


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, as ``GET /v1/cluster`` shows it."""

    name: str
    role: Literal["starting", "follower", "leader", "former", "unreachable"]
    peer: str
    api: str
    version: str = ""
    term: int | None = None
    sequence: int | None = None
    lag: int | None = None
    """Entries that it has yet to apply to be where the leader is."""
    snapshot_sequence: int | None = None
    snapshot_age_s: int | None = None
    digest: str = ""
    """Of its newest snapshot."""
    clock_offset_ms: int | None = None
    """How far its clock is ahead of the one of the replica that answers."""
    started_at: datetime | None = None
    secrets: list[str] = []
    """Fingerprints of the cluster's secrets that it trusts; the first is of the one that it presents."""
    problem: str = ""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, and how far each replica is."""

    answered_by: str
    leader: str
    """Empty: nobody is in office, as far as the one who answers knows."""
    term: int
    sequence: int
    incarnation: str
    majority: int
    """How many replicas it takes to write anything down."""
    reachable: int
    digests_agree: bool
    """Where replicas hold snapshots of the same moment, these are equal."""
    replicas: list[ReplicaView]
    rotation: str = ""
    """The next step while the cluster's secret is being changed; empty: it is not."""
