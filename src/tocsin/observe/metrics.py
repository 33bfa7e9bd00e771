"""Prometheus metrics. One registry a node, so that several nodes can live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
_APPEND = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """Everything that is counted."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.launches = Counter(
            "tocsin_launches",
            "Launches by how they ended and by target",
            ["target", "outcome"],
            registry=registry,
        )
        self.attempts_retried = Counter(
            "tocsin_retries", "Attempts after the first", ["target"], registry=registry
        )
        self.skipped = Counter(
            "tocsin_skipped",
            "Occurrences not launched, by reason; a missed stretch counts once",
            ["reason"],
            registry=registry,
        )
        self.lateness_seconds = Histogram(
            "tocsin_lateness_seconds",
            "From the planned moment to the durable start",
            buckets=_LATENESS,
            registry=registry,
        )
        self.append_seconds = Histogram(
            "tocsin_append_seconds", "Time to make an entry durable", buckets=_APPEND, registry=registry
        )
        self.entries = Counter("tocsin_entries", "Journal entries written", registry=registry)
        self.concluded = Counter(
            "tocsin_concluded", "Open launches concluded after a restart, by how", ["how"], registry=registry
        )
        self.absences = Counter("tocsin_absences", "Times that nobody was in office", registry=registry)
        self.open = Gauge("tocsin_open_launches", "Launches that have not ended", registry=registry)
        self.schedules = Gauge("tocsin_schedules", "Schedules held", registry=registry)
        self.journal_seq = Gauge("tocsin_journal_sequence", "The last entry applied", registry=registry)
        self.snapshot_age_seconds = Gauge(
            "tocsin_snapshot_age_seconds", "Age of the newest snapshot", registry=registry
        )
        self.problem = Gauge(
            "tocsin_problem", "1 while entries cannot be written or applied", registry=registry
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
