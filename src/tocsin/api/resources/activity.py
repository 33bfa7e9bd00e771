"""What happened lately, in numbers: launches per bucket of a time that has passed."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from tocsin.api import query
from tocsin.api.description.about import about
from tocsin.api.service import Given, moment_of, seconds_of
from tocsin.cron import parse_duration
from tocsin.errors import InvalidInput
from tocsin.model.activity import BUCKETS_MAX, DAYS_KEPT, MINUTE_MS, ActivityView
from tocsin.state import minutes

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_LENGTHS_MS = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS)
_FEW = 300
"""Without a wish there are no more buckets than this: each is a bar of a chart."""


@get(
    "/v1/activity",
    operation_id="activity",
    opt=about(
        "launches",
        "What happened lately",
        answers={200: ("Launches per bucket, and how late they were.", ActivityView)},
    ),
)
async def activity(
    service: Given,
    since: Annotated[
        str | None,
        query.moment(f"From here on, at most {DAYS_KEPT} days ago; by default an hour before `until`."),
    ] = None,
    until: Annotated[str | None, query.moment("Up to here, at most now; by default now.")] = None,
    bucket: Annotated[
        str,
        QueryParameter(
            description="How long a bucket is: whole minutes, such as `1m`, `5m` or `1h`. By default so long that "
            "there are few.",
            schema_extra={"format": "time-span", "examples": ["5m"]},
        ),
    ] = "",
) -> ActivityView:
    """How many launches started, were late, and ended how, in each bucket and in all. Minutes are counted as things
    happen and kept for eight days, so this costs the same with ten schedules and with ten million. All schedules are
    counted, also those beyond the caller's reach: none is named."""
    now_ms = service.now_ms()
    to_ms = now_ms if until is None else min(now_ms, seconds_of(moment_of(until, "until")) * 1000)
    from_ms = to_ms - HOUR_MS if since is None else seconds_of(moment_of(since, "since")) * 1000
    from_ms = max(from_ms, now_ms - DAYS_KEPT * DAY_MS)
    if to_ms <= from_ms:
        raise InvalidInput(
            "the end is not after the beginning",
            field="since" if until is None else "until",
            value=until or since or "",
            allowed=f"since before until, both within the last {DAYS_KEPT} days",
            hint="'tocsin forecast' tells what is to come, 'tocsin audit' what became of older occurrences",
        )
    return await service.replica.read(minutes.activity, from_ms, to_ms, _bucket_ms(bucket, to_ms - from_ms))


HANDLERS = (activity,)


def _bucket_ms(text: str, length_ms: int) -> int:
    if not text:
        return next((each for each in _LENGTHS_MS if -(-length_ms // each) <= _FEW), HOUR_MS)
    bucket_ms = parse_duration(text, field="bucket") * 1000
    if bucket_ms < MINUTE_MS or bucket_ms % MINUTE_MS or bucket_ms > DAYS_KEPT * DAY_MS:
        raise InvalidInput(
            "a bucket is made of whole minutes",
            field="bucket",
            value=text,
            allowed=f"1m to {DAYS_KEPT}d, in whole minutes",
        )
    if -(-length_ms // bucket_ms) > BUCKETS_MAX:
        raise InvalidInput(
            "there would be too many buckets",
            field="bucket",
            value=text,
            allowed=f"at least {-(-length_ms // BUCKETS_MAX // MINUTE_MS)}m for that time: up to {BUCKETS_MAX} buckets",
        )
    return bucket_ms
