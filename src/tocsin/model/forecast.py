"""What is to come, as it is told: launches per bucket, the worst seconds, who causes them, and what would help."""

from __future__ import annotations

from datetime import datetime

import msgspec

BUCKETS_MAX = 20_000
DAYS_MAX = 31
WORST_MAX = 20


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Launches from ``at`` on, up to the next bucket. The first and the last may be shorter than the others."""

    at: datetime
    launches: int
    worst: int
    """Of its fullest second."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Something that launches of one second have in common, and how many of them have it."""

    name: str
    launches: int


class WorstSecond(msgspec.Struct, frozen=True, kw_only=True):
    """A second with very many launches, and who they are: the most numerous first, a few of each kind."""

    at: datetime
    launches: int
    texts: list[Cause]
    """Cron texts with their zones."""
    prefixes: list[Cause]
    labels: list[Cause]
    schedules: list[str]
    """Some of them."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What a change would make of the worst second, if it were made to all schedules that meet in the worst seconds and
    whose text allows it. Counted anew, with the values that their ids would give them."""

    change: str
    schedules: int
    before: int
    after: int
    at: datetime
    """The worst second after it."""


class ForecastView(msgspec.Struct, frozen=True, kw_only=True):
    """The launches that are planned in ``[since, until)``."""

    since: datetime
    until: datetime
    bucket_s: int
    schedules: int
    """How many were counted: those that are enabled and within reach."""
    launches: int
    buckets: list[Bucket]
    worst: list[WorstSecond]
    """The fullest first."""
    remedies: list[Remedy]
    notes: list[str]
    """What the numbers do not say, each a sentence."""
