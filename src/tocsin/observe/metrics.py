"""Prometheus metrics. One registry a node, so that several nodes can live in one process.

Every label has few values and all of them are known here: an id, a path or a reason in full would be a series each,
and nobody's Prometheus survives a million schedules. Counters stand at zero from the start, so that the first event
is an increase and not the birth of a series.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from tocsin import __version__
from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.model.target import KINDS
from tocsin.observe.audit import AuditMetrics
from tocsin.observe.hidden_labels import text_without_words
from tocsin.observe.histogram import LatenessHistogram

_LATENESS_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
_APPEND_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_ITERATION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 5)
_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)

OTHER = "other"
OPEN_STATES = tuple(state.name.lower() for state in LaunchState if state < CLOSED_FROM)
OUTCOMES = ("succeeded", "failed", "cancelled", "in_doubt")
SKIPPED_FOR = ("overlap", "deadline", "deleted", OTHER)
CONCLUDED_HOW = ("adopted", "asked", "found", "launched", "repeated", "unknown", "withdrawn")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ROUTE_OF = {
    **{word: word for word in ("schedules", "launches", "status", "preview", "events", "history", "tokens")},
    **dict.fromkeys(("import", "export", "bulk"), "bulk"),
    "whoami": "tokens",
    "backup": "backup",
    "cluster": "cluster",
    "audit": "audit",
    "activity": "status",
    "forecast": "forecast",
    "limits": "status",
    "clock": "status",
    "due": "status",
}
"""The word behind ``/v1/``, and the kind of address that it makes."""
_PROBES = ("healthz", "readyz", "metrics")
ROUTES = (*dict.fromkeys(_ROUTE_OF.values()), "probes", OTHER)
_REFUSED_FOR = {
    401: "unauthenticated",
    403: "forbidden",
    413: "too_large",
    415: "media_type",
    429: "too_many",
}

# They would be a second series for every counter, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]  # why: the library leaves this one untyped


def route_of(path: str) -> str:
    """The kind of address that was asked for: never what stands in it."""
    first, _, rest = path.lstrip("/").partition("/")
    if first in _PROBES:
        return "probes"
    word = rest.partition("/")[0].partition(":")[0] if first == "v1" else ""
    return _ROUTE_OF.get(word, OTHER)


class Longest:
    """The longest of all that was measured since the start."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        if seconds > self.seconds:
            self.seconds = seconds
            self._gauge.set(seconds)


class Metrics:
    """Everything that is counted."""

    def __init__(self, audit_labels: Sequence[str] = ()) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("tocsin_build", "What runs here", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version()}
        )
        self._about_launches()
        self._about_the_journal()
        self._about_recovery()
        self._about_the_others()
        self._about_requests()
        self._about_the_moment()
        self.audit = AuditMetrics(self.registry, audit_labels)

    def text(self, *, with_words: bool = True) -> bytes:
        """``with_words``: also labels of schedules, which are not for every reader."""
        return generate_latest(self.registry) if with_words else text_without_words(self.registry)

    def request(self, method: str, status: int, seconds: float | None, route: str = OTHER) -> None:
        """A request was answered. ``seconds`` is None for a stream, which takes as long as its reader likes."""
        route = route if route in ROUTES else OTHER
        self.requests.labels(method if method in METHODS else OTHER, route, f"{status // 100}xx").inc()
        if seconds is not None:
            self.request_seconds.labels(route).observe(seconds)
        if status in _REFUSED_FOR:
            self.refused_requests.labels(_REFUSED_FOR[status]).inc()

    def _about_launches(self) -> None:
        self.launches = self._counter(
            "tocsin_launches",
            "Launches that went to a target, by how they ended; one whose doubt has ended is counted again",
            target=KINDS,
            outcome=OUTCOMES,
        )
        self.retries = self._counter(
            "tocsin_retries", "Attempts that ended badly and are made again", target=KINDS
        )
        self.skipped = self._counter(
            "tocsin_skipped", "Occurrences that were not launched, by reason", reason=SKIPPED_FOR
        )
        self.missed_stretches = self._counter(
            "tocsin_missed_stretches",
            "Stretches of one or more occurrences given up because nobody was in office",
        )
        self.limit_waits = Counter(
            "tocsin_limit_waits",
            "Launches that were due and had to wait for a limit",
            ["limit"],
            registry=self.registry,
        )
        self.lateness_seconds = LatenessHistogram(
            "tocsin_lateness_seconds",
            "From the planned moment of an occurrence to its durable start, every one counted",
            _LATENESS_MS,
            self.registry,
        )

    def _about_the_journal(self) -> None:
        self.append_seconds = Histogram(
            "tocsin_append_seconds",
            "Time to make an entry durable",
            buckets=_APPEND_S,
            registry=self.registry,
        )
        self.iteration_seconds = Histogram(
            "tocsin_loop_iteration_seconds",
            "Time of one iteration of the leader's loop, the append of its entry included",
            buckets=_ITERATION_S,
            registry=self.registry,
        )
        self.longest_iteration = Longest(
            self._gauge(
                "tocsin_loop_longest_iteration_seconds",
                "The longest iteration of the leader's loop since this process started",
            )
        )
        self.longest_work = Longest(
            self._gauge(
                "tocsin_loop_longest_work_seconds",
                "The longest that one iteration took apart from waiting for the journal, since this process started",
            )
        )
        self.entries = self._counter("tocsin_journal_entries", "Journal entries written")
        self.dropped_changes = self._counter(
            "tocsin_dropped_changes",
            "Parts of an entry that could not be applied and were left out of it: defects of the service",
        )
        self.journal_seq = self._gauge("tocsin_journal_sequence", "The last entry applied")
        self.journal_age_seconds = self._gauge(
            "tocsin_journal_age_seconds",
            "Time since the last entry; the leader writes one a minute at least. Below zero: the clock was put back",
        )
        self.entries_since_snapshot = self._gauge(
            "tocsin_journal_entries_since_snapshot", "Entries that a restart without a state would replay"
        )

    def _about_recovery(self) -> None:
        self.snapshots = self._counter("tocsin_snapshots", "Snapshots written")
        self.snapshot_failures = self._counter("tocsin_snapshot_failures", "Snapshots that came to nothing")
        self.snapshot_age_seconds = self._gauge(
            "tocsin_snapshot_age_seconds",
            "Age of the newest snapshot; while there is none, time since the start of the process",
        )
        self.snapshot_interval_seconds = self._gauge(
            "tocsin_snapshot_interval_seconds", "How often a snapshot is wanted"
        )
        self.snapshots_damaged = self._counter(
            "tocsin_snapshots_damaged", "Snapshots passed over at the start because they were not whole"
        )
        self.backups = self._counter("tocsin_backups", "Snapshots copied to the place of the backups")
        self.backup_failures = self._counter(
            "tocsin_backup_failures", "Tries to copy a snapshot there that came to nothing"
        )
        self.backup_age_seconds = self._gauge(
            "tocsin_backup_age_seconds",
            "Age of the newest backup; while none is known, time since the start; 0 where none are made",
        )
        self.state_rebuilds = self._counter(
            "tocsin_state_rebuilds",
            "State files that could not be used and were rebuilt, by what from",
            source=("snapshot", "journal"),
        )
        self.concluded = self._counter(
            "tocsin_concluded",
            "Launches found open at the start, by how they were taken on",
            how=CONCLUDED_HOW,
        )
        self.absences = self._counter("tocsin_absences", "Times that nobody was in office or able to act")

    def _about_the_others(self) -> None:
        """What this replica sees of the cluster, as of its last look. On one machine there are no others."""
        self.term = self._gauge("tocsin_term", "The newest leadership that this replica knows of")
        self.peers = self._gauge("tocsin_peers", "Other replicas that are enlisted")
        self.peers_reachable = self._gauge("tocsin_peers_reachable", "Other replicas that answer this one")
        self.behind_entries = self._gauge(
            "tocsin_behind_entries", "Entries that another replica has applied and this one has not"
        )
        self.clock_off = self._gauge(
            "tocsin_clock_off", "1 while the others agree about the time, and not with this replica"
        )
        self.clock_step = self._gauge(
            "tocsin_clock_step_seconds",
            "By how much the wall clock is ahead of the time that is believed; 0: it is believed",
        )

    def _about_requests(self) -> None:
        self.requests = Counter(
            "tocsin_requests",
            "Requests answered, by method, kind of address and class of status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "tocsin_request_seconds",
            "Time to answer a request, by kind of address",
            ["route"],
            buckets=_REQUEST_S,
            registry=self.registry,
        )
        self.failed_logins = self._counter("tocsin_failed_logins", "Tokens shown that were not valid")
        self.refused_requests = self._counter(
            "tocsin_refused_requests",
            "Requests refused before anybody looked at their content",
            reason=tuple(_REFUSED_FOR.values()),
        )

    def _about_the_moment(self) -> None:
        """Facts of the state: looked up when somebody asks for the metrics."""
        self.leader = self._gauge("tocsin_leader", "1 while this replica is in office")
        self.problem = self._gauge("tocsin_problem", "1 while entries cannot be written or applied")
        self.schedules = self._gauge("tocsin_schedules", "Schedules held")
        self.schedules_enabled = self._gauge("tocsin_schedules_enabled", "Schedules that are not paused")
        self.open = Gauge(
            "tocsin_open_launches",
            "Launches that have not ended, by state",
            ["state"],
            registry=self.registry,
        )
        self.calls = self._gauge("tocsin_calls_outstanding", "Calls that no target has answered yet")
        self.payload_bytes = self._gauge(
            "tocsin_payload_bytes_outstanding", "Bytes of schedules whose calls no target has answered yet"
        )
        self.stalled = self._gauge(
            "tocsin_stalled_launches", "Launches open for far longer than they should be"
        )
        self.limited = Gauge(
            "tocsin_limited",
            "Due launches that wait for a limit, as the leader counts them",
            ["limit"],
            registry=self.registry,
        )
        self.lag_seconds = self._gauge(
            "tocsin_lag_seconds", "How long the earliest due occurrence is overdue"
        )
        self.last_day_launches = Gauge(
            "tocsin_last_day_launches",
            "Launches of the last 24 hours that failed or are in doubt, counted in the state: restarts do not matter",
            ["outcome"],
            registry=self.registry,
        )
        self.last_day_missed = self._gauge(
            "tocsin_last_day_missed_stretches",
            "Stretches given up in the last 24 hours, counted in the state",
        )
        self.disk_free_bytes = self._gauge("tocsin_disk_free_bytes", "Room left where the data is")
        self.disk_size_bytes = self._gauge("tocsin_disk_size_bytes", "Room there is where the data is")

    def _gauge(self, name: str, help: str) -> Gauge:
        return Gauge(name, help, registry=self.registry)

    def _counter(self, name: str, help: str, **labels: Sequence[str]) -> Counter:
        counter = Counter(name, help, list(labels), registry=self.registry)
        for values in product(*labels.values()) if labels else ():
            counter.labels(*values)
        return counter
