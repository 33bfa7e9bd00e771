"""After the fact: history, versions, restore, backfill, resolve."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.conftest import Service, schedule
from tests.receivers import hanging_up


@pytest.fixture
def dropping() -> Iterator[int]:
    """A receiver that takes every request and hangs up: nobody can know what became of it."""
    with hanging_up() as port:
        yield port


def the_versions_of_a_schedule_are_listed_and_any_can_be_restored(service: Service) -> None:
    service.create("v/one", description="first")
    service.ask("PUT", "/v1/schedules/v/one", schedule("v/one", description="second"))
    versions = service.ask("GET", "/v1/schedules/v/one:versions").json["items"]
    assert [(v["version"], v["act"], v["schedule"].get("description")) for v in versions] == [
        (2, "edited", "second"),
        (1, "created", "first"),
    ]
    answer = service.ask("POST", "/v1/schedules/v/one:restore", {"version": 1})
    assert (answer.status, answer.json["description"], answer.json["version"]) == (200, "first", 3)
    assert answer.headers["etag"] == '"3"'


def a_deleted_schedule_comes_back_as_it_was(service: Service) -> None:
    service.create("v/gone", labels={"team": "a"}, description="kept")
    assert service.ask("DELETE", "/v1/schedules/v/gone").status == 204
    answer = service.ask("POST", "/v1/schedules/v/gone:restore")
    assert (answer.status, answer.json["labels"], answer.json["version"]) == (200, {"team": "a"}, 2)
    acts = [r["act"] for r in service.ask("GET", "/v1/history?schedule=v/gone").json["items"]]
    assert acts == ["restored", "deleted", "created"]


def restoring_what_is_there_or_never_was_is_refused(service: Service) -> None:
    service.create("v/there")
    assert service.ask("POST", "/v1/schedules/v/there:restore").status == 409
    assert service.ask("POST", "/v1/schedules/v/there:restore", {"version": 7}).status == 404
    assert service.ask("POST", "/v1/schedules/v/never:restore").status == 404


def history_is_told_in_pages_the_newest_first(service: Service) -> None:
    for number in range(5):
        service.create(f"h/{number}")
    first = service.ask("GET", "/v1/history?limit=2").json
    second = service.ask("GET", f"/v1/history?limit=2&cursor={first['cursor']}").json
    assert [r["about"] for r in (*first["items"], *second["items"])] == ["h/4", "h/3", "h/2", "h/1"]
    assert service.ask("GET", "/v1/history?cursor=garbage").status == 400


def a_backfill_is_previewed_and_then_launched_once(service: Service, wait: Any) -> None:
    service.create("b/daily", cron="0 0 * * *")
    since = (datetime.now(UTC) - timedelta(days=5)).isoformat()
    told = service.ask("POST", "/v1/schedules/b/daily:backfill", {"from": since, "preview": True}).json
    assert (told["launches"], told["left_out"], told["preview"]) == (5, 0, True)
    assert service.ask("GET", "/v1/launches?schedule=b/daily").json["items"] == []
    done = service.ask("POST", "/v1/schedules/b/daily:backfill", {"from": since}).json
    assert done["launches"] == 5

    def all_succeeded() -> list[Any]:
        items = service.ask("GET", "/v1/launches?schedule=b/daily").json["items"]
        return items if {item["state"] for item in items} == {"succeeded"} else []

    assert len(wait(all_succeeded)) == 5
    again = service.ask("POST", "/v1/schedules/b/daily:backfill", {"from": since})
    assert again.status == 409
    told = service.ask("POST", "/v1/schedules/b/daily:backfill", {"from": since, "preview": True}).json
    assert {item["why"] for item in told["items"]} == {"it was launched: succeeded"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"from": "0", "untl": "1"}, "untl"),
    ],
)
def a_backfill_of_nonsense_is_refused_by_its_field(service: Service, body: Any, field: str) -> None:
    service.ask("PUT", "/v1/schedules/b/any", schedule("b/any"))
    answer = service.ask("POST", "/v1/schedules/b/any:backfill", body)
    assert (answer.status, answer.json["field"]) == (400, field)


def doubtful(service: Service, wait: Any, id: str, port: int) -> str:
    service.create(id, target={"kind": "http", "url": f"http://127.0.0.1:{port}/"})
    name = service.ask("POST", f"/v1/schedules/{id}:run").json["name"]
    wait(lambda: service.ask("GET", f"/v1/launches/{name}").json["state"] == "in_doubt")
    return name


def a_doubt_is_ended_by_a_person_and_every_step_is_told(service: Service, wait: Any, dropping: int) -> None:
    name = doubtful(service, wait, "d/one", dropping)
    body = {"outcome": "succeeded", "note": "the statement shows it"}
    answer = service.ask("POST", f"/v1/launches/{name}:resolve", body)
    assert (answer.status, answer.json["state"]) == (200, "succeeded")
    steps = service.ask("GET", f"/v1/launches/{name}").json["steps"]
    assert [step["step"] for step in steps] == [
        "launched",
        "started",
        "attempt ended",
        "resolved",
        "succeeded",
    ]
    assert service.ask("POST", f"/v1/launches/{name}:resolve", body).status == 409


def a_doubt_can_be_ended_by_calling_again_under_the_same_name(
    service: Service, wait: Any, dropping: int
) -> None:
    name = doubtful(service, wait, "d/two", dropping)
    answer = service.ask("POST", f"/v1/launches/{name}:resolve", {"outcome": "relaunch"})
    assert answer.status == 200

    def doubted_again() -> Any:
        detail = service.ask("GET", f"/v1/launches/{name}").json
        return detail if (detail["state"], detail["attempt"]) == ("in_doubt", 2) else None

    assert [attempt["attempt"] for attempt in wait(doubted_again)["attempts"]] == [1]


def an_outcome_that_there_is_not_is_refused(service: Service) -> None:
    answer = service.ask("POST", "/v1/launches/d/one-5:resolve", {"outcome": "perhaps"})
    assert (answer.status, answer.json["field"]) == (400, "outcome")
