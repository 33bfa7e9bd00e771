"""``GET /v1/forecast`` and the limit on one second, of a real service."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.conftest import Answer, Service

from tocsin.api.forecasting import EVERYTHING, WAITING_OF_ONE_MAX, Forecaster
from tocsin.errors import TooMany

DAY_S = 86_400


def _ahead(**length: float) -> datetime:
    return (datetime.now(UTC) + timedelta(**length)).replace(microsecond=0)


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _forecast(service: Service, **params: Any) -> Any:
    answer = service.ask("GET", f"/v1/forecast?{urlencode(params)}")
    assert answer.status == 200, answer
    return answer.json


def what_is_planned_is_counted_and_what_is_paused_is_not(service: Service) -> None:
    at = _ahead(hours=5)
    for number in range(3):
        service.create(f"plan/once{number}", cron=f"@at {_text(at)}", labels={"team": "red"})
    service.create("plan/paused", cron=f"@at {_text(at)}", enabled=False)
    service.create("plan/hourly", cron="7 * * * *", timezone="Asia/Kathmandu")
    service.create("plan/every", cron="@every 6h")
    service.create("plan/later", cron="* * * * *", start=_text(_ahead(days=3)))
    found = _forecast(service, prefix="plan/", bucket="1h")
    assert found["launches"] == 3 + 24 + 4
    assert len(found["buckets"]) in (24, 25)  # from round hour to round hour
    assert sum(bucket["launches"] for bucket in found["buckets"]) == found["launches"]
    worst = found["worst"][0]
    assert (worst["at"], worst["launches"]) == (_text(at), 3)
    assert worst["texts"] == [{"name": "@at", "launches": 3}]
    assert worst["prefixes"] == [{"name": "plan/", "launches": 3}]
    assert worst["labels"] == [{"name": "team=red", "launches": 3}]
    assert "overlap" in found["notes"][0]


def the_worst_second_names_who_meets_in_it_and_what_would_help(service: Service) -> None:
    for number in range(30):
        service.create(f"herd/a{number}", cron="0 3 * * *", timezone="Europe/Berlin", labels={"team": "blue"})
    for number in range(10):
        service.create(f"herd/b/{number}", cron="@daily", timezone="Europe/Berlin")
    found = _forecast(service, prefix="herd/", worst=1)
    (worst,) = found["worst"]
    assert worst["launches"] == 30
    assert worst["texts"] == [{"name": "0 3 * * * (Europe/Berlin)", "launches": 30}]
    assert worst["labels"] == [{"name": "team=blue", "launches": 30}]
    chosen, jittered = found["remedies"]
    assert (chosen["schedules"], chosen["before"]) == (30, 30)
    assert chosen["after"] == 10  # the others at midnight are the worst then
    assert jittered["after"] == 10


def seconds_can_be_asked_for_one_by_one(service: Service) -> None:
    at = _ahead(hours=2)
    service.create("single/one", cron=f"@at {_text(at)}")
    found = _forecast(
        service,
        since=_text(at - timedelta(seconds=2)),
        until=_text(at + timedelta(seconds=3)),
        bucket="1s",
        prefix="single/",
    )
    assert [bucket["launches"] for bucket in found["buckets"]] == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"until": "2020-01-01T00:00:00Z"}, "until"),
        ({"until": "2099-01-01T00:00:00Z"}, "until"),
        ({"bucket": "soon"}, "bucket"),
        ({"bucket": "1s"}, "bucket"),
        ({"worst": 21}, "worst"),
        ({"buckets": 3}, "buckets"),
    ],
)
def what_cannot_be_foretold_is_refused(service: Service, params: dict[str, Any], field: str) -> None:
    answer = service.ask("GET", f"/v1/forecast?{urlencode(params)}")
    assert answer.status == 400
    assert answer.json["field"] == field


def a_token_sees_the_launches_of_its_prefix_only(guarded: Service) -> None:
    at = _text(_ahead(hours=1))
    for id in ("mine/one", "theirs/one", "mine/two"):
        guarded.create(id, cron=f"@at {at}")
    body = {"name": "mine", "scopes": ["read"], "prefixes": ["mine"]}
    token = guarded.ask("POST", "/v1/tokens", body).json["token"]
    assert _forecast(guarded.as_(token))["launches"] == 2
    assert _forecast(guarded.as_(token), prefix="theirs/")["launches"] == 0
    assert _forecast(guarded)["launches"] == 3


# The limit on one second


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from _limited(tmp_path_factory.mktemp("refusing"), "refuse")


@pytest.fixture(scope="module")
def warning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from _limited(tmp_path_factory.mktemp("warning"), "warn")


def _limited(folder: Path, action: str) -> Iterator[Service]:
    running = Service(folder / "data", "--herd-limit", "3", "--herd-action", action)
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def _create(service: Service, id: str, cron: str, **fields: Any) -> Answer:
    return service.ask(
        "POST", "/v1/schedules", {"id": id, "cron": cron, "target": {"kind": "null"}, **fields}
    )


def _hour(at: datetime) -> str:
    """A cron text for that time of every day."""
    return f"{at.minute} {at.hour} * * *"


def a_schedule_that_would_overfill_a_second_is_refused(refusing: Service) -> None:
    at = _ahead(hours=4)
    for number in range(3):
        assert _create(refusing, f"full/{number}", _hour(at)).status == 201
    answer = _create(refusing, "full/more", _hour(at))
    assert answer.status == 400
    told = answer.json
    assert (told["field"], told["value"]) == ("cron", _hour(at))
    assert _text(at.replace(second=0)) in told["detail"]
    assert told["detail"].startswith("3 launches are planned")
    assert f"'? ? {at.hour} * * *'" in told["hint"]
    assert "jitter" in told["hint"]
    assert refusing.ask("GET", "/v1/schedules/full/more").status == 404
    assert _create(refusing, "full/chosen", f"? ? {at.hour} * * *").status == 201
    assert _create(refusing, "full/jittered", _hour(at), jitter="10m").status == 201


def an_edit_counts_only_what_it_changes(refusing: Service) -> None:
    at = _ahead(hours=6)
    for number in range(3):
        assert _create(refusing, f"edit/{number}", _hour(at)).status == 201
    changed = refusing.ask("PATCH", "/v1/schedules/edit/0", {"description": "the same time"})
    assert changed.status == 200
    elsewhere = _ahead(hours=7)
    assert _create(refusing, "edit/other", _hour(elsewhere)).status == 201
    assert refusing.ask("PATCH", "/v1/schedules/edit/other", {"cron": _hour(at)}).status == 400
    assert refusing.ask("PATCH", "/v1/schedules/edit/1", {"cron": _hour(elsewhere)}).status == 200
    assert refusing.ask("PATCH", "/v1/schedules/edit/other", {"cron": _hour(at)}).status == 200


def who_makes_room_can_use_it_at_once(refusing: Service) -> None:
    at = f"@at {_text(_ahead(hours=8))}"
    for number in range(3):
        assert _create(refusing, f"room/{number}", at).status == 201
    assert _create(refusing, "room/more", at).status == 400
    assert refusing.ask("DELETE", "/v1/schedules/room/0").status == 204
    assert _create(refusing, "room/more", at).status == 201
    assert _create(refusing, "room/again", at).status == 400
    assert refusing.ask("POST", "/v1/schedules/room/1:pause", {}).status == 200
    assert _create(refusing, "room/again", at).status == 201


def nothing_at_all_is_foretold_of_an_empty_service(tmp_path: Path, start: Callable[..., Service]) -> None:
    found = _forecast(start(tmp_path / "data"), worst=0)
    assert (found["launches"], found["schedules"], found["worst"], found["remedies"]) == (0, 0, [], [])


def what_is_there_already_is_known_after_a_restart(tmp_path: Path, start: Callable[..., Service]) -> None:
    at = _ahead(hours=5)
    first = start(tmp_path / "data")
    for number in range(4):
        first.create(f"kept/{number}", cron=_hour(at))
    first.create("kept/minutely", cron="* * * * *")
    first.stop()
    second = start(tmp_path / "data", "--herd-limit", "5", "--herd-action", "refuse")
    told = _create(second, "kept/more", _hour(at)).json
    assert told["detail"].startswith("5 launches are planned")
    assert _create(second, "kept/minutely2", "* * * * *").status == 400


def a_warning_comes_with_what_was_written(warning: Service) -> None:
    at = _ahead(hours=4)
    for number in range(3):
        answer = _create(warning, f"warned/{number}", _hour(at))
        assert "warnings" not in answer.json
    answer = _create(warning, "warned/more", _hour(at))
    assert answer.status == 201
    (told,) = answer.json["warnings"]
    assert "3 launches are planned" in told
    assert "warnings" not in warning.ask("GET", "/v1/schedules/warned/more").json


def _import(service: Service, schedules: list[dict[str, Any]], query: str = "") -> list[Any]:
    body = "".join(json.dumps(each) + "\n" for each in schedules).encode()
    kind = {"content-type": "application/x-ndjson"}
    answer = service.ask("POST", f"/v1/import{query}", body, kind, raw=True)
    return [json.loads(line) for line in answer.body.splitlines()]


def _lines(prefix: str, count: int, cron: str) -> list[dict[str, Any]]:
    return [{"id": f"{prefix}/{number}", "cron": cron, "target": {"kind": "null"}} for number in range(count)]


def an_import_stops_where_a_second_is_full(refusing: Service) -> None:
    at = _ahead(hours=10)
    lines = (
        _lines("many", 5, _hour(at))
        + _lines("once", 5, f"@at {_text(_ahead(hours=9))}")
        + _lines("free", 5, "? ? ? * * *")
    )
    *refused, summary = _import(refusing, lines)
    assert summary["counts"] == {"created": 11, "refused": 4}
    assert [line["line"] for line in refused] == [4, 5, 9, 10]
    assert all(line["error"]["field"] == "cron" for line in refused)
    *_, again = _import(refusing, lines)
    assert again["counts"] == {"unchanged": 11, "refused": 4}
    *_, replaced = _import(refusing, [{**line, "description": "new"} for line in lines[:3]], "?mode=put")
    assert replaced["counts"] == {"created": 0, "edited": 3} or replaced["counts"]["edited"] == 3


def an_import_is_warned_of_once(warning: Service) -> None:
    *_, summary = _import(warning, _lines("crowd", 10, _hour(_ahead(hours=11))))
    assert summary["counts"]["created"] == 10
    (told,) = summary["warnings"]
    assert told.startswith("7 schedules make a second fuller")


def a_checked_import_takes_no_room(refusing: Service) -> None:
    lines = _lines("checked", 4, _hour(_ahead(hours=12)))
    for _ in range(2):
        *refused, summary = _import(refusing, lines, "?check=true")
        assert (summary["counts"]["good"], len(refused)) == (3, 1)


def one_caller_does_not_take_all_forecasts() -> None:
    async def work() -> None:
        forecaster = Forecaster(None)  # type: ignore[arg-type]  # why: nothing is read
        await forecaster._turn.acquire()
        ask = functools.partial(forecaster.forecast, 0, 1, 1, 0, EVERYTHING)
        waiting = [asyncio.create_task(ask("greedy")) for _ in range(WAITING_OF_ONE_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany):
            await ask("greedy")
        waiting.append(asyncio.create_task(ask("modest")))
        await asyncio.sleep(0)
        assert not waiting[-1].done(), "it waits for its turn"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not forecaster._waiting

    asyncio.run(work())
