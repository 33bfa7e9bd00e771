"""What schemathesis cannot read out of the description: how to write a cron text, and how not to do harm.

Loaded by schemathesis itself (``SCHEMATHESIS_HOOKS``), in a process of its own. A request that is meant to be wrong is
sent as it is, with one exception: a command that would be run is made harmless.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import schemathesis
from hypothesis import strategies as st

_MOMENTS = ["2019-07-04T12:00:00Z", "1999-12-31T23:59:59+01:00", "1234567890"]
_SPANS = ["5m", "1s", "90s", "1h30m", "2d", "1w"]
_FORMATS = {
    "cron": [
        "@daily",
        "0 2 1 * *",
        "*/5 * * * *",
        "0 0 29 2 *",
        "? 3 * * *",
        "@every 5m",
        "15 10 L * *",
        "0 0 0 1 1 *",
    ],
    "timezone": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"],
    "time-span": _SPANS,
    "http-address": ["http://127.0.0.1:9/", "https://localhost:9/x?y=1"],
    "entity-tags": ['"1"', 'W/"1"', "*", '"1", "2"'],
    "moment": _MOMENTS,
    "replica-address": ["10.0.0.4:8410", "[::1]:8410", "d.example.org"],
    "printable": ["finance", "", "a b", "Zürich"],
    # A cursor is what was handed out, and none that is made up: the way through the pages has tests of its own.
    "cursor": [""],
}
_OF_FIELD = {
    "cron": "cron",
    "timezone": "timezone",
    "url": "http-address",
    "from": "moment",
    "until": "moment",
    "now": "moment",
    "cursor": "cursor",
    "peer": "replica-address",
    "If-Match": "entity-tags",
    "If-None-Match": "entity-tags",
    **dict.fromkeys(
        ("catch_up_spread", "deadline", "timeout", "jitter", "backoff", "max_backoff", "expires_in"),
        "time-span",
    ),
}

for _format, _samples in _FORMATS.items():
    schemathesis.openapi.format(_format, st.sampled_from(_samples))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Just before a request is sent."""
    if case.meta is None or case.meta.generation.mode.is_positive:
        _make_right(case)
    for schedule in (case.body, case.body.get("schedule")) if isinstance(case.body, dict) else ():
        if isinstance(schedule, dict):
            _make_harmless(schedule.get("target"))


def _make_right(case: Any) -> None:
    """What a schema cannot say: what a format stands for, and what one field says about another."""
    for part in (case.query, case.headers):
        if part:
            _write_formats(part)
    if case.query and "since" in case.query:
        case.query.pop("until", None)  # it must not be before the other
    if case.query and case.path == "/v1/forecast":
        case.query.pop("until", None)  # nothing is foretold of what has passed
        if "bucket" in case.query:
            case.query["bucket"] = "5m"  # a day has too many seconds
    if case.query and case.path == "/v1/activity":
        case.query.pop("until", None)  # what is older than a week is not kept
        if "since" in case.query:
            case.query["since"] = "2026-01-31T09:00:00Z"  # nothing has happened yet after now
        if "bucket" in case.query:
            case.query["bucket"] = "1h"  # whole minutes, and not too many
    path = case.path_parameters or {}
    if len(unquote(path.get("name", ""))) > 200:
        path["name"] = "billing-1"  # the id in it must not be longer than an id
    if isinstance(case.body, dict):
        case.body = _with_usual_numbers(case.body)
        _write_formats(case.body)
        _agree(case.body, case.method, path)


def _write_formats(part: Any) -> None:
    for key, value in list(part.items()):
        if isinstance(value, dict) and key == "labels":
            part[key] = {
                name: text if text in _FORMATS["printable"] else "x" for name, text in value.items() if text
            }
        elif isinstance(value, dict) and key != "payload":
            _write_formats(value)
        elif isinstance(value, str) and key in _OF_FIELD and value not in _FORMATS[_OF_FIELD[key]]:
            part[key] = _FORMATS[_OF_FIELD[key]][0]


def _agree(body: dict[str, Any], method: str, path: dict[str, Any]) -> None:
    """Fields that depend on each other, or on what is there already."""
    for schedule in (body, body.get("schedule")):
        if isinstance(schedule, dict) and isinstance(schedule.get("start"), str):
            schedule["start"] = "2026-01-31T09:00:00Z"
        if isinstance(schedule, dict) and isinstance(schedule.get("end"), str):
            schedule["end"] = "2027-01-31T09:00:00Z"
        target = schedule.get("target") if isinstance(schedule, dict) else None
        if isinstance(target, dict) and isinstance(target.get("timeout"), str):
            target["timeout"] = "5m"  # a call may take an hour, other spans of time may be longer
    if method == "PATCH":
        for field in ("target", "start", "end"):
            body.pop(field, None)
    if "id" in body and "id" in path:
        body["id"] = unquote(path["id"])
    if body.get("action") == "label" and not body.get("labels"):
        body["labels"] = {"team": None}  # what is left of labels may be none
    if "admin" in (body.get("scopes") or ()):
        body.pop("prefixes", None)  # an admin reaches everything
        body.pop("targets", None)
    if "from" in body:
        body.pop("until", None)  # it must be after the other
        if "schedule" not in body:
            body["preview"] = True  # decades of launches would keep the service busy for longer than the test


def _with_usual_numbers(value: Any) -> Any:
    """To a schema ``3.0`` is a whole number; to whoever reads JSON into one it is not. And a payload may hold any
    JSON but whole numbers of more than 64 bits."""
    if isinstance(value, dict):
        return {key: _with_usual_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_usual_numbers(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_huge = isinstance(value, int) and not -(2**63) <= value < 2**64
    return 0 if is_huge else value


def _make_harmless(target: Any) -> None:
    """Only what would be accepted as it is: what is refused anyway shall be refused."""
    if not isinstance(target, dict):
        return
    shell, argv = target.get("shell"), target.get("argv")
    if isinstance(shell, str) and shell.strip() and "\0" not in shell:
        target["shell"] = "true"
    if isinstance(argv, list) and argv and all(isinstance(word, str) and "\0" not in word for word in argv):
        target["argv"] = ["true"]
    if isinstance(target.get("url"), str) and target["url"].startswith(("http://", "https://")):
        target["url"] = "http://127.0.0.1:9/"
