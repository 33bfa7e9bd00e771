"""The short way to a new schedule, and the one through the router: nobody can tell them apart."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from tests.api.access_test import token
from tests.api.conftest import Answer, Service, schedule

_TOLD_APART = ("created_at", "updated_at", "date", "connection")
"""By the time, or because a body without an end was not waited for."""


def _shortly(service: Service, body: bytes, **headers: str) -> Answer:
    return service.ask(
        "POST", "/v1/schedules", body, {"content-type": "application/json", **headers}, raw=True
    )


def _through_the_router(service: Service, body: bytes, **headers: str) -> Answer:
    """A body that does not say how long it is."""
    sent = {"content-type": "application/json", **headers}
    return service.ask("POST", "/v1/schedules", iter([body]), sent, raw=True)


def _told(answer: Answer, id: str) -> tuple[int, dict[str, str], Any]:
    body = {name: value for name, value in answer.json.items() if name not in _TOLD_APART}
    told = json.loads(json.dumps([body, answer.headers]).replace(id, "ID"))
    headers = {name: value for name, value in told[1].items() if name not in _TOLD_APART}
    return answer.status, headers, told[0]


_WRONG = (
    b"{",
    b"[]",
    b"\xff",
    b"[" * 20_000,
    json.dumps(schedule("x/wrong", cron="61 * * * *")).encode(),
    json.dumps(schedule("x/wrong", nonsense=1)).encode(),
    json.dumps(schedule("", payload=1)).encode(),
    json.dumps(schedule("x/large", payload="x" * 140_000)).encode(),
)


def what_is_new_what_is_there_and_what_is_in_the_way_is_told_alike(service: Service) -> None:
    found = []
    for way, id in ((_shortly, "alike/a"), (_through_the_router, "alike/b")):
        body = json.dumps(schedule(id, payload={"of": "a long " + "y" * 20_000})).encode()
        other = json.dumps(schedule(id, description="another")).encode()
        found.append([_told(way(service, each), id) for each in (body, body, other)])
    assert found[0] == found[1]
    assert [status for status, _, _ in found[0]] == [201, 200, 409]


@pytest.mark.parametrize("place", range(len(_WRONG)))
def what_is_wrong_is_told_alike(service: Service, place: int) -> None:
    found = [_told(way(service, _WRONG[place]), "no id") for way in (_shortly, _through_the_router)]
    assert found[0] == found[1]
    assert found[0][0] == 400


def who_may_not_write_is_refused_alike(guarded: Service) -> None:
    reader = token(guarded, "direct-reader", "read")
    of_a = token(guarded, "direct-of-a", "write", prefixes=("a/",))
    body = json.dumps(schedule("b/refused")).encode()
    for who, status in (("", 401), ("tocsin_no", 401), (reader, 403), (of_a, 403)):
        asked = guarded.as_(who)
        found = [_told(way(asked, body), "no id") for way in (_shortly, _through_the_router)]
        assert found[0] == found[1]
        assert found[0][0] == status
    assert guarded.ask("GET", "/v1/schedules/b/refused").status == 404


def a_body_that_is_cut_off_makes_nothing(service: Service) -> None:
    body = json.dumps(schedule("alike/cut")).encode()
    lines = ("POST /v1/schedules HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    head = "\r\n".join((*lines, f"Content-Length: {len(body) + 1}", "", ""))
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    assert service.ask("GET", "/v1/schedules/alike/cut").status == 404
