"""``GET /v1/activity`` of a real service."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.conftest import Service, eventually

from tocsin.client import Client


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _activity(service: Service, **params: Any) -> Any:
    answer = service.ask("GET", f"/v1/activity?{urlencode(params)}")
    assert answer.status == 200, answer
    return answer.json


def what_was_launched_is_counted_in_its_minute(service: Service) -> None:
    service.create("count/good")
    service.create("count/bad", target={"kind": "exec", "argv": ["false"]})
    before = _activity(service)["totals"]
    for id in ("good", "good", "bad"):
        eventually(lambda id=id: service.ask("POST", f"/v1/schedules/count%2F{id}:run").status == 202)

    def ended() -> Any:
        found = _activity(service)
        done = (found["totals"][name] - before[name] for name in ("started", "succeeded", "failed"))
        return found if tuple(done) == (3, 2, 1) else None

    found = eventually(ended)
    assert found["bucket_s"] == 60
    assert len(found["items"]) in (60, 61)
    assert sum(item["started"] for item in found["items"][-2:]) == found["totals"]["started"]
    assert found["totals"]["lateness_p50_ms"] is None, "what a person asks for is never late"


def what_comes_by_its_schedule_tells_how_late_it_was(service: Service) -> None:
    service.create("count/often", cron="* * * * * *")
    totals = eventually(lambda: (t := _activity(service)["totals"])["lateness_max_ms"] is not None and t)
    assert 0 <= totals["lateness_p50_ms"] <= totals["lateness_p99_ms"] <= totals["lateness_max_ms"]
    service.ask("DELETE", "/v1/schedules/count%2Foften")


@pytest.mark.parametrize(
    ("length", "bucket", "bucket_s", "least", "most"),
    [
        (timedelta(hours=1), "", 60, 60, 61),
        (timedelta(days=1), "", 300, 288, 289),
        (timedelta(days=7), "", 3_600, 168, 169),
        (timedelta(days=7), "1d", 86_400, 7, 8),
        (timedelta(hours=1), "7m", 420, 9, 10),
    ],
)
def a_longer_time_has_longer_buckets(
    service: Service, length: timedelta, bucket: str, bucket_s: int, least: int, most: int
) -> None:
    since = _text((datetime.now(UTC) - length).replace(microsecond=0))
    found = _activity(service, since=since, **({"bucket": bucket} if bucket else {}))
    assert found["bucket_s"] == bucket_s
    assert least <= len(found["items"]) <= most
    assert found["since"] == found["items"][0]["at"] <= since


def nothing_is_told_of_what_is_no_longer_kept_or_yet_to_come(service: Service) -> None:
    found = _activity(service, since="2020-01-01T00:00:00Z", until="2100-01-01T00:00:00Z", bucket="1h")
    since, until = (datetime.fromisoformat(found[name]) for name in ("since", "until"))
    assert timedelta(days=8) <= until - since <= timedelta(days=8, hours=1)
    assert abs(datetime.now(UTC) - until) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"bucket": "90s"}, "bucket"),
        ({"bucket": "1s"}, "bucket"),
        ({"bucket": "9d"}, "bucket"),
        ({"bucket": "soon"}, "bucket"),
        ({"bucket": "1m", "since": "2020-01-01T00:00:00Z"}, "bucket"),
        ({"since": "2100-01-01T00:00:00Z"}, "since"),
        ({"until": "2020-01-01T00:00:00Z"}, "until"),
        ({"since": "yesterday"}, "since"),
        ({"prefix": "a/"}, "prefix"),
    ],
)
def a_wrong_question_is_refused_and_told_what_is_allowed(
    service: Service, params: dict[str, str], field: str
) -> None:
    answer = service.ask("GET", f"/v1/activity?{urlencode(params)}")
    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["allowed"]


def whoever_may_read_may_ask_and_the_client_understands(service: Service, guarded: Service) -> None:
    made = guarded.ask("POST", "/v1/tokens", {"name": "part", "scopes": ["read"], "prefixes": ["a/"]}).json
    assert guarded.as_(made["token"]).ask("GET", "/v1/activity").status == 200
    assert guarded.as_("").ask("GET", "/v1/activity").status == 401

    async def asked() -> Any:
        async with Client(service.url) as client:
            return await client.activity(since=_text(datetime.now(UTC) - timedelta(hours=3)), bucket="1h")

    found = asyncio.run(asked())
    assert (found.bucket_s, len(found.items) in (3, 4)) == (3_600, True)
