"""How the service is doing: for people, for probes, for Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from litestar import Response, get
from prometheus_client import CONTENT_TYPE_LATEST

from tocsin import __version__
from tocsin.api import problems
from tocsin.api.problems import HttpRefusal
from tocsin.api.service import Given, Service
from tocsin.cron import tzdata_version
from tocsin.model.answer import StatusView
from tocsin.state import views
from tocsin.state.views import Counts

DAY_MS = 86_400_000
OVERDUE_MS = 10_000
SNAPSHOT_INTERVALS_MAX = 3
"""A snapshot is missing when so many of its intervals have passed."""

_tzdata = cache(tzdata_version)


@get("/v1/status", operation_id="status")
async def status(service: Given) -> StatusView:
    """What it holds, what is open, what comes next, and what somebody should look at."""
    now_ms = service.now_ms()
    counts = await service.replica.read(views.counts, now_ms - DAY_MS)
    replica, meta, newest = service.replica, service.replica.meta, service.replica.snapshotter.newest
    return StatusView(
        replica=replica.name,
        version=__version__,
        started_at=_moment(service.started_ms),
        uptime_s=int(_uptime_s(service)),
        leader=meta.leader,
        term=meta.term,
        sequence=meta.seq,
        incarnation=meta.incarnation,
        digest=meta.digest.hex(),
        schedules=counts.schedules,
        enabled=counts.enabled,
        open=counts.open,
        retrying=counts.retrying,
        failed=counts.failed,
        in_doubt=counts.in_doubt,
        missed=counts.missed,
        next_due=None if counts.next_ms is None else _moment(counts.next_ms),
        snapshot_sequence=None if newest is None else newest.seq,
        snapshot_age_s=None if newest is None else max(0, now_ms - newest.time_ms) // 1000,
        tzdata=_tzdata(),
        issues=issues(service, counts, now_ms),
    )


@get("/healthz", include_in_schema=False, media_type="text/plain")
async def alive() -> str:
    """The process answers. Nothing more is meant by it."""
    return "ok"


@get("/readyz", include_in_schema=False, media_type="text/plain")
async def ready(service: Given) -> Response[str] | Response[bytes]:
    """It is in office and can write: it will launch what is due."""
    problem = service.replica.problem
    if problem:
        return problems.response(problems.of_error(HttpRefusal(503, problem)))
    return Response("ready", media_type="text/plain")


@get("/metrics", include_in_schema=False)
async def metrics(service: Given) -> Response[bytes]:
    """Prometheus text. What is a fact of the state is looked up when it is asked for."""
    replica, now_ms = service.replica, service.now_ms()
    counts = await replica.read(views.counts, now_ms - DAY_MS)
    known = replica.metrics
    known.schedules.set(counts.schedules)
    known.open.set(counts.open)
    known.journal_seq.set(replica.meta.seq)
    known.problem.set(1 if replica.problem else 0)
    newest = replica.snapshotter.newest
    known.snapshot_age_seconds.set(-1 if newest is None else max(0, now_ms - newest.time_ms) / 1000)
    return Response(known.text(), headers={"content-type": CONTENT_TYPE_LATEST})


HANDLERS = (status, alive, ready, metrics)


def issues(service: Service, counts: Counts, now_ms: int) -> list[str]:
    """What somebody should look at, the worst first."""
    found = []
    if service.replica.problem:
        found.append(f"Nothing can be written, so nothing is launched: {service.replica.problem}.")
    overdue_ms = 0 if counts.next_ms is None else now_ms - counts.next_ms
    if overdue_ms > OVERDUE_MS:
        found.append(f"The earliest launch is overdue by {overdue_ms // 1000} s.")
    if counts.in_doubt:
        found.append(
            f"{_launches(counts.in_doubt)} of the last 24 hours {_is(counts.in_doubt)} in doubt: "
            "'tocsin launches --state in_doubt' names them."
        )
    if counts.failed:
        found.append(
            f"{_launches(counts.failed)} of the last 24 hours failed: "
            "'tocsin launches --state failed' names them."
        )
    if counts.missed:
        found.append(
            f"Nobody was in office for occurrences of {counts.missed} schedule"
            f"{'' if counts.missed == 1 else 's'} in the last 24 hours: 'tocsin why ID TIME' tells of each."
        )
    if _snapshot_is_missing(service, now_ms):
        found.append("There was no snapshot for several of its intervals: the log says why.")
    return found


def _snapshot_is_missing(service: Service, now_ms: int) -> bool:
    """Only entries since the newest one make another necessary; time before this process does not count."""
    newest = service.replica.snapshotter.newest
    if newest is not None and newest.seq == service.replica.meta.seq:
        return False
    age_s = _uptime_s(service) if newest is None else (now_ms - newest.time_ms) / 1000
    return min(age_s, _uptime_s(service)) > SNAPSHOT_INTERVALS_MAX * service.snapshot_interval_s


def _uptime_s(service: Service) -> float:
    return service.replica.clock.elapsed_s() - service.started_s


def _launches(count: int) -> str:
    return f"{count} launch" if count == 1 else f"{count} launches"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
