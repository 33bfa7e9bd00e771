"""How the service is doing: for people, for probes, for Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from litestar import Response, get
from prometheus_client import CONTENT_TYPE_LATEST

from tocsin import __version__
from tocsin.api import problems
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.resources import health
from tocsin.api.service import Given, Service
from tocsin.cron import tzdata_version
from tocsin.model.answer import StatusView
from tocsin.model.problem import http_problem

_tzdata = cache(tzdata_version)


@get(
    "/v1/status",
    operation_id="status",
    opt=about("service", "How it is doing", answers={200: ("In numbers and in sentences.", StatusView)}),
)
async def status(service: Given, caller: WhoAsks) -> StatusView:
    """What it holds, what is open, what comes next, and what somebody should look at."""
    found = await health.look(service, caller.prefixes)
    counts, replica, meta = found.counts, service.replica, service.replica.meta
    newest, own = replica.snapshotter.newest, replica.status()
    return StatusView(
        replica=replica.name,
        version=__version__,
        started_at=_moment(service.started_ms),
        uptime_s=int(health.uptime_s(service)),
        role=own.role,
        leader=own.leader,
        term=meta.term,
        sequence=meta.seq,
        incarnation=meta.incarnation,
        digest=meta.digest.hex(),
        schedules=counts.schedules,
        enabled=counts.enabled,
        open=counts.open,
        retrying=counts.retrying,
        stalled=counts.stalled,
        lag_ms=found.lag_ms,
        failed=counts.failed,
        in_doubt=counts.in_doubt,
        missed=counts.missed,
        next_due=None if counts.next_ms is None else _moment(counts.next_ms),
        snapshot_sequence=None if newest is None else newest.seq,
        snapshot_age_s=None if newest is None else int(health.snapshot_age_s(service, found.now_ms)),
        tzdata=_tzdata(),
        longest_iteration_ms=round(replica.metrics.longest_iteration.seconds * 1000),
        issues=health.issues(service, found, caller.prefixes),
    )


@get(
    "/healthz",
    operation_id="healthz",
    media_type="text/plain",
    opt=about("service", "Is it alive?", answers={200: ("It answers.", str, ("text/plain",))}),
)
async def alive() -> str:
    """The process answers. Nothing more is meant by it."""
    return "ok"


@get(
    "/readyz",
    operation_id="readyz",
    media_type="text/plain",
    opt=about("service", "Is it ready?", answers={200: ("It is.", str, ("text/plain",))}),
)
async def ready(service: Given) -> Response[str] | Response[bytes]:
    """It is in office and can write: it will launch what is due. Or another replica is, and this one could take over:
    it has applied what was written, up to the last seconds. It is not if something has been due for half a minute
    while nothing at all was decided, by this replica or by whoever leads; nor if its wall clock is not believed, so
    that nothing that depends on time is decided. What the audit found stands in a second line."""
    problem = (
        service.replica.problem
        or health.clock_problem(service)
        or health.cannot_take_over(service)
        or health.has_stopped(service)
    )
    if problem:
        return problems.response(http_problem(503, problem, retryable=True))
    note = health.audited(service)
    return Response(f"ready\n{note}" if note else "ready", media_type="text/plain")


@get(
    "/metrics",
    operation_id="metrics",
    opt=about(
        "service", "Metrics for Prometheus", answers={200: ("Its text format.", str, (CONTENT_TYPE_LATEST,))}
    ),
)
async def metrics(service: Given, caller: WhoAsks) -> Response[bytes]:
    """Prometheus text. What is a fact of the state is looked up when it is asked for. A token that is limited to
    prefixes is not shown the values of labels, nor the names of limits."""
    _measure(service, await health.look(service))
    text = service.replica.metrics.text(with_words=caller.reaches_all)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


HANDLERS = (status, alive, ready, metrics)


def _measure(service: Service, found: health.Health) -> None:
    """The facts of this moment into their gauges."""
    replica, meta, counts = service.replica, service.replica.meta, found.counts
    known, newest = replica.metrics, replica.snapshotter.newest
    known.leader.set(replica.parts.has_authority)
    known.term.set(meta.term)
    known.problem.set(bool(replica.problem))
    known.clock_step.set(replica.clock.step_ms() / 1000)
    known.schedules.set(counts.schedules)
    known.schedules_enabled.set(counts.enabled)
    for state, number in counts.open_by_state.items():
        known.open.labels(state).set(number)
    known.calls.set(replica.open_calls)
    known.payload_bytes.set(replica.open_payload_bytes)
    known.stalled.set(counts.stalled)
    silent = replica.parts.silence.due
    known.audit.silent_seconds.set(0 if silent is None else max(0, found.now_ms - silent.at_ms) / 1000)
    for limit in replica.parts.limits.views():
        known.limited.labels(limit.limit).set(limit.waiting if replica.is_leader else 0)
    known.lag_seconds.set(found.lag_ms / 1000)
    known.last_day_launches.labels("failed").set(counts.failed)
    known.last_day_launches.labels("in_doubt").set(counts.in_doubt)
    known.last_day_missed.set(counts.missed)
    known.journal_seq.set(meta.seq)
    known.journal_age_seconds.set((found.now_ms - meta.time_ms) / 1000)
    known.entries_since_snapshot.set(meta.seq - (0 if newest is None else newest.seq))
    known.snapshot_age_seconds.set(health.snapshot_age_s(service, found.now_ms))
    known.snapshot_interval_seconds.set(service.snapshot_interval_s)
    if found.disk is not None:
        known.disk_free_bytes.set(found.disk.free)
        known.disk_size_bytes.set(found.disk.size)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
