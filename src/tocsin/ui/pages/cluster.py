"""The replicas: who leads, how far each is, whether they agree, and how safe the journal is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from litestar import Request, Response

from tocsin.api.door.access import WhoAsks
from tocsin.api.resources import limits
from tocsin.api.service import Given, Service
from tocsin.errors import TocsinError
from tocsin.model.cluster import ClusterView
from tocsin.ui.answer import page, render
from tocsin.ui.neighbours import Look, look_around
from tocsin.ui.pages.standing import backup_of

_PATIENCE_S = 0.2


class Journal(NamedTuple):
    """What there is of it."""

    first: int | None
    """The first entry that is still kept; None: it does not say."""
    last: int
    last_ms: int
    kind: str
    bytes: int | None
    """None: it is not a file of this machine."""


class Snapshot(NamedTuple):
    """A moment that replicas hold snapshots of."""

    sequence: int
    at: datetime
    bytes: int | None
    """As far as it is here."""
    digests: Mapping[str, str]
    """By the replica that holds it; empty while it is being reckoned."""

    @property
    def agrees(self) -> bool:
        return len({digest for digest in self.digests.values() if digest}) <= 1


@page("/cluster")
async def cluster(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Response[str]:
    around = await look_around(service)
    held_to = await limits.limits.fn(service=service, caller=caller)
    return render(
        "cluster.html",
        request,
        service,
        caller,
        cluster=around.view,
        journal=await _journal(service),
        snapshots=_snapshots(service, around),
        heirs=_heirs(around.view),
        compared=_compared(around),
        limits=held_to,
        backup=backup_of(service),
        is_alone=service.around.membership is None and len(around.view.replicas) == 1,
        snapshot_failure=service.replica.snapshotter.failure,
        snapshot_interval_s=service.snapshot_interval_s,
    )


HANDLERS = (cluster,)


def _heirs(view: ClusterView) -> list[str]:
    """Who could lead next."""
    return [each.name for each in view.replicas if each.role == "follower" and not each.problem]


def _compared(around: Look) -> int:
    """How many entries or snapshots at least two of them have told a digest of."""
    seen: dict[tuple[str, int], int] = {}
    for status in around.statuses.values():
        for key in [("entry", seq) for seq in status.digests] + [
            ("snapshot", mark.seq) for mark in status.snapshots
        ]:
            seen[key] = seen.get(key, 0) + 1
    return sum(count > 1 for count in seen.values())


def _snapshots(service: Service, around: Look) -> list[Snapshot]:
    """The newest first."""
    sizes = {held.seq: held.size for held in service.replica.snapshotter.held}
    moments: dict[int, int] = {}
    holders: dict[int, dict[str, str]] = {}
    for name, status in sorted(around.statuses.items()):
        for mark in status.snapshots:
            moments[mark.seq] = mark.time_ms
            holders.setdefault(mark.seq, {})[name] = mark.digest
    return [
        Snapshot(seq, datetime.fromtimestamp(moments[seq] / 1000, UTC), sizes.get(seq), holders[seq])
        for seq in sorted(holders, reverse=True)
    ]


async def _journal(service: Service) -> Journal:
    meta, first = service.replica.meta, None
    # Without a majority nobody answers: the page says so elsewhere.
    with contextlib.suppress(TimeoutError, TocsinError):
        async with asyncio.timeout(_PATIENCE_S):
            first = await service.replica.first_kept()
    size = await asyncio.to_thread(_size, service.data / "journal.db")
    kind = "etcd" if service.around.membership is not None else "outside of the data folder"
    if size is not None:
        kind = "SQLite, a file on this machine"
    return Journal(first, meta.seq, meta.time_ms, kind, size)


def _size(file: Path) -> int | None:
    """With what SQLite has yet to write into it."""
    found = [each.stat().st_size for each in (file, file.with_name(file.name + "-wal")) if each.exists()]
    return sum(found) if found else None
