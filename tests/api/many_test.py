"""Many schedules at once: bulk, import, export."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from tests.api.conftest import Answer, Service, schedule

NDJSON = {"content-type": "application/x-ndjson"}


def lines(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.body.splitlines()]


def imported(service: Service, text: bytes, query: str = "") -> list[Any]:
    return lines(service.ask("POST", f"/v1/import{query}", text, NDJSON, raw=True))


def several(*schedules: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in schedules)


def what_is_exported_can_be_imported_elsewhere(service: Service, start: Any, tmp_path: Any) -> None:
    made = [schedule(f"e/{n}", labels={"n": str(n)}, payload={"x": [n, None]}) for n in range(30)]
    assert imported(service, several(*made))[-1] == {"done": True, "counts": {"created": 30}}
    exported = service.ask("GET", "/v1/export?prefix=e/")
    assert [json.loads(line)["id"] for line in exported.body.splitlines()] == sorted(
        f"e/{n}" for n in range(30)
    )
    other = start(tmp_path / "data")
    assert imported(other, exported.body)[-1]["counts"] == {"created": 30}
    assert other.ask("GET", "/v1/export").body == exported.body


def a_line_that_is_refused_is_told_with_its_number_and_stops_nobody(service: Service) -> None:
    text = several(schedule("i/1"), schedule("i/2", cron="61 * * * *"), schedule("i/3", missd="last")) + (
        b"not json\n\n" + several(schedule("i/6"))
    )
    *refused, last = imported(service, text)
    assert [(line["line"], line.get("id"), line["error"].get("field")) for line in refused] == [
        (2, "i/2", "minute"),
        (3, "i/3", "missd"),
        (4, None, "body"),
    ]
    assert last == {"done": True, "counts": {"created": 2, "refused": 3}}


def the_same_import_again_changes_nothing(service: Service) -> None:
    text = several(schedule("again/1"), schedule("again/2"))
    imported(service, text)
    assert imported(service, text)[-1]["counts"] == {"unchanged": 2}
    assert service.ask("GET", "/v1/schedules/again/1").json["version"] == 1


def an_id_that_is_taken_is_refused_unless_it_is_to_be_replaced(service: Service) -> None:
    imported(service, several(schedule("taken")))
    changed = several(schedule("taken", description="new"))
    *refused, last = imported(service, changed)
    assert (refused[0]["id"], refused[0]["error"]["status"], last["counts"]) == ("taken", 409, {"refused": 1})
    assert imported(service, changed, "?mode=put")[-1]["counts"] == {"edited": 1}


def an_import_can_be_checked_without_writing(service: Service) -> None:
    text = several(schedule("check/1"), schedule("check/2", cron="x"))
    assert imported(service, text, "?check=true")[-1]["counts"] == {"good": 1, "refused": 1}
    assert service.ask("GET", "/v1/schedules/check/1").status == 404


def an_import_is_of_any_length_and_tells_how_far_it_is(service: Service) -> None:
    """Ten megabytes, which is ten times what any other request may have, in chunks as they come."""
    each = several(schedule("long/0", description="x" * 1900))
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)

    def chunks() -> Any:
        for number in range(5_000):
            yield each.replace(b"long/0", b"long/%d" % number)

    connection.request("POST", "/v1/import", chunks(), NDJSON, encode_chunked=True)
    told = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert told[-1] == {"done": True, "counts": {"created": 5_000}}
    assert all("progress" in line for line in told[:-1])


def a_line_without_an_end_is_refused_and_what_came_before_stays(service: Service) -> None:
    told = imported(service, several(schedule("before")) + b"x" * 2_000_000)
    assert told[-1]["done"] is False
    assert told[-2]["line"] == 2
    assert "too long" in told[-2]["error"]["detail"]


@pytest.mark.parametrize(("query", "state"), [("", "skipped"), ("?past=launch", "succeeded")])
def a_moment_that_has_passed_is_launched_by_an_import_only_if_that_is_asked_for(
    service: Service, wait: Any, query: str, state: str
) -> None:
    """It may have been launched where it was exported."""
    id = f"past/{state}"
    imported(service, several(schedule(id, cron="@at 2026-01-01T00:00:00Z")), query)
    found = wait(lambda: service.ask("GET", f"/v1/launches?schedule={id}&state={state}").json["items"])
    assert len(found) == 1


def an_import_of_another_content_type_is_refused(service: Service) -> None:
    assert service.ask("POST", "/v1/import", [schedule("x")]).status == 415


def an_import_cut_off_keeps_what_was_written_and_harms_nobody(service: Service, wait: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    connection.putrequest("POST", "/v1/import")
    connection.putheader("content-type", "application/x-ndjson")
    connection.putheader("content-length", "100000000")
    connection.endheaders()
    connection.send(b"".join(several(schedule(f"cut/{n:04}")) for n in range(1_000)))
    wait(lambda: service.ask("GET", "/v1/schedules/cut/0499").status == 200)
    connection.close()
    assert service.ask("GET", "/v1/status").status == 200


def many_are_paused_and_resumed_by_a_selector(service: Service) -> None:
    for id in ("m/1", "m/2", "n/1"):
        service.create(id, labels={"team": id[0]})
    wish = {"action": "pause", "selector": {"labels": {"team": "m"}}, "note": "holiday"}
    preview = lines(service.ask("POST", "/v1/bulk", {**wish, "preview": True}))
    assert [line.get("result") for line in preview[:-1]] == ["would be paused"] * 2
    assert service.ask("GET", "/v1/schedules/m/1").json["enabled"] is True
    told = lines(service.ask("POST", "/v1/bulk", wish))
    assert told[-1] == {"done": True, "counts": {"paused": 2}}
    assert service.ask("GET", "/v1/schedules/m/2").json["note"] == "holiday"
    assert service.ask("GET", "/v1/schedules/n/1").json["enabled"] is True
    assert lines(service.ask("POST", "/v1/bulk", wish))[-1]["counts"] == {"unchanged": 2}


def many_are_deleted_and_each_refusal_is_told(service: Service) -> None:
    text = several(*(schedule(f"del/{n:04}") for n in range(1_200)))
    imported(service, text)
    told = lines(service.ask("POST", "/v1/bulk", {"action": "delete", "selector": {"prefix": "del/"}}))
    assert told[-1]["counts"] == {"deleted": 1_200}
    assert service.ask("GET", "/v1/schedules?prefix=del/").json["items"] == []


def those_that_are_named_are_meant_and_no_others(service: Service) -> None:
    for id in ("named/1", "named/2", "named/3"):
        service.create(id)
    wish = {"action": "pause", "selector": {"ids": ["named/3", "named/gone", "named/1", "named/3"]}}
    told = lines(service.ask("POST", "/v1/bulk", wish))
    assert [(line["id"], line["result"]) for line in told[:-1]] == [
        ("named/3", "paused"),
        ("named/gone", "refused"),
        ("named/1", "paused"),
    ]
    assert told[1]["error"]["status"] == 404
    assert told[-1] == {"done": True, "counts": {"paused": 2, "refused": 1}}
    assert service.ask("GET", "/v1/schedules/named/2").json["enabled"] is True
    wish["selector"] = {"ids": ["named/1", "named/2"], "enabled": True, "prefix": "named/", "target": "null"}
    assert lines(service.ask("POST", "/v1/bulk", wish))[-1]["counts"] == {"paused": 1}


def labels_of_many_are_set_and_removed_and_what_they_were_is_told(service: Service) -> None:
    service.create("labelled/1", labels={"team": "a", "kept": "yes"})
    service.create("labelled/2", labels={"tier": "gold"})
    wish = {"action": "label", "selector": {"prefix": "labelled/"}, "labels": {"team": "b", "tier": None}}
    foreseen = lines(service.ask("POST", "/v1/bulk", {**wish, "preview": True}))
    assert foreseen[-1]["counts"] == {"would be labelled": 2}
    told = lines(service.ask("POST", "/v1/bulk", wish))
    assert told == [
        {"id": "labelled/1", "result": "labelled", "was": {"team": "a", "tier": None}},
        {"id": "labelled/2", "result": "labelled", "was": {"team": None, "tier": "gold"}},
        {"done": True, "counts": {"labelled": 2}},
    ]
    one = service.ask("GET", "/v1/schedules/labelled/1").json
    assert (one["labels"], one["version"]) == ({"team": "b", "kept": "yes"}, 2)
    assert service.ask("GET", "/v1/schedules/labelled/2").json["labels"] == {"team": "b"}
    assert lines(service.ask("POST", "/v1/bulk", wish))[-1]["counts"] == {"unchanged": 2}
    for line in told[:-1]:
        back = {"action": "label", "selector": {"ids": [line["id"]]}, "labels": line["was"]}
        assert lines(service.ask("POST", "/v1/bulk", back))[-1]["counts"] == {"labelled": 1}
    assert service.ask("GET", "/v1/schedules/labelled/1").json["labels"] == {"team": "a", "kept": "yes"}
    assert service.ask("GET", "/v1/schedules/labelled/2").json["labels"] == {"tier": "gold"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "pause", "selector": {}}, "selector"),
        ({"action": "explode", "selector": {"prefix": "a"}}, "action"),
        ({"action": "pause", "selector": {"prefx": "a"}}, "selector.prefx"),
        ({"action": "pause"}, "selector"),
        ({"action": "pause", "selector": {"ids": ["a//b"]}}, "selector.ids"),
        ({"action": "pause", "selector": {"ids": ["a"] * 1_001}}, "selector.ids"),
        ({"action": "label", "selector": {"prefix": "a"}}, "labels"),
        ({"action": "label", "selector": {"prefix": "a"}, "labels": {"=": "x"}}, "label"),
        ({"action": "run", "selector": {"prefix": "a"}, "labels": {"x": "y"}}, "labels"),
    ],
)
def a_bulk_action_that_is_not_clear_is_refused(service: Service, body: Any, field: str) -> None:
    answer = service.ask("POST", "/v1/bulk", body)
    assert (answer.status, answer.json["field"]) == (400, field)
