"""Every vector: what Debian cron, cronie, robfig, cronsim, croniter, croner, Quartz and others agree on."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule

_VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


def _name(vector: dict[str, Any]) -> str:
    return f"{vector['group']}:{vector['expr']}"


@pytest.mark.parametrize("vector", _VECTORS["valid"], ids=_name)
def a_vector_gives_its_instants(vector: dict[str, Any]) -> None:
    expression = Expression.parse(vector["expr"], timezone=vector["tz"])
    expected = [datetime.fromisoformat(text) for text in vector["next"]]
    assert expression.upcoming(datetime.fromisoformat(vector["from"]), len(expected)) == expected


@pytest.mark.parametrize("vector", _VECTORS["valid"], ids=_name)
def a_vector_reads_the_same_backwards(vector: dict[str, Any]) -> None:
    expression = Expression.parse(vector["expr"], timezone=vector["tz"])
    expected = [int(datetime.fromisoformat(text).timestamp()) for text in vector["next"]]
    found, before = [], expected[-1] + 1
    for _ in expected:
        before = expression.previous_unix(before) or 0
        found.append(before)
    assert found[::-1] == expected


@pytest.mark.parametrize("vector", _VECTORS["invalid"], ids=_name)
def a_refused_vector_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        Expression.parse(vector["expr"])


def all_vectors_are_there() -> None:
    assert (len(_VECTORS["valid"]), len(_VECTORS["invalid"])) == (605, 102)
