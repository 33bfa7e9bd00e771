"""Credentials of http targets: references instead of values, and a warning where a value stands in clear."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.api.conftest import Service

SAID = "is stored and exported in clear"


def _http(**target: Any) -> dict[str, Any]:
    return {"kind": "http", "url": "http://127.0.0.1:1/", **target}


def _create(service: Service, id: str, **target: Any) -> Any:
    schedule = {"id": id, "cron": "0 0 1 1 *", "enabled": False, "target": _http(**target)}
    return service.ask("POST", "/v1/schedules", schedule)


def a_credential_in_clear_is_warned_of_and_a_reference_is_not(service: Service) -> None:
    for number, name in enumerate(("Authorization", "x-api-key", "COOKIE")):
        answer = _create(service, f"clear/{number}", headers={"X-Team": "a", name: "Bearer abc"})
        assert answer.status == 201
        (told,) = answer.json["warnings"]
        assert name in told
        assert SAID in told
        assert "abc" not in told
    answer = _create(service, "clear/reference", headers={"Authorization": "Bearer ${env:HOOK_TOKEN}"})
    assert answer.status == 201
    assert "warnings" not in answer.json
    assert answer.json["target"]["headers"] == {"Authorization": "Bearer ${env:HOOK_TOKEN}"}


def an_import_tells_of_credentials_in_clear_once(service: Service) -> None:
    target = _http(headers={"Authorization": "Bearer abc"})
    lines = [{"id": f"clear-import/{n}", "cron": "0 0 1 1 *", "target": target} for n in range(3)]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    answer = service.ask("POST", "/v1/import", body, {"content-type": "application/x-ndjson"}, raw=True)
    *_, summary = [json.loads(line) for line in answer.body.splitlines()]
    (told,) = summary["warnings"]
    assert told.startswith(
        "3 schedules hold a credential in clear; the first: line 1, the header 'Authorization'"
    )
    assert "abc" not in told


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"headers": {"X-Key": "${env:}"}}, "target.headers"),
        ({"headers": {"X-Key": "${env:A-B}"}}, "target.headers"),
        ({"headers": {"X-Key": "${file:relative}"}}, "target.headers"),
        ({"headers": {"X-Key": "${env:OPEN"}}, "target.headers"),
        ({"headers": {"X-Key": "${env:A} ${ env:B}"}}, "target.headers"),
        ({"url": "http://a/?k=${env:}"}, "target.url"),
        ({"url": "http://${env:HOST}/"}, "target.url"),
        ({"url": "http://a.${file:/x}/"}, "target.url"),
        ({"headers": {"Host": "${env:HOST}"}}, "target.url"),
        ({"secret": "env:NEW", "old_secret": "hush"}, "target.old_secret"),
    ],
)
def what_was_meant_to_be_a_reference_and_is_none_is_refused(
    service: Service, target: dict[str, Any], field: str
) -> None:
    answer = _create(service, "wrong/reference", **target)
    assert answer.status == 400
    assert answer.json["field"] == field
    assert re.search("reference", answer.json["detail"])


def a_dollar_alone_is_no_reference(service: Service) -> None:
    headers = {"X-Price": "${amount} $5 ${}"}
    answer = _create(service, "plain/dollar", headers=headers)
    assert answer.status == 201
    assert answer.json["target"]["headers"] == headers
