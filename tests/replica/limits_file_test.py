"""The file of limits: what it may say, and what is said about what it may not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.replica.limited_desk import DeskClock

from tocsin.config import Settings
from tocsin.errors import InvalidInput
from tocsin.model.limit import Bucket, Limit
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.replica.limits import Limits
from tocsin.replica.limits_file import parse_limits, read_limits

GOOD = """
- target: kafka
  rate: 5000/s
- target: http HTTPS://Api.Example.org/
  rate: 600 / m
  burst: 50
  concurrency: 20
- label: team=payroll
  rate: 100/s
- target: exec
  label: team
  concurrency: 4
"""


def a_file_of_limits_is_read() -> None:
    kafka, http, payroll, exec_ = parse_limits(GOOD, "f")
    assert kafka.text == "kafka 5000/s"
    assert http.text == "http https://api.example.org 600/m, 20 at once"
    assert payroll.text == "team=payroll 100/s"
    assert exec_.text == "exec, team 4 at once"
    assert exec_.is_for_each
    assert http.bucket() == Bucket(0.1, 50)
    assert kafka.bucket() == Bucket(1 / 5000, 1250)
    assert exec_.bucket() is None


@pytest.mark.parametrize("text", ["", "[]", "limits:", "limits: []", "# nothing\n"])
def no_limits_are_none(text: str) -> None:
    assert parse_limits(text, "f") == ()


def the_list_may_stand_under_its_name() -> None:
    assert parse_limits("limits:\n- target: exec\n  concurrency: 1", "f")[0].text == "exec 1 at once"


@pytest.mark.parametrize(
    ("text", "line", "field", "told"),
    [
        ("- target: exec\n  rte: 1/s", 2, "rte", "'rte' is not known"),
        ("- target: exec\n  rate: fast", 2, "rate", "'fast' is not a rate"),
        ("- target: exec\n  rate: 0/s", 2, "rate", "'0/s' is not a rate"),
        ("- target: exec\n  rate: 5000000/s", 2, "rate", "more than can be started"),
        ("- target: exec\n  concurrency: 0", 2, "concurrency", "0 is out of range"),
        ("- target: exec\n  concurrency: many", 2, "concurrency", "'many' is not a whole number"),
        ("- target: exec\n  concurrency: [1]", 2, "concurrency", "concurrency is one value"),
        ("- target: exec\n  burst: 3\n  concurrency: 2", 2, "burst", "a burst belongs to a rate"),
        ("- target: exec", 1, "rate", "it limits nothing"),
        ("- rate: 1/s", 1, "target", "neither which target nor which label"),
        ("- target: smoke\n  rate: 1/s", 1, "target", "'smoke' is not a target"),
        ("- target: exec /bin/true\n  rate: 1/s", 1, "target", "exec is limited as a whole"),
        ("- target: http api.example.org\n  rate: 1/s", 1, "target", "is not an origin"),
        ("- target: http https://a/path\n  rate: 1/s", 1, "target", "is not an origin"),
        ("- label: =x\n  rate: 1/s", 1, "label", "is not a label"),
        ("- target: exec\n  rate: 1/s\n  rate: 2/s", 3, "rate", "'rate' stands in line 2 already"),
        ("- {target: exec, rate: 1/s}\n- {target: exec, rate: 2/s}", 2, "target", "in line 1 already"),
        ("target: exec\nrate: 1/s", 1, "limits", "it is not a list of limits"),
        ("- exec", 1, "limits", "it is not a limit"),
        ("- target: 'exec", 1, "limits", "unexpected end of stream"),
    ],
)
def what_is_wrong_in_a_file_is_told_with_its_line_and_field(
    text: str, line: int, field: str, told: str
) -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_limits(text, "limits.yaml")
    assert wrong.value.message.startswith(f"limits.yaml, line {line}: ")
    assert told in wrong.value.message
    assert wrong.value.field == field
    assert wrong.value.allowed
    assert "docs/herd.md" in wrong.value.hint


def a_file_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the file of limits cannot be read: No such file") as wrong:
        compose(Settings(data=tmp_path / "data", limits=str(tmp_path / "nothing.yaml")))
    assert wrong.value.field == "limits"


def bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="no text in UTF-8"):
        read_limits(str(tmp_path / "l"))


LIMITS = Limits(
    (
        Limit(target="http", rate="10/s"),
        Limit(target="http https://api.example.org", concurrency=2),
        Limit(label="team=payroll", rate="1/s"),
        Limit(label="team", concurrency=3),
        Limit(target="kafka reminders", rate="5/s"),
        Limit(target="exec", label="team=payroll", concurrency=1),
    ),
    DeskClock(),
)


@pytest.mark.parametrize(
    ("target", "labels", "keys"),
    [
        ({"kind": "null"}, {}, ()),
        ({"kind": "null"}, {"other": "team"}, ()),
        ({"kind": "http", "url": "http://elsewhere/x"}, {}, ((0, ""),)),
        ({"kind": "http", "url": "https://API.example.org/x?y"}, {}, ((0, ""), (1, ""))),
        ({"kind": "null"}, {"team": "payroll"}, ((2, ""), (3, "payroll"))),
        ({"kind": "null"}, {"team": "sales"}, ((3, "sales"),)),
        ({"kind": "null"}, {"team": ""}, ((3, ""),)),
        ({"kind": "kafka", "topic": "reminders"}, {}, ((4, ""),)),
        ({"kind": "kafka", "topic": "others"}, {}, ()),
        ({"kind": "exec", "shell": "x"}, {"team": "payroll"}, ((2, ""), (3, "payroll"), (5, ""))),
    ],
)
def a_schedule_is_held_to_each_limit_that_fits_it(target: Any, labels: Any, keys: Any) -> None:
    schedule = convert({"id": "s", "cron": "@hourly", "target": target, "labels": labels})
    for _ in range(2):
        assert LIMITS.keys_of(msgspec.msgpack.encode(schedule)) == keys


def a_bucket_holds_its_burst_and_fills_at_its_rate() -> None:
    bucket, full_s, taken = Bucket(0.1, 5), 0.0, []
    for step in range(1_000):
        now_s = 100 + step / 100
        while bucket.holds(full_s, now_s) > 0:
            full_s = bucket.take(full_s, now_s)
            taken.append(now_s)
    assert taken[:5] == [100.0] * 5
    assert len(taken) == 5 + 99
    gaps = {round(after - before, 2) for before, after in pairwise(taken[5:])}
    assert gaps == {0.1}


def a_bucket_can_be_overdrawn_and_is_then_waited_for_longer() -> None:
    bucket = Bucket(1.0, 2)
    full_s = bucket.take(0.0, 100.0, 5)
    assert bucket.holds(full_s, 100.0) == -3
    assert bucket.has_s(full_s) == 104.0
    assert bucket.holds(full_s, 104.0) == 1
