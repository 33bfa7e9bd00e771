"""The forecast: launches per bucket of a time to come, the worst seconds, and what would help."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from tocsin.api import query
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.forecasting import Scope
from tocsin.api.service import Given, moment_of, seconds_of
from tocsin.cron import parse_duration
from tocsin.errors import InvalidInput
from tocsin.model.forecast import BUCKETS_MAX, DAYS_MAX, WORST_MAX, ForecastView

DAY_S = 86_400
_LENGTHS_S = (1, 10, 60, 300, 900, 3_600, 21_600, DAY_S)
_FEW = 48
"""Without a wish there are no more buckets than this: a person wants to see them at a glance."""


@get(
    "/v1/forecast",
    operation_id="forecast",
    opt=about(
        "launches",
        "What is to come",
        answers={200: ("The launches that are planned, and the worst seconds.", ForecastView)},
    ),
)
async def forecast(
    service: Given,
    caller: WhoAsks,
    since: Annotated[str | None, query.moment("From here on, at least now; by default now.")] = None,
    until: Annotated[str | None, query.moment("Up to here; by default a day later.")] = None,
    bucket: Annotated[
        str,
        QueryParameter(
            description="How long a bucket is, such as `1s`, `1m` or `1h`. By default so long that there are few.",
            schema_extra={"format": "time-span", "examples": ["1h"]},
        ),
    ] = "",
    prefix: query.Prefix = "",
    worst: Annotated[
        int, QueryParameter(ge=0, le=WORST_MAX, description="How many of the worst seconds are named.")
    ] = 5,
) -> ForecastView:
    """How many launches are planned in each bucket, which seconds are the fullest and who meets in them, and what `?`
    or `jitter` would make of that. Only schedules within the caller's reach are counted, and none that is paused."""
    now_s = -(-service.now_ms() // 1000)
    from_s = now_s if since is None else max(now_s, seconds_of(moment_of(since, "since")))
    to_s = from_s + DAY_S if until is None else seconds_of(moment_of(until, "until"))
    _check(from_s, to_s, until)
    bucket_s = _bucket_s(bucket, to_s - from_s)
    scope = Scope(query.prefix_of(prefix), caller.prefixes)
    return await service.forecaster.forecast(from_s, to_s, bucket_s, worst, scope, caller.account or "local")


HANDLERS = (forecast,)


def _check(from_s: int, to_s: int, until: str | None) -> None:
    if to_s <= from_s:
        raise InvalidInput(
            "the end is not after the beginning, and nothing is foretold of what has passed",
            field="until",
            value=until or "",
            allowed="a moment after since, and after now",
            hint="'tocsin audit' tells what became of the past",
        )
    if to_s - from_s > DAYS_MAX * DAY_S:
        raise InvalidInput(
            "that is too long a time",
            field="until",
            value=until or "",
            allowed=f"up to {DAYS_MAX} days after since",
        )


def _bucket_s(text: str, length_s: int) -> int:
    if not text:
        return next((each for each in _LENGTHS_S if -(-length_s // each) <= _FEW), DAY_S)
    bucket_s = parse_duration(text, field="bucket")
    if bucket_s < 1 or -(-length_s // bucket_s) > BUCKETS_MAX:
        least = -(-length_s // BUCKETS_MAX)
        raise InvalidInput(
            "there would be too many buckets",
            field="bucket",
            value=text,
            allowed=f"at least {least} s for that time: up to {BUCKETS_MAX} buckets",
        )
    return bucket_s
