"""The steps of a launch in words, and its bar: no time is made up, and whoever was in office is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.model.answer import LaunchDetail
from tocsin.model.launch import AttemptView, StepView
from tocsin.state.beside import Office
from tocsin.ui.charts.attempts import attempts_chart
from tocsin.ui.told import entry_times, told
from tocsin.ui.words import prose

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def _ms(seconds: float) -> int:
    return round(_at(seconds).timestamp() * 1000)


def _launch(**more: Any) -> LaunchDetail:
    """Late by two seconds, an attempt of ten under b, and after a fail-over one of five under c."""
    given: dict[str, Any] = {
        "name": "a-1767225600",
        "schedule": "a",
        "scheduled_at": BEGIN,
        "planned_at": BEGIN,
        "state": "succeeded",
        "reason": "",
        "attempt": 2,
        "term": 8,
        "replica": "c",
        "version": 1,
        "started_at": _at(2),
        "ended_at": _at(25),
        "exit_code": 0,
        "lateness_ms": 2000,
        "attempts": [
            AttemptView(attempt=1, started_at=_at(2), ended_at=_at(12), reason="exit status 1", exit_code=1)
        ],
        "steps": [
            StepView(at=BEGIN, step="planned"),
            StepView(at=_at(2), step="started", attempt=1),
            StepView(at=_at(12), step="attempt ended", attempt=1, note="exit status 1"),
            StepView(at=_at(20), step="started", attempt=2),
            StepView(at=_at(25), step="succeeded", attempt=2, note="exit status 0"),
        ],
    }
    return LaunchDetail(**{**given, **more})


def every_decision_names_who_was_in_office():
    launch = _launch()
    assert entry_times(launch.steps) == [_ms(2), _ms(20)]
    steps = told(launch, {_ms(2): Office(7, "b"), _ms(20): Office(8, "c")}, is_alone=False)
    offices = {step.title: step.office for step in steps}
    assert offices["Attempt 1 decided"] == Office(7, "b")
    assert offices["Attempt 2 decided"] == Office(8, "c")
    assert offices["Attempt 1 ended"] is None, "its target says when that was"


def no_time_is_made_up_for_the_acknowledgement():
    steps = told(_launch(), {}, is_alone=False)
    between = [step for step in steps if step.title == "Acknowledged, then handed over"]
    assert [step.at for step in between] == [None, None]
    assert "acknowledged by a majority" in between[0].words
    assert [step.after_ms for step in steps] == [None, 2000, None, 10_000, 8000, None, 5000]


def what_is_under_way_is_not_told_as_done():
    launch = _launch(state="started", ended_at=None, steps=_launch().steps[:4])
    assert told(launch, {}, is_alone=True)[-1].title == "Being handed over"


def the_bar_shows_lateness_and_every_attempt():
    drawn = str(attempts_chart(_launch(), _ms(100)))
    assert 'aria-label="late by 2.0 s; attempt 1 took 10 s; attempt 2 took 5.0 s"' in drawn
    assert [drawn.count(f'class="s-{kind}"') for kind in ("late", "failed", "succeeded")] == [1, 1, 1]
    assert 'x="0.0"' in drawn
    assert "style=" not in drawn


def what_is_still_running_is_drawn_up_to_now():
    launch = _launch(state="running", ended_at=None, steps=_launch().steps[:4])
    assert "attempt 2 has been going on for 80 s" in str(attempts_chart(launch, _ms(100))).replace(
        "1 min 20 s", "80 s"
    )


def where_nothing_was_started_there_is_no_bar():
    assert attempts_chart(_launch(started_at=None, attempts=[], steps=[]), _ms(100)) == ""


def moments_in_a_sentence_are_marked_up_and_the_rest_is_escaped():
    text = str(prose("<b> Started at 2026-01-01T00:00:02.500Z; ended at 2026-01-01T00:00:25Z."))
    assert text.startswith("&lt;b&gt; Started at <time datetime=")
    assert text.count("<time ") == 2
    assert text.endswith("</time>.")
