"""Each class of error has its status; our own mistakes are logged and not shown.

Asked of the application itself, with a replica that fails as told.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tocsin import errors
from tocsin.api import query
from tocsin.api.app import build_app
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.model.answer import Problem
from tocsin.model.problem import error_of, problem_of
from tocsin.observe.metrics import Metrics


class FailingReplica:
    """A replica that fails with what it is given."""

    clock = SystemClock()
    name = "r"
    problem = ""
    metrics = Metrics()
    meta = SimpleNamespace(seq=1, is_due_ahead=0)

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def propose(self, _: object) -> None:
        raise self.failure or AssertionError

    async def read(self, *_: object, **__: object) -> None:
        raise self.failure or AssertionError


def _ask(replica: Any, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    return _ask_app(build_app(replica, Settings()), method, path)


def _ask_app(
    app: Any, method: str, path: str, query: bytes = b"", body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    sized = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))] if body else []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"host", b"localhost"), *sized],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    headers = {key.decode().lower(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        (errors.InvalidInput("m", field="f", value="v", allowed="a"), 400, False),
        (errors.InvalidSchedule("m", field="f", value="v"), 400, False),
        (errors.NotFound("m"), 404, False),
        (errors.AlreadyExists("m"), 409, False),
        (errors.VersionConflict("m"), 412, False),
        (errors.Refused("m"), 409, False),
        (errors.JournalFull("m"), 503, True),
        (errors.JournalUnavailable("m"), 503, True),
        (errors.Unknown("m"), 503, True),
        (errors.Gap("m"), 500, False),
        (errors.TocsinError("m"), 500, False),
    ],
)
def each_error_has_its_status(error, status, retryable):
    found, headers, body = _ask(FailingReplica(error), "POST", "/v1/schedules/a:run")
    problem = json.loads(body)
    assert (found, problem["status"], problem["detail"]) == (status, status, "m")
    assert problem["retryable"] is retryable
    assert headers["content-type"] == "application/problem+json"
    assert headers.get("retry-after") == ("1" if status == 503 else None)


def an_unexpected_error_is_logged_and_not_shown(capsys):
    status, headers, body = _ask(FailingReplica(RuntimeError("secret of the house")), "GET", "/v1/status")
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert b"secret" not in body
    assert "secret of the house" in "".join(capsys.readouterr())


def an_unexpected_error_on_the_short_way_is_told_as_on_the_long_one(capsys):
    body = msgspec.json.encode({"id": "a", "cron": "@daily", "target": {"kind": "null"}})
    app = build_app(FailingReplica(RuntimeError("secret of the house")), Settings())
    status, headers, told = _ask_app(app, "POST", "/v1/schedules", body=body)
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert b"secret" not in told
    assert "secret of the house" in "".join(capsys.readouterr())


def a_replica_that_cannot_write_is_not_ready_and_says_why():
    replica = FailingReplica()
    replica.problem = "the disk is full"
    status, headers, body = _ask(replica, "GET", "/readyz")
    assert (status, headers["retry-after"]) == (503, "1")
    problem = json.loads(body)
    assert (problem["detail"], problem["retryable"]) == ("the disk is full", True)
    assert _ask(replica, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("kind", [kind for kind in vars(errors).values() if isinstance(kind, type)])
def an_error_survives_the_way_to_the_client(kind):
    more = {"field": "f", "value": 1, "allowed": "a"} if issubclass(kind, errors.InvalidInput) else {}
    error = kind("m", hint="h", **more)
    back = error_of(problem_of(error))
    assert (type(back), str(back), back.retryable) == (type(error), str(error), error.retryable)


def a_problem_of_unknown_type_is_judged_by_its_status():
    def error_for(status: int) -> type:
        return type(error_of(Problem(type="about:blank", title="t", status=status, detail="d")))

    assert error_for(404) is errors.NotFound
    assert error_for(412) is errors.VersionConflict
    assert error_for(418) is errors.TocsinError


def a_question_leaves_nothing_behind_in_memory():
    replica: Any = FailingReplica(errors.NotFound("m"))
    app = build_app(replica, Settings())

    def kept() -> int:
        assert _ask_app(app, "GET", "/v1/schedules", b"limit=1")[0] == 404
        return query.parameters.cache_info().currsize

    first = kept()
    assert [kept() for _ in range(5)] == [first] * 5
