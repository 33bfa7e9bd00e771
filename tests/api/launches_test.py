"""Launches over HTTP: run, read, output, cancel, why."""

from __future__ import annotations

import time
from typing import Any

import pytest

ENDED = ("succeeded", "failed", "skipped", "cancelled", "in_doubt")


def _ended(service: Any, wait: Any, name: str) -> Any:
    def look() -> Any:
        found = service.ask("GET", f"/v1/launches/{name}").json
        return found if found["state"] in ENDED else None

    return wait(look)


def _run(service: Any, id: str) -> Any:
    answer = service.ask("POST", f"/v1/schedules/{id}:run")
    assert answer.status == 202, answer
    assert answer.headers["location"] == f"/v1/launches/{answer.json['name']}"
    return answer.json


def a_run_now_is_launched_and_its_output_is_kept(service, wait):
    service.create("run/echo", target={"kind": "exec", "shell": "printf 'out\\n'; printf '\\377' >&2"})
    launch = _run(service, "run/echo")
    assert launch["name"].startswith("run/echo-")
    assert launch["name"].endswith("-manual")
    ended = _ended(service, wait, launch["name"])
    assert (ended["state"], ended["exit_code"], ended["attempts"]) == ("succeeded", 0, [])
    output = service.ask("GET", f"/v1/launches/{launch['name']}:output").json
    assert output["head"] + output["tail"] == "out\n\ufffd"
    assert (output["dropped"], output["complete"]) == (0, True)
    plain = service.ask("GET", f"/v1/launches/{launch['name']}:output", headers={"Accept": "text/plain"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert plain.body == b"out\n\xff"


def a_failed_attempt_stays_readable_after_the_next_one(service, wait):
    service.create(
        "run/flaky",
        target={"kind": "exec", "shell": 'echo "attempt $TOCSIN_ATTEMPT"; test "$TOCSIN_ATTEMPT" = 2'},
        retry={"limit": 2, "backoff": "1s", "jitter": 0},
    )
    ended = _ended(service, wait, _run(service, "run/flaky")["name"])
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert [(attempt["attempt"], attempt["exit_code"]) for attempt in ended["attempts"]] == [(1, 1)]
    outputs = [
        service.ask("GET", f"/v1/launches/{ended['name']}:output?attempt={number}").json["head"]
        for number in (1, 2)
    ]
    assert outputs == ["attempt 1\n", "attempt 2\n"]
    assert service.ask("GET", f"/v1/launches/{ended['name']}:output?attempt=9").status == 404


def a_target_without_output_says_so(service, wait):
    service.create("run/null")
    launch = _run(service, "run/null")
    _ended(service, wait, launch["name"])
    answer = service.ask("GET", f"/v1/launches/{launch['name']}:output")
    assert answer.status == 404
    assert "null" in answer.json["hint"]


def a_cancelled_launch_ends_as_cancelled_with_its_reason(service, wait):
    service.create("run/long", target={"kind": "exec", "argv": ["sleep", "60"]})
    launch = _run(service, "run/long")
    answer = service.ask("POST", f"/v1/launches/{launch['name']}:cancel", {"reason": "not needed"})
    assert answer.status == 202
    ended = _ended(service, wait, launch["name"])
    assert (ended["state"], "not needed" in ended["reason"]) == ("cancelled", True)
    again = service.ask("POST", f"/v1/launches/{launch['name']}:cancel")
    assert (again.status, again.json["type"]) == (409, "tag:tocsin,2026:refused")


def an_overlap_that_is_forbidden_is_forbidden_by_hand_too(service):
    service.create("run/one", target={"kind": "exec", "argv": ["sleep", "60"]}, overlap="forbid")
    launch = _run(service, "run/one")
    refused = service.ask("POST", "/v1/schedules/run/one:run")
    assert refused.status == 409
    service.ask("POST", f"/v1/launches/{launch['name']}:cancel")


def occurrences_are_launched_listed_and_explained(service, wait):
    service.create("tick/one", cron="* * * * * *")

    def three() -> Any:
        items = service.ask("GET", "/v1/launches?schedule=tick/one&state=succeeded,failed").json["items"]
        return items if len(items) >= 3 else None

    items = wait(three)
    service.ask("POST", "/v1/schedules/tick/one:pause")
    instants = [item["scheduled_at"] for item in items]
    assert instants == sorted(instants, reverse=True)
    assert len(set(instants)) == len(instants)
    middle = items[1]
    assert middle["lateness_ms"] < 1000
    told = service.ask("GET", f"/v1/schedules/tick/one:why?at={middle['scheduled_at']}").json
    assert told["answer"].startswith("It was launched and succeeded")
    assert [launch["name"] for launch in told["launches"]] == [middle["name"]]
    unix = int(middle["name"].rpartition("-")[2])
    assert service.ask("GET", f"/v1/schedules/tick/one:why?at={unix}").json["at"] == middle["scheduled_at"]


def launches_are_narrowed_by_time_and_read_page_by_page(service, wait):
    service.create("tick/two", cron="* * * * * *")
    wait(lambda: len(service.ask("GET", "/v1/launches?schedule=tick/two").json["items"]) >= 3)
    service.ask("DELETE", "/v1/schedules/tick/two")
    everything = service.ask("GET", "/v1/launches?schedule=tick/two").json["items"]
    names, cursor = [], ""
    while True:
        page = service.ask("GET", f"/v1/launches?schedule=tick/two&limit=2&cursor={cursor}").json
        names += [item["name"] for item in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert names == [item["name"] for item in everything]
    edge = everything[1]["scheduled_at"]
    since = service.ask("GET", f"/v1/launches?schedule=tick/two&since={edge}").json["items"]
    until = service.ask("GET", f"/v1/launches?schedule=tick/two&until={edge}").json["items"]
    assert [item["name"] for item in since] == names[:2]
    assert [item["name"] for item in until] == names[2:]


def why_answers_for_instants_without_a_launch(service):
    service.create("why/one", cron="0 0 1 1 *")

    def told(at: str) -> str:
        return str(service.ask("GET", f"/v1/schedules/why/one:why?at={at}").json["answer"])

    assert "did not exist yet" in told("2020-01-01T00:00:00Z")
    assert "no occurrence" in told(str(int(time.time()) + 7))
    assert "next occurrence" in told(service.ask("GET", "/v1/schedules/why/one").json["next"])
    assert "future" in told("2099-01-01T00:00:00Z")
    assert "did not exist yet" in service.ask("GET", "/v1/schedules/why/one:why").json["answer"]
    assert service.ask("GET", "/v1/schedules/why/nobody:why?at=1").status == 404
    assert service.ask("GET", "/v1/schedules/why/one:why?at=noon").json["field"] == "at"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=happy", "state"),
        ("since=yesterday", "since"),
        ("until=2026-01-01T00:00:00", "until"),
        ("cursor=x", "cursor"),
        ("cursor=-1", "cursor"),
        ("limit=0", "limit"),
        ("since=99999999999999999", "since"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("state=failed,", "state"),
        ("schedule=", "schedule"),
        ("cursor=17", "cursor"),
    ],
)
def a_wrong_question_about_launches_names_the_parameter(service, query, field):
    answer = service.ask("GET", f"/v1/launches?{query}")
    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["allowed"]
