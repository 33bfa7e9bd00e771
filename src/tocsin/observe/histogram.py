"""A histogram that takes a whole column at once.

A herd starts five thousand launches in one entry. Observing them one by one would cost more than deciding them, and
observing a sample of them would be a guess. Sorted, a column needs one look per bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class LatenessHistogram(Collector):
    """How long after a planned moment something happened. Bounds are whole milliseconds, shown as seconds."""

    def __init__(self, name: str, help: str, bounds_ms: Sequence[int], registry: CollectorRegistry) -> None:
        self._name = name
        self._help = help
        self._bounds_ms = tuple(bounds_ms)
        self._within = [0] * len(self._bounds_ms)
        """How many were at most so late: cumulative, as Prometheus wants it."""
        self._count = 0
        self._sum_ms = 0
        registry.register(self)

    def observe(self, planned_ms: Iterable[int], happened_ms: int) -> None:
        """All of these were planned, and happened at one moment. What was early is not late: it counts as zero."""
        ordered = sorted(planned_ms)
        late = bisect_right(ordered, happened_ms)
        self._count += len(ordered)
        self._sum_ms += late * happened_ms - sum(ordered[:late])
        for place, bound_ms in enumerate(self._bounds_ms):
            self._within[place] += len(ordered) - bisect_left(ordered, happened_ms - bound_ms)

    def collect(self) -> Iterable[Metric]:
        buckets: list[tuple[str, float]] = [
            (str(bound_ms / 1000), number)
            for bound_ms, number in zip(self._bounds_ms, self._within, strict=True)
        ]
        buckets.append(("+Inf", self._count))
        yield HistogramMetricFamily(self._name, self._help, buckets=buckets, sum_value=self._sum_ms / 1000)
