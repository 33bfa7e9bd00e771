"""``next``, ``explain``, ``version`` and help: no service needed."""

from __future__ import annotations

import pytest

COMMANDS = (
    "serve add apply list show rm pause resume run launches output cancel why next explain status version"
)


def next_shows_the_viewer_s_time_and_the_schedule_s_each_with_its_weekday(alone):
    done = alone(
        "next", "30 2 * * mon-fri", "--tz", "Europe/Berlin", "--from", "2027-01-01T00:00:00Z", "-n", "2"
    )
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("Thu 2026-12-31 20:30:00 EST (Fri 2027-01-01 02:30:00 Europe/Berlin)")
    assert lines[1].startswith("Sun 2027-01-03 20:30:00 EST (Mon 2027-01-04 02:30:00 Europe/Berlin)")


def next_as_json_is_in_utc(alone):
    found = alone("next", "@every 1h", "--from", "1800000000", "--count", "2", "--json").json
    assert found["items"] == ["2027-01-15T09:00:00Z", "2027-01-15T10:00:00Z"]
    assert set(found) == {"cron", "timezone", "resolved", "explanation", "items"}


def a_text_that_is_over_has_no_next(alone):
    assert alone("next", "@at 2020-01-01T00:00:00Z").out == "never again\n"


def explain_says_it_in_words_and_settles_it_for_an_id(alone):
    assert "02:30" in alone("explain", "30 2 * * *").out
    settled = alone("explain", "? * * * *", "--id", "a/b")
    assert "settled as" in settled.out
    assert settled.out != alone("explain", "? * * * *", "--id", "a/c").out
    assert alone("explain", "? * * * *", "--json").json["resolved"]


@pytest.mark.parametrize("text", ["61 * * * *", "", "* * *", "@never", "\x1b[31m", "0 0 31 2 *"])
def a_text_that_is_refused_is_told_in_two_lines(alone, text):
    for command in ("next", "explain"):
        done = alone(command, text)
        assert done.status == 1
        assert len(done.err.splitlines()) <= 2
        assert "\x1b" not in done.err


def tocsin_alone_teaches_the_first_steps(alone):
    done = alone()
    assert done.status == 0
    for word in ("tocsin serve", "tocsin add", "tocsin launches"):
        assert word in done.out


@pytest.mark.parametrize("command", COMMANDS.split())
def every_command_has_help_with_an_example_and_json(alone, command):
    done = alone(command, "--help")
    assert done.status == 0
    assert "Example" in done.out
    assert f"tocsin {command}" in done.out
    assert "--json" in done.out


def the_version_is_printed(alone):
    assert alone("version").out.startswith("tocsin ")
    assert alone("version", "--json").json["version"]
