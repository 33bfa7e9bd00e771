"""Moments as people write them, wherever one is asked for; and schedules that are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tocsin.cli import moments

NEVER = "0 0 29 2 *"
NOON = "2026-11-15 12:00"


def why_takes_every_form_of_a_moment(tocsin):
    tocsin("add", "form/one", "0 12 * * *", "--tz", "Asia/Tokyo", "--null")
    assert tocsin("why", "form/one", NOON, "--json").json["at"] == "2026-11-15T03:00:00Z"
    for words in (["-3d"], ["3d ago"], ["yesterday"], ["2026-11-15"], ["1794700800"], ["now"]):
        done = tocsin("why", "form/one", *words)
        assert done.status == 0, (words, done.err)


def next_begins_at_every_form_of_a_moment(alone):
    found = alone(
        "next", "0 12 * * *", "--tz", "Asia/Tokyo", "--from", "2026-11-15 11:00", "-n", "1", "--json"
    )
    assert found.json["items"] == ["2026-11-15T03:00:00Z"]
    past = alone("next", "* * * * *", "--from", "-3d", "-n", "1", "--json").json["items"][0]
    assert datetime.now(UTC) - datetime.fromisoformat(past) > timedelta(days=2)


@pytest.mark.parametrize(
    "words",
    [
        ["why", "form/two"],
        ["next", "@daily", "--from"],
        ["launches", "--since"],
        ["backfill", "form/two", "--from"],
    ],
)
def what_is_no_moment_is_refused_with_all_forms(tocsin, words):
    tocsin("add", "form/two", NEVER, "--null")
    for text in ("noonish", "2026-13-01"):
        done = tocsin(*words, text)
        assert (done.status, done.out) == (1, "")
        assert f"{text!r} is not a moment" in done.err, "whatever else is missing"
        assert "isoformat" not in done.err
        assert "'YYYY-MM-DD HH:MM', HH:MM, now, today, yesterday, -3d or '2h ago'" in done.err


def a_backfill_from_the_future_blames_its_beginning(tocsin):
    tocsin("add", "form/three", NEVER, "--null")
    done = tocsin("backfill", "form/three", "--from", "2999-01-01", "--preview")
    assert (done.status, "--from: " in done.err, "until" in done.err) == (1, True, False)
    turned = tocsin("backfill", "form/three", "--from", "-1d", "--until", "-2d", "--preview")
    assert (turned.status, "it is not before --until" in turned.err) == (1, True)


def why_answers_for_what_was_removed(tocsin):
    tocsin("add", "form/gone", "0 12 * * *", "--tz", "Asia/Tokyo", "--null")
    tocsin("rm", "form/gone")
    told = tocsin("why", "form/gone", "05:50", "--json")
    assert told.status == 0, told.err
    assert told.json["at"].endswith("T20:50:00Z"), "the zone that it had"
    newest = tocsin("why", "form/gone")
    assert (newest.status, "deleted" in newest.out) == (0, True), newest
    assert tocsin("why", "form/never").status == 1


@pytest.mark.parametrize(
    ("word", "told"), [("-3d", "3d ago"), ("-x", "-x"), ("-2h30m", "2h30m ago"), ("-3", "-3")]
)
def a_moment_with_a_hyphen_is_told_from_an_option(word, told):
    assert moments.spelled_out(word) == told
