"""``timeline``: launches as bars."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cli.conftest import Command

from tocsin.cli.look import timeline
from tocsin.cli.present import width
from tocsin.model.answer import LaunchPage
from tocsin.model.launch import LaunchView

NEVER = "0 0 29 2 *"
BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def launches_that_run_beside_each_other_are_seen_to(tocsin: Command, wait: Any) -> None:
    tocsin("add", "line/long", NEVER, "--shell", "sleep 600", "--overlap", "allow")
    # A second one in the same second is refused.
    names = [json.loads(wait(lambda: tocsin("run", "line/long", "--json").out))["name"] for _ in range(2)]
    wait(lambda: len(tocsin("launches", "line/long", "--state", "running", "--json").json["items"]) == 2)
    done = tocsin("timeline", "line/long", "--last", "30s")
    assert (done.status, done.err) == (0, "")
    title, _, axis, first, second, legend = done.out.splitlines()
    assert title == "line/long"
    assert "PLANNED (E" in axis
    assert (first[0], second[0]) == (">", ">")
    assert "▓" in second
    assert "beside another launch" in legend
    for name in names:
        tocsin("cancel", name)
    wait(lambda: not tocsin("launches", "line/long", "--state", "running", "--json").json["items"])
    cancelled = tocsin("timeline", "line/long").out
    assert "C cancelled" in cancelled
    assert "▶" not in cancelled


def a_program_gets_the_launches_as_the_api_tells_them(tocsin: Command) -> None:
    tocsin("add", "line/short", NEVER, "--null")
    name = tocsin("run", "line/short", "--wait", "--json").json["name"]
    assert [item["name"] for item in tocsin("timeline", "line/short", "--json").json["items"]] == [name]
    assert tocsin("timeline", "line/short", "--until", "-2h", "--since", "-3h").out == ""


def few_are_shown_and_the_axis_begins_with_them(tocsin: Command, wait: Any) -> None:
    tocsin("add", "line/often", "* * * * * *", "--null")
    wait(lambda: len(tocsin("launches", "line/often", "--json").json["items"]) >= 4)
    tocsin("pause", "line/often")
    done = tocsin("timeline", "line/often", "-n", "2")
    assert len([line for line in done.out.splitlines() if line.startswith("S  ")]) == 2
    assert "there are more" in done.err
    whole = tocsin.terminal("timeline", "line/often", columns=60)
    assert max(map(width, whole.out.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["timeline", "line/nobody"], "there is no schedule"),
        (["timeline", ""], "is not a usable id"),
        (["timeline", "a", "--last", "6h", "--since", "-3h"], "--last: it says the same"),
        (["timeline", "a", "--last", "soon"], "--last: "),
        (["timeline", "a", "--since", "-1h", "--until", "-2h"], "--until: the end is not after"),
        (["timeline", "a", "--since", "someday"], "since: 'someday' is not a moment"),
    ],
)
def what_makes_no_sense_is_refused(tocsin: Command, words: list[str], told: str) -> None:
    done = tocsin(*words)
    assert (done.status, done.out) == (1, "")
    assert told in done.err


# What is drawn


def _launch(state: str, planned: float, started: float | None, ended: float | None) -> LaunchView:
    """Minutes after the beginning."""

    def moment(minutes: float | None) -> Any:
        return None if minutes is None else BEGIN + timedelta(minutes=minutes)

    return LaunchView(
        name="s-1",
        schedule="s",
        scheduled_at=BEGIN,
        state=state,
        reason="",
        attempt=1,
        term=1,
        replica="a",
        version=1,
        started_at=moment(started),
        ended_at=moment(ended),
        exit_code=None,
        lateness_ms=None if started is None else round((started - planned) * 60_000),
        planned_at=moment(planned),
    )


def _lines(*views: LaunchView, columns: int = 100) -> list[str]:
    page = LaunchPage(list(reversed(views)))
    return timeline.lines("s", page, BEGIN, BEGIN + timedelta(minutes=60), columns)


def _bars(*views: LaunchView) -> list[str]:
    return [found[1] for line in _lines(*views)[3:] if (found := re.search(r"\|(.*)\|", line))]


def waiting_running_and_ending_have_their_places() -> None:
    (bar,) = _bars(_launch("succeeded", 0, 30, 45))
    half = len(bar) // 2
    assert set(bar[:half]) == {"░"}
    assert set(bar[half : len(bar) * 3 // 4]) == {"█"}
    assert bar[len(bar) * 3 // 4 + 1 :].strip() == ""


def two_at_a_time_are_marked_where_they_were_and_one_after_the_other_are_not() -> None:
    first, second, third = _bars(
        _launch("succeeded", 0, 0, 30), _launch("failed", 20, 20, 40), _launch("succeeded", 40, 40, 50)
    )
    assert first.strip("█ ") == "▓" * len(first.strip("█ "))
    third_of = len(first) // 3
    assert first.index("▓") in (third_of - 1, third_of, third_of + 1)
    assert "▓" in second
    assert "▓" not in third


def what_never_started_is_a_cross_at_its_moment_and_the_shortest_launch_is_seen() -> None:
    never, short = _bars(_launch("skipped", 30, None, 30), _launch("succeeded", 45, 45, 45.0001))
    assert never.strip() == "×"
    assert never.index("×") == len(never) // 2
    assert short.strip() == "█"


def what_is_still_open_goes_on_up_to_now() -> None:
    (bar,) = _bars(_launch("running", 0, 0, None))
    assert bar == "█" * (len(bar) - 1) + "▶"
    (waiting,) = _bars(_launch("queued", 0, None, None))
    assert set(waiting) == {"░"}


def every_state_has_a_letter_of_its_own_and_the_legend_tells_it() -> None:
    ended = ("succeeded", "failed", "skipped", "cancelled", "in_doubt")
    drawn = _lines(*(_launch(state, 1, 1, 2) for state in ended), columns=200)
    assert [line[0] for line in drawn[3:8]] == ["S", "F", "-", "C", "D"]
    assert drawn[8].startswith("S succeeded, F failed, - skipped, C cancelled, D in doubt")


@pytest.mark.parametrize("columns", [20, 60, 80, 200, 500])
def it_fits_into_the_window(columns: int) -> None:
    drawn = _lines(_launch("succeeded", 0, 3, 5), _launch("in_doubt", 5, 5, 59), columns=columns)
    assert max(map(width, drawn[1:])) <= max(60, min(columns, 200))
