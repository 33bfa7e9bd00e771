"""What the audit counts, for Prometheus; broken out by the labels of schedules that the settings name.

Labels of schedules are anybody's words, so their number is bounded: what comes beyond it is counted as ``other``, and
nothing is left out of a sum. A label ``team`` becomes ``label_team``; a schedule that has none is counted under "".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from tocsin.model.audit import SKIPPED_FOR, AuditCounts

VALUES_MAX = 50
"""Of one label."""
SERIES_MAX = 500
"""Combinations of values."""
OTHER = "other"


def label_name(key: str) -> str:
    """As Prometheus spells it."""
    return "label_" + re.sub(r"[^A-Za-z0-9_]", "_", key)


class Breakdown:
    """Which values are counted on their own: the first that come."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self._values: dict[str, set[str]] = {key: {""} for key in self.keys}
        self._known: set[tuple[str, ...]] = set()

    def of(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The values under which a schedule with these labels is counted."""
        found = tuple(self._value(key, labels.get(key, "")) for key in self.keys)
        if found not in self._known:
            if len(self._known) >= SERIES_MAX:
                return (OTHER,) * len(self.keys)
            self._known.add(found)
        return found

    def _value(self, key: str, value: str) -> str:
        known = self._values[key]
        if value not in known:
            if len(known) > VALUES_MAX:
                return OTHER
            known.add(value)
        return value


class AuditMetrics:
    """Only who leads counts, so that sums over replicas are right."""

    def __init__(self, registry: CollectorRegistry, keys: Sequence[str] = ()) -> None:
        self.breakdown = Breakdown(keys)
        names = [label_name(key) for key in keys]

        def counter(name: str, help: str, *more: str) -> Counter:
            return Counter(f"tocsin_audit_{name}", help, [*names, *more], registry=registry)

        self.expected = counter("expected", "Occurrences that were judged, reckoned anew from their texts")
        self.started = counter("started", "Of these, started when they were judged")
        self.late = counter("late", "Of these, started more than 5 s after their planned moment")
        self.skipped = counter("skipped", "Of these, not launched, by reason", "reason")
        self.in_doubt = counter("in_doubt", "Of these, in doubt when they were judged")
        self.unaccounted = counter("unaccounted", "Of these, those that nothing is recorded of: none")
        self.doubled = counter("doubled", "Starts that the journal holds twice: none")
        self.entries = Counter("tocsin_audit_entries", "Journal entries that were judged", registry=registry)
        self.unread = Counter(
            "tocsin_audit_unread_entries",
            "Journal entries that were trimmed before they could be judged",
            registry=registry,
        )
        self.schedules = Counter(
            "tocsin_audit_schedules", "Schedules that were judged, each once a round", registry=registry
        )
        self.behind_seconds = Gauge(
            "tocsin_audit_behind_seconds",
            "How far the audit is behind this moment; 0 on a replica that does not lead",
            registry=registry,
        )
        self.silent_seconds = Gauge(
            "tocsin_silent_seconds",
            "How long something has been due while nothing at all was decided, for no reason that is known",
            registry=registry,
        )
        self._begin(self.breakdown.of({}))

    def count(self, values: tuple[str, ...], counts: AuditCounts) -> None:
        """One schedule, judged."""
        for counter, number in (
            (self.expected, counts.expected),
            (self.started, counts.started),
            (self.late, counts.late),
            (self.in_doubt, counts.in_doubt),
            (self.unaccounted, counts.unaccounted),
            (self.doubled, counts.doubled),
        ):
            if number:
                _of(counter, values).inc(number)
        for reason, number in counts.skipped.items():
            self.skipped.labels(*values, reason).inc(number)

    def _begin(self, values: tuple[str, ...]) -> None:
        """At zero, so that the first event is an increase."""
        for counter in (
            self.expected,
            self.started,
            self.late,
            self.in_doubt,
            self.unaccounted,
            self.doubled,
        ):
            _of(counter, values)
        for reason in SKIPPED_FOR:
            self.skipped.labels(*values, reason)


def _of(counter: Counter, values: tuple[str, ...]) -> Counter:
    return counter.labels(*values) if values else counter
