"""Whether callers were told what became of what they asked for."""

from __future__ import annotations

import pytest

from tocsin.model import change as c
from tocsin.model.command import PutSchedule
from tocsin.model.entry import Entry
from tocsin.model.schedule import convert
from tocsin.simulation.checkers import answers
from tocsin.simulation.history import Asked, History, Landed

_SCHEDULE = convert({"id": "s", "cron": "@daily", "target": {"kind": "null"}})


def _history(outcome: str, written_ms: float | None) -> History:
    asked = Asked(1000.0, "a", PutSchedule(_SCHEDULE), outcome, 2000.0)
    put = c.SchedulePut(_SCHEDULE, "0 0 * * *", None, None, 0)
    entries = (
        [] if written_ms is None else [Landed(written_ms, "j", 1, "a", 1, Entry(b"1", b"", 1, 1500, [put]))]
    )
    return History(asked=[asked], landed=entries)


@pytest.mark.parametrize(
    ("outcome", "written_ms"),
    [("done", 1500.0), ("nobody", None), ("uncertain", None), ("uncertain", 9000.0)],
)
def a_true_answer_is_no_finding(outcome: str, written_ms: float | None) -> None:
    assert list(answers.check(_history(outcome, written_ms))) == []


@pytest.mark.parametrize(
    ("outcome", "written_ms"),
    [("done", None), ("done", 2500.0), ("done", 500.0), ("nobody", 1500.0), ("nobody", 9000.0)],
)
def an_untrue_answer_is_one(outcome: str, written_ms: float | None) -> None:
    (finding,) = answers.check(_history(outcome, written_ms))
    assert finding.about == "s"
