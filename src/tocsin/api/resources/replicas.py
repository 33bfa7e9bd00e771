"""What the replicas say of themselves, put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tocsin.decide.rotation import next_step
from tocsin.model.cluster import ClusterView, Member, PeerStatus, ReplicaView, Voters, majority_of


class Asked(NamedTuple):
    """Between which moments they answered, by the clock of the one who asked."""

    before_ms: int
    after_ms: int

    def offset_ms(self, wall_ms: int) -> int:
        """How far another clock is ahead, as far as that is certain: an answer takes its time."""
        if wall_ms < self.before_ms:
            return wall_ms - self.before_ms
        return max(0, wall_ms - self.after_ms)


def view(
    own: PeerStatus,
    statuses: Mapping[str, PeerStatus | None],
    members: Sequence[Member],
    asked: Asked,
    joined: Voters | None = None,
) -> ClusterView:
    """The whole cluster, as one of them sees it. ``joined``: those whose votes count; None: all."""
    known: dict[str, PeerStatus | None] = {**dict.fromkeys(member.name for member in members), **statuses}
    known[own.name] = own
    enlisted = {member.name: member for member in members}
    up = [status for status in known.values() if status is not None]
    sequence = max(status.sequence for status in up)
    return ClusterView(
        answered_by=own.name,
        leader=_leader(own, known),
        term=max(status.term for status in up),
        sequence=sequence,
        incarnation=own.incarnation,
        majority=_majority(known, joined),
        reachable=len(up),
        digests_agree=agree([status for status in up if status.incarnation == own.incarnation]),
        replicas=[
            _replica(enlisted.get(name, Member(name)), status, sequence, asked)
            for name, status in sorted(known.items())
        ],
        rotation=next_step(
            {name: None if status is None else status.secrets for name, status in known.items()}
        ),
    )


def _majority(known: Iterable[str], joined: Voters | None) -> int:
    """The list of voters is some seconds old. A replica that was removed since is not enlisted any more."""
    enlisted = majority_of(known).needed
    return enlisted if joined is None else min(enlisted, joined.needed)


def _leader(own: PeerStatus, known: Mapping[str, PeerStatus | None]) -> str:
    """Whoever says to lead; of two that do, one has yet to hear of the other, who has the higher term."""
    leading = [status for status in known.values() if status is not None and status.role == "leader"]
    if leading:
        return max(leading, key=lambda status: status.term).name
    # One that does not answer may lead nevertheless; one that answers knows better.
    return own.leader if known.get(own.leader) is None else ""


def _replica(member: Member, status: PeerStatus | None, sequence: int, asked: Asked) -> ReplicaView:
    if status is None:
        return ReplicaView(
            name=member.name,
            role="unreachable",
            peer=member.peer,
            api=member.api,
            problem=f"{member.peer or 'it'} does not answer",
        )
    newest = status.snapshots[0] if status.snapshots else None
    return ReplicaView(
        name=status.name,
        role=status.role,
        peer=member.peer,
        api=status.api or member.api,
        version=status.version,
        term=status.term,
        sequence=status.sequence,
        lag=sequence - status.sequence,
        snapshot_sequence=None if newest is None else newest.seq,
        snapshot_age_s=None if newest is None else max(0, (asked.after_ms - newest.time_ms) // 1000),
        digest="" if newest is None else newest.digest,
        clock_offset_ms=asked.offset_ms(status.wall_ms) if status.wall_ms else None,
        started_at=datetime.fromtimestamp(status.started_ms / 1000, UTC) if status.started_ms else None,
        secrets=status.secrets,
        problem=status.problem,
    )


def agree(statuses: Iterable[PeerStatus]) -> bool:
    """Has nobody another digest than the others, of snapshots or of entries of the same number?"""
    of_snapshots: dict[int, str] = {}
    of_entries: dict[int, str] = {}
    for status in statuses:
        for mark in status.snapshots:
            if mark.digest and of_snapshots.setdefault(mark.seq, mark.digest) != mark.digest:
                return False
        for seq, digest in status.digests.items():
            if of_entries.setdefault(seq, digest) != digest:
                return False
    return True
