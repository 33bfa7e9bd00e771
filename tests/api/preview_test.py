"""``POST /v1/preview``: what a schedule would do, and nothing is done."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tocsin.client import Client
from tocsin.model.preview import PreviewView
from tocsin.model.schedule import convert

BERLIN_SPRING, BERLIN_AUTUMN = "2027-03-27T12:00:00Z", "2027-10-30T12:00:00Z"
NEW_YORK_SPRING, NEW_YORK_AUTUMN = "2027-03-13T12:00:00Z", "2027-11-06T12:00:00Z"


@pytest.fixture
def preview(service: Any, sample: Any) -> Any:
    def asked(id: str, *, days: int = 14, start: str | None = None, **fields: Any) -> Any:
        body = {"schedule": sample(id, **fields), "days": days, **({"from": start} if start else {})}
        answer = service.ask("POST", "/v1/preview", body)
        assert answer.status == 200, answer
        return answer.json

    return asked


def a_new_schedule_is_not_written(service, preview):
    before = service.ask("GET", "/v1/status").json["sequence"]
    found = preview("preview/new", cron="0 12 * * *", start="2027-01-01T00:00:00Z", days=2)
    assert (found["change"], found["version"], found["fields"]) == ("new", 0, [])
    assert found["appear"] == ["2027-01-01T12:00:00Z", "2027-01-02T12:00:00Z"]
    assert (found["from"], found["until"]) == ("2027-01-01T00:00:00Z", "2027-01-03T00:00:00Z")
    assert service.ask("GET", "/v1/schedules/preview/new").status == 404
    assert service.ask("GET", "/v1/status").json["sequence"] == before


def a_stored_schedule_is_compared_with(service, preview):
    service.create("preview/stored", cron="0 9 * * *", retry={"limit": 1})
    found = preview("preview/stored", cron="30 10 * * *", retry={"limit": 3}, start="2027-01-01T00:00:00Z")
    assert (found["change"], found["version"]) == ("changed", 1)
    assert found["fields"] == [
        {"field": "cron", "before": "0 9 * * *", "after": "30 10 * * *"},
        {"field": "retry.limit", "before": 1, "after": 3},
    ]
    assert found["counts"] == {"before": 14, "after": 14, "appear": 0, "vanish": 0, "move": 14}
    assert found["move"][0] == {"from": "2027-01-01T09:00:00Z", "to": "2027-01-01T10:30:00Z"}
    assert service.ask("GET", "/v1/schedules/preview/stored").json["cron"] == "0 9 * * *"


def the_same_again_is_unchanged(service, preview):
    service.create("preview/same", cron="@hourly")
    found = preview("preview/same", cron="@hourly")
    assert (found["change"], found["fields"], found["counts"]["move"]) == ("unchanged", [], 0)
    assert found["counts"]["before"] == found["counts"]["after"] == 14 * 24


def what_was_paused_since_has_no_launches_to_lose(service, preview):
    service.create("preview/paused", cron="@daily")
    service.ask("POST", "/v1/schedules/preview/paused:pause")
    found = preview("preview/paused", cron="@daily")
    assert found["fields"] == [{"field": "enabled", "before": False, "after": True}]
    assert found["counts"] == {"before": 0, "after": 14, "appear": 14, "vanish": 0, "move": 0}


@pytest.mark.parametrize(
    ("id", "cron"), [("every", "@every 5h"), ("any", "? ? * * *"), ("some", "10~50 3 * * *")]
)
def what_was_settled_stays_settled(service, preview, id, cron):
    id = f"preview/settled-{id}"
    stored = service.create(id, cron=cron)
    found = preview(id, cron=cron, timeout="5m")
    assert found["resolved"] == stored["resolved"] != cron
    assert [change["field"] for change in found["fields"]] == ["timeout"]
    assert (found["appear"], found["vanish"], found["move"]) == ([], [], [])


@pytest.mark.parametrize(
    ("timezone", "start", "launched", "told"),
    [
        ("Europe/Berlin", BERLIN_SPRING, "2027-03-28T01:00:00Z", "02:30 is launched at 03:00"),
        (
            "Europe/Berlin",
            BERLIN_AUTUMN,
            "2027-10-31T00:30:00Z",
            "02:30 comes twice and is launched the first",
        ),
        ("America/New_York", NEW_YORK_SPRING, "2027-03-14T07:00:00Z", "02:30 is launched at 03:00"),
        ("America/New_York", NEW_YORK_AUTUMN, "2027-11-07T07:30:00Z", "none of its occurrences"),
    ],
)
def what_is_told_of_the_clocks_is_what_is_launched(preview, timezone, start, launched, told):
    found = preview("preview/clocks", cron="30 2 * * *", timezone=timezone, start=start, days=1)
    assert found["appear"] == [launched]
    (transition,) = found["transitions"]
    assert told in transition["text"]
    assert abs(transition["offset_after_s"] - transition["offset_before_s"]) == 3600


def a_wildcard_follows_the_clocks(preview):
    spring = preview("preview/wild", cron="0 * * * *", timezone="Europe/Berlin", start=BERLIN_SPRING, days=1)
    assert spring["counts"]["after"] == 24, "24 hours have passed, though the clocks showed 25"
    assert "02:00 is not launched" in spring["transitions"][0]["text"]
    fixed = preview(
        "preview/wild", cron="0 0-23 * * *", timezone="Europe/Berlin", start=BERLIN_AUTUMN, days=1
    )
    assert fixed["counts"]["after"] == 23, "02:00 came twice, and counts once"


def a_change_of_zone_moves_the_launches(service, preview):
    service.create("preview/zone", cron="0 9 * * *", timezone="Europe/Berlin")
    found = preview(
        "preview/zone", cron="0 9 * * *", timezone="America/New_York", start="2027-03-13T00:00:00Z", days=3
    )
    assert found["move"] == [
        {"from": "2027-03-13T08:00:00Z", "to": "2027-03-13T14:00:00Z"},
        {"from": "2027-03-14T08:00:00Z", "to": "2027-03-14T13:00:00Z"},
        {"from": "2027-03-15T08:00:00Z", "to": "2027-03-15T13:00:00Z"},
    ]
    assert "2027-03-14: clocks go from 02:00 to 03:00" in found["transitions"][0]["text"]


def every_second_of_a_year_is_cut_and_says_so(preview):
    found = preview("preview/second", cron="* * * * * *", start="2027-01-01T00:00:00Z", days=366)
    assert found["complete"] is False
    assert found["counted_until"] < "2027-01-02"
    assert (len(found["appear"]), found["counts"]["appear"]) == (200, found["counts"]["after"])


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"days": 0}, "days"),
        ({"days": 367}, "days"),
        ({"days": "many"}, "days"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2027-01-01T00:00:00"}, "from"),
        ({"dayz": 3}, "dayz"),
        ({"schedule": 7}, "schedule"),
        ({"schedule": {"id": "a", "cron": "61 * * * *", "target": {"kind": "null"}}}, "minute"),
        (
            {"schedule": {"id": "a", "cron": "@daily", "target": {"kind": "null"}, "timezon": "UTC"}},
            "timezon",
        ),
    ],
)
def a_mistake_is_told_with_its_field(service, sample, changed, field):
    answer = service.ask("POST", "/v1/preview", {"schedule": sample("preview/wrong"), **changed})
    assert (answer.status, answer.json["field"]) == (400, field)


def a_field_that_does_not_exist_comes_with_the_one_that_was_meant(service, sample):
    sent = sample("preview/meant", timezon="UTC")
    assert service.ask("POST", "/v1/preview", {"schedule": sent}).json["hint"] == "did you mean timezone?"
    sent = sample("preview/meant", retry={"limt": 3})
    assert service.ask("POST", "/v1/schedules", sent).json["hint"] == "did you mean limit?"
    paused = service.ask("POST", "/v1/schedules/preview/meant:pause", {"nots": "x"})
    assert paused.json["hint"] == "did you mean note?"


def the_client_reads_what_the_service_says(service):
    wanted = convert({"id": "preview/client", "cron": "@daily", "target": {"kind": "null"}})
    service.create("preview/client", cron="@daily", labels={"a": "b"})

    async def asked() -> PreviewView:
        async with Client(service.url) as client:
            return await client.preview(wanted, days=3, after="2027-01-01T00:00:00Z")

    view = asyncio.run(asked())
    (change,) = view.fields
    assert (change.field, change.before, change.after) == ("labels.a", "b", msgspec.UNSET)
    assert (view.from_.year, view.counts.after) == (2027, 3)


def it_is_described(service):
    description = service.ask("GET", "/openapi.json").json
    operation = description["paths"]["/v1/preview"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(
        "/PreviewRequest"
    )
    assert {"PreviewView", "FieldChange", "Move", "Transition"} <= set(description["components"]["schemas"])
