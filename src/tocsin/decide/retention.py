"""Which history is too old or too much."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.cron import parse_duration


class Retention(NamedTuple):
    """How much history is kept. Open launches, and the schedules themselves, are never forgotten."""

    age_ms: int = 30 * 86_400_000
    each: int = 1_000
    total: int = 10_000_000

    @classmethod
    def parse(cls, age: str, each: int, total: int) -> Retention:
        return cls(parse_duration(age, field="history_age") * 1000, each, total)
