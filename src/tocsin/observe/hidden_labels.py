"""Metrics for whoever may not see every schedule: without the words of others.

Labels of schedules, and limits that are named after them, are words of their owners. For a reader with a limited reach
all of them are one, ``other``; sums stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

OTHER = "other"
_LIMIT = "limit"


def text_without_words(registry: CollectorRegistry) -> bytes:
    return generate_latest(_Hidden(registry))


class _Hidden(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = _merged(family.samples)
            yield family


def _merged(samples: list[Sample]) -> list[Sample]:
    if not any(_is_word(name) for sample in samples for name in sample.labels):
        return samples
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    for sample in samples:
        labels = {name: OTHER if _is_word(name) else value for name, value in sample.labels.items()}
        key = sample.name, tuple(sorted(labels.items()))
        former = found.get(key)
        is_moment = sample.name.endswith("_created")
        value = sample.value
        if former is not None:
            value = min(former.value, value) if is_moment else former.value + value
        found[key] = Sample(sample.name, labels, value)
    return list(found.values())


def _is_word(label: str) -> bool:
    return label.startswith("label_") or label == _LIMIT
