"""What was launched lately, in numbers: minute by minute, for a chart."""

from __future__ import annotations

from datetime import datetime

import msgspec

LATE_MS = 1_000
"""A start later than this counts as late here: a chart is to show it before anybody has to be called. An audit, which
judges, allows for a change of leaders (``audit.LATE_MS``)."""
MINUTE_MS = 60_000
DAYS_KEPT = 8
"""A week can be compared with the same day of the week before."""
BUCKETS_MAX = 2_500


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a time. Each number counts what happened then: a launch that started in one bucket may end in
    another, and one that was in doubt may succeed later, and is then counted for both."""

    started: int
    late: int
    """Of those that started: more than a second after their planned moment. What waits in line for an earlier launch of
    its schedule, as its owner wants it, is not late."""
    succeeded: int
    failed: int
    skipped: int
    cancelled: int
    in_doubt: int
    missed: int
    """Occurrences, or stretches of them, that were given up because nobody was in office."""
    retries: int
    """Attempts after the first of their launch."""
    lateness_p50_ms: int | None
    """Half of the starts were at most so late, to the next bound of a coarse histogram. None: nothing started by its
    schedule; launches by hand, and those that waited in line, are not in it."""
    lateness_p99_ms: int | None
    lateness_max_ms: int | None


class ActivityBucket(Activity, frozen=True, kw_only=True):
    """From ``at`` on, up to the next bucket."""

    at: datetime


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in ``[since, until)``. There is an item for every bucket, also where nothing happened; the first
    begins at a whole multiple of the bucket's length, the last may not be over yet."""

    since: datetime
    until: datetime
    bucket_s: int
    items: list[ActivityBucket]
    totals: Activity
