"""Whatever is sent, the answer is problem details and the service goes on."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

PROBLEM = {"type", "title", "status", "detail", "retryable"}


def _is_problem(answer: Any, *statuses: int) -> bool:
    assert answer.status in statuses, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json) >= PROBLEM
    assert answer.json["status"] == answer.status
    assert "Traceback" not in answer.body.decode()
    return True


def an_unknown_path_is_a_problem(service):
    for path in (
        "/v1",
        "/v1/jobs",
        "/v2/schedules",
        "/v1/schedules/x/../../status",
        "/favicon.ico",
        "//",
    ):
        assert _is_problem(service.ask("GET", path), 404, 400)


def an_unknown_method_is_a_problem_that_says_which_are_known(service):
    service.create("method/one")
    answer = service.ask("POST", "/v1/schedules/method/one", {})
    assert _is_problem(answer, 405)
    assert "PUT" in answer.headers["allow"]
    assert "PUT" in answer.json["allowed"]
    for method, path in (
        ("DELETE", "/v1/schedules"),
        ("GET", "/v1/schedules/method/one:pause"),
        ("POST", "/v1/schedules/method/one:why"),
        ("PUT", "/v1/status"),
        ("TRACE", "/v1/status"),
        ("BREW", "/v1/status"),
    ):
        assert _is_problem(service.ask(method, path), 405), (method, path)


def an_unknown_verb_names_the_known_ones(service):
    answer = service.ask("POST", "/v1/schedules/a/b:explode")
    assert _is_problem(answer, 404)
    assert "pause" in answer.json["hint"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/schedules/..",
        "/v1/schedules/%2e%2e/%2e%2e/etc",
        "/v1/schedules/a/../b",
        "/v1/schedules/a//b",
        "/v1/schedules//a",
        "/v1/schedules/a/",
        "/v1/schedules/a%00b",
        "/v1/schedules/%ff%fe",
        "/v1/schedules/a%0d%0aX:y",
        "/v1/schedules/a%20b",
        "/v1/schedules/" + "a" * 201,
        "/v1/schedules/" + "a" * 20_000,
        "/v1/schedules/:pause",
        "/v1/schedules/a::pause",
        "/v1/schedules/a:pause:run",
        "/v1/schedules/%F0%9F%94%94",
        "/v1//schedules/a/pause",
        "/v1/%2Fschedules/a/pause",
        "//v1/schedules/a",
        "/v1/launches/../x-1",
        "/v1/launches/x",
        "/v1/launches/x-1/../y-2",
        "/v1/launches/x-99999999999999",
        "/v1//launches/x/cancel",
        "/v1/launches/-1",
        "/v1/launches/x-1:output:cancel",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def a_path_trick_is_a_clean_refusal(service, method, path):
    assert _is_problem(service.ask(method, path), 400, 404)


def a_percent_encoded_prefix_is_the_same_address(service):
    service.create("prefix/one")
    assert service.ask("GET", "/v1/%73chedules/prefix/one").json["id"] == "prefix/one"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"id": "a"}',
        b'{"id": 7, "cron": "* * * * *", "target": {"kind": "null"}}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "unknown": 1}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "zip"}}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "http", "url": "http://[::1"}}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "payload": "\\ud800"}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "payload": 1e999}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "payload": ' + b"9" * 40 + b"}",
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "start": "9999-12-31T23:59:59-23:00"}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "start": "2026-01-01T00:00:00"}',
        b'{"id": "a", "cron": "* * * * *", "target": {"kind": "null"}, "payload": '
        + b"[" * 9000
        + b"]" * 9000
        + b"}",
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/schedules"), ("PUT", "/v1/schedules/a")])
def a_body_that_is_no_schedule_is_refused(service, method, path, body):
    answer = service.ask(method, path, body, {"content-type": "application/json"}, raw=True)
    assert _is_problem(answer, 400)
    assert answer.json["field"]


@pytest.mark.parametrize(
    "path", ["/v1/schedules", "/v1/launches", "/v1/schedules/query/one:upcoming", "/v1/status"]
)
@pytest.mark.parametrize(
    "query",
    [
        "prefix=%ff&schedule=%ff",
        "prefix=%00&schedule=%00",
        "cursor=%ED%A0%80",
        "prefix=%ED%A0%80&schedule=%ED%A0%80",
        "label=%ff=%00",
        "limit=1&limit=2",
        "limit=%31",
        "=&&&=",
        "x" * 10_000,
        "state=,,,",
        "count=1e3&limit=1e3",
        "after=9999999999999999&since=-9999999999999999",
        "after=-1&since=-1",
        "after=9999-12-31T23:59:59Z&since=0001-01-01T00:00:00Z",
    ],
)
def an_odd_question_is_answered_or_refused(service, path, query):
    service.ask("PUT", "/v1/schedules/query/one", {"cron": "@daily", "target": {"kind": "null"}})
    answer = service.ask("GET", f"{path}?{query}")
    assert answer.status == 200 or _is_problem(answer, 400)


def a_refused_value_comes_with_its_field_and_what_is_allowed(service, sample):
    answer = service.ask("POST", "/v1/schedules", sample("bad/cron", cron="61 * * * *"))
    assert _is_problem(answer, 400)
    assert "61" in json.dumps(answer.json)
    assert answer.json["allowed"]
    assert answer.json["retryable"] is False
    retry = service.ask("POST", "/v1/schedules", sample("bad/retry", retry={"limit": 99999}))
    assert (retry.json["field"], retry.json["value"], retry.json["allowed"]) == (
        "retry.limit",
        99999,
        "0 to 1000",
    )


@pytest.mark.parametrize("path", ["/v1/schedules/small/one:pause", "/v1/launches/small/one-1:cancel"])
@pytest.mark.parametrize(
    "body", [b"[", b"[]", b'{"note": 1, "reason": 1}', b'{"other": ""}', b'"' + b"x" * 9000 + b'"']
)
def a_small_body_is_checked_too(service, path, body):
    assert _is_problem(service.ask("POST", path, body, {"content-type": "application/json"}, raw=True), 400)


def a_note_has_an_end(service):
    service.create("small/note")
    answer = service.ask("POST", "/v1/schedules/small/note:pause", {"note": "x" * 2001})
    assert _is_problem(answer, 400)
    assert answer.json["field"] == "note"


def a_body_over_256_kibibytes_is_refused_announced_or_not(service):
    headers = {"content-type": "application/json"}
    announced = service.ask("POST", "/v1/schedules", b"x" * (256 * 1024 + 1), headers, raw=True)
    assert _is_problem(announced, 413)
    chunks = iter([b"x" * 65536] * 17)
    streamed = service.ask("POST", "/v1/schedules", chunks, headers, raw=True)
    assert _is_problem(streamed, 413)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def a_body_that_is_not_called_json_is_refused(service, sample, kind):
    body = json.dumps(sample("kind/one")).encode()
    headers = {"content-type": kind} if kind else {}
    assert _is_problem(service.ask("POST", "/v1/schedules", body, headers, raw=True), 415)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8400", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"]
)
def a_host_that_is_not_loopback_is_refused(service, host):
    assert _is_problem(service.ask("GET", "/v1/status", headers={"Host": host}), 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "127.1.2.3:8400", "[::1]:8400"])
def a_loopback_host_is_accepted(service, host):
    assert service.ask("GET", "/v1/status", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost", "http://localhost:3000", ""]
)
def a_foreign_origin_is_refused(service, origin):
    answer = service.ask("POST", "/v1/schedules/origin/one:run", headers={"Origin": origin})
    assert _is_problem(answer, 403)


def the_own_origin_is_accepted(service):
    assert service.ask("GET", "/v1/status", headers={"Origin": service.url}).status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\n\r\n",
        b"GET /v1/status HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"POST /v1/schedules HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/schedules HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://evil.example/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def what_is_not_http_is_refused_and_the_service_goes_on(service, request_bytes):
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert not answer or answer.split(b" ")[1] in (b"400", b"404", b"431", b"505"), answer[:200]
    assert service.ask("GET", "/healthz").body == b"ok"


def a_request_that_is_cut_off_harms_nobody(service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(
            b"POST /v1/schedules HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    assert service.ask("GET", "/healthz").body == b"ok"


def unknown_things_are_not_found(service):
    for path in ("/v1/schedules/nobody", "/v1/launches/nobody-1", "/v1/launches/nobody-1-manual:output"):
        assert _is_problem(service.ask("GET", path), 404)
    for path in ("/v1/schedules/nobody:pause", "/v1/schedules/nobody:run", "/v1/launches/nobody-1:cancel"):
        assert _is_problem(service.ask("POST", path), 404)
