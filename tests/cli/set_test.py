"""``tocsin set``: some fields get other values, the rest stays as it is."""

from __future__ import annotations

import pytest

NEVER = "0 0 29 2 *"


def shown(tocsin, id: str) -> dict:
    return tocsin("show", id, "--json").json


def fields_are_changed_and_what_changed_is_told(tocsin):
    tocsin("add", "set/one", NEVER, "--shell", "true", "--retry", "1", "--backoff", "9s", "--timeout", "1m")
    done = tocsin("set", "set/one", "cron=0 3 1 1 *", "retry.limit=5", "labels.team=x", "timeout=")
    assert done.status == 0, done.err
    for line in (
        f"cron: {NEVER} -> 0 3 1 1 *",
        "retry.limit: 1 -> 5",
        "labels.team: (none) -> x",
        "timeout: 1m -> (none)",
    ):
        assert line in done.out.splitlines()
    assert "set/one is at version 2; next: " in done.out
    now = shown(tocsin, "set/one")
    assert (now["cron"], now["labels"], now["timeout"]) == ("0 3 1 1 *", {"team": "x"}, None)
    assert now["retry"] == {"limit": 5, "backoff": "9s"}, "what was not named stays"
    again = tocsin("set", "set/one", "retry.limit=5")
    assert again.out == "set/one is as it was, at version 2\n"


def text_stays_text_and_the_rest_is_json(tocsin):
    tocsin("add", "set/two", NEVER, "--null", "--payload", '{"old": 1}')
    words = (
        "description=007",
        "labels.a.b/c=true",
        'payload={"a": [1, null]}',
        "enabled=false",
        "missed=null",
    )
    after = tocsin("set", "set/two", *words, "--json").json
    assert (after["description"], after["labels"]) == ("007", {"a.b/c": "true"})
    assert after["payload"] == {"a": [1, None]}, "the whole is replaced by the whole"
    assert (after["enabled"], after["missed"]) == (False, "last")
    assert tocsin("set", "set/two", "payload=hello", "--json").json["payload"] == "hello"


def the_target_is_changed_in_part_or_as_a_whole(tocsin):
    tocsin("add", "set/three", NEVER, "--shell", "true", "--env", "A=1")
    part = tocsin("set", "set/three", "target.env.B=2", "target.cwd=/tmp", "--json").json["target"]
    assert part == {"kind": "exec", "shell": "true", "env": {"A": "1", "B": "2"}, "cwd": "/tmp"}
    whole = tocsin("set", "set/three", 'target={"kind": "http", "url": "http://127.0.0.1:9/"}', "--json").json
    assert whole["target"] == {"kind": "http", "url": "http://127.0.0.1:9/"}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("crom=* * * * *", ["crom", "did you mean cron?"]),
        ("id=other", ["id", "for ever"]),
        ("version=7", ["version", "allowed: cron"]),
        ("retry.limit=many", ["retry.limit", "a whole number"]),
        ("cron=61 * * * *", ["minute", "61"]),
        ("enabled", ["FIELD=VALUE", "key=value"]),
        ('payload={"a": null}', ["payload", "apply"]),
    ],
)
def a_wrong_field_or_value_changes_nothing(tocsin, word, told):
    tocsin("add", "set/four", NEVER, "--null")
    done = tocsin("set", "set/four", word)
    assert (done.status, done.out) == (1, "")
    for part in told:
        assert part in done.err, done.err
    assert shown(tocsin, "set/four")["version"] == 1


def what_is_not_there_cannot_be_set(tocsin):
    assert "there is no schedule" in tocsin("set", "set/nobody", "cron=@daily").err
