"""Wrong schedules are refused in words that name the field and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import InvalidInput
from tocsin.model import schedule
from tocsin.model.ids import parse_launch_name

GOOD: dict[str, Any] = {"id": "a", "cron": "@every 5m", "target": {"kind": "null"}}


def _nested(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"overlap": "maybe"}, "overlap", "'maybe' is not known; allowed: allow, forbid, replace or queue"),
        ({"on_doubt": "retry"}, "on_doubt", "'retry' is not known; allowed: skip or relaunch"),
        (
            {"timeout": 5},
            "timeout",
            "it must be text or nothing, not a whole number; allowed: a duration such as",
        ),
        ({"timeout": "5"}, "timeout", ""),
        ({"deadline": "soon"}, "deadline", ""),
        (
            {"retry": 3},
            "retry",
            "it must be an object or nothing, not a whole number; allowed: an object with limit",
        ),
        ({"retry": {"limit": -1}}, "retry.limit", "-1 is out of range; allowed: 0 to 1000"),
        ({"retry": {"tries": 3}}, "retry.tries", "there is no such field"),
        ({"target": {"kind": "sql"}}, "target.kind", "'sql' is not known; allowed: exec, http or"),
        ({"target": {"kind": None}}, "target.kind", "allowed: exec, http or"),
        ({"target": {"kind": "exec"}}, "target", "exactly one of argv and shell"),
        ({"target": {"kind": "exec", "shell": "x", "user": "a\0b"}}, "target", "NUL"),
        (
            {"target": {"kind": "exec", "shell": "x", "limits": {"cpu": 5}}},
            "target.limits.cpu",
            "no such field",
        ),
        ({"target": {"kind": "http", "url": "ftp://x"}}, "target.url", "not an address"),
        ({"target": {"kind": "http", "url": "http://[::1"}}, "target.url", "not an address"),
        ({"target": {"kind": "http", "url": "http://u:p@x"}}, "target.url", "stored and shown"),
        ({"target": {"kind": "http", "url": "http://x", "secret": "hunter2"}}, "target.secret", "reference"),
        (
            {"target": {"kind": "http", "url": "http://x", "headers": {"a": "b\r\nc: d"}}},
            "target.headers",
            "'a'",
        ),
        ({"id": ""}, "id", "not a usable id"),
        ({"id": "a/../b"}, "id", "'..' part"),
        ({"id": "a:b"}, "id", "not a usable id"),
        ({"cron": "61 * * * *"}, "minute", "61 is out of range"),
        ({"timezone": "Europe/Berln"}, "timezone", "Europe/Berlin"),
        ({"owner": "me"}, "owner", "there is no such field"),
        ({"payload": "x" * 70_000}, "payload", "too many"),
        ({"payload": _nested(1000)}, "payload", "nested too deeply"),
        ({"payload": 1 << 70}, "payload", ""),
        ({"start": "2026-01-01T00:00:00"}, "start", "no offset"),
        ({"start": "9999-12-31T23:59:59-12:00"}, "start", "out of range"),
        ({"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, "end", "not after the start"),
        ({"labels": {"a b": "c"}}, "labels.a b", "cannot be kept"),
        ({"target": {"kind": "exec", "shell": "x" * 200_000}}, "schedule", "too many"),
    ],
)
def a_wrong_field_is_named(fields: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        schedule.convert({**GOOD, **fields})
    assert refused.value.field == field
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("missing", ["id", "cron", "target"])
def a_missing_field_is_named(missing: str) -> None:
    with pytest.raises(InvalidInput, match="it is missing") as refused:
        schedule.convert({key: value for key, value in GOOD.items() if key != missing})
    assert refused.value.field == missing


@pytest.mark.parametrize("name", ["a-0123", "a-00", "a-0123-manual"])
def a_launch_has_one_name_and_no_other_spelling_of_it(name: str) -> None:
    """Two spellings would be two things to whoever keeps commands about the same launch apart."""
    with pytest.raises(InvalidInput, match="not a launch name"):
        parse_launch_name(name)
