"""``tocsin backfill``, and moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.cli.person import at_a_terminal

from tocsin.cli.moments import parse_moment
from tocsin.errors import InvalidInput

NOW = datetime(2026, 3, 10, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:00"),
        ("2026-01-31T09:00+01:00", "2026-01-31T08:00:00"),
        ("1767225600", "2026-01-01T00:00:00"),
        ("0", "1970-01-01T00:00:00"),
        ("2026-01-31", "2026-01-30T23:00:00"),
        ("2026-07-31 9:30", "2026-07-31T07:30:00"),
        ("2026-07-31T09:30:15", "2026-07-31T07:30:15"),
        ("9:30", "2026-03-10T08:30:00"),
        ("now", "2026-03-10T12:00:05"),
        ("today", "2026-03-09T23:00:00"),
        ("yesterday", "2026-03-08T23:00:00"),
        ("-3d", "2026-03-07T12:00:05"),
        ("2h ago", "2026-03-10T10:00:05"),
        ("1h30m ago", "2026-03-10T10:30:05"),
        ("2026-03-29 02:30", "2026-03-29T01:30:00"),
        ("2026-10-25 02:30", "2026-10-25T00:30:00"),
    ],
)
def a_moment_is_understood(text, meant):
    found = parse_moment(text, field="--from", zone="Europe/Berlin", now=NOW)
    assert found == datetime.fromisoformat(f"{meant}+00:00")


@pytest.mark.parametrize(
    "text",
    ["", "soon", "20260131", "2026-13-01", "25:00", "-3", "3x ago", "9" * 15, "2026-01-31 09:00 Berlin"],
)
def what_is_no_moment_is_refused_by_name(text):
    with pytest.raises(InvalidInput) as caught:
        parse_moment(text, field="--from")
    assert caught.value.field == "--from"
    assert caught.value.allowed


def a_moment_without_a_zone_is_the_viewer_s():
    assert parse_moment("2026-01-31", field="x") == datetime(2026, 1, 31, 5, tzinfo=UTC)


def it_tells_what_it_would_do_and_why(tocsin):
    tocsin("add", "fill/one", "0 0 * * *", "--null", "--tz", "Asia/Tokyo")
    done = tocsin("backfill", "fill/one", "--from", "-3d", "--preview")
    assert done.status == 0
    title, row, total = done.out.splitlines()
    assert title.split() == ["COUNT", "WHAT", "WHY", "FIRST", "LAST"]
    assert row.startswith("3      launch  there was no such schedule yet")
    assert "Asia/Tokyo)" in row
    assert total == "3 occurrences would be launched, 0 left out"
    assert tocsin("launches", "fill/one").err == "no launches\n"


def what_was_launched_is_left_out_the_next_time(tocsin, wait):
    tocsin("add", "fill/two", "0 0 * * *", "--null")
    done = tocsin("backfill", "fill/two", "--from", "-2d", "--yes")
    assert done.out.endswith("2 launches are asked for; 'tocsin launches fill/two' shows how they go\n")
    wait(lambda: len(tocsin("launches", "fill/two", "--state", "succeeded", "--json").json["items"]) == 2)
    again = tocsin("backfill", "fill/two", "--from", "3d ago", "--preview", "--json").json
    assert (again["launches"], again["left_out"], again["preview"]) == (1, 2, True)
    shown = tocsin("backfill", "fill/two", "--from", "-2d", "--yes")
    assert "2      leave out  it was launched: succeeded" in shown.out
    assert "nothing to launch" in shown.err
    assert tocsin("backfill", "fill/two", "--from", "-3d", "--yes", "--json").json["launches"] == 1


def a_day_is_a_day_of_the_schedule(tocsin):
    zone = "Asia/Tokyo"
    tocsin("add", "fill/zone", "0 0 * * *", "--null", "--tz", zone)
    day = datetime.now(ZoneInfo(zone)).date() - timedelta(days=4)
    words = ("--from", f"{day}", "--until", f"{day + timedelta(days=1)}", "--preview", "--json")
    (only,) = tocsin("backfill", "fill/zone", *words).json["items"]
    assert datetime.fromisoformat(only["at"]).astimezone(ZoneInfo(zone)).date() == day
    tocsin("backfill", "fill/zone", *words[:4], "--yes")
    listed = tocsin(
        "launches", "fill/zone", "--since", f"{day}", "--until", f"{day + timedelta(days=1)}", "--json"
    )
    assert len(listed.json["items"]) == 1
    assert (
        tocsin("launches", "fill/zone", "--since", f"{day + timedelta(days=1)}", "--json").json["items"] == []
    )


def where_nobody_can_be_asked_one_must_say_what_is_wanted(tocsin):
    tocsin("add", "fill/ask", "@daily", "--null")
    for more in ([], ["--json"], ["--yes", "--preview"]):
        done = tocsin("backfill", "fill/ask", "--from", "-3d", *more)
        assert (done.status, done.out, "--preview" in done.err) == (1, "", True)
    assert tocsin("launches", "fill/ask").err == "no launches\n"


def a_person_is_asked_and_may_say_no(tocsin, wait):
    tocsin("add", "fill/person", "@daily", "--null")
    words = ("backfill", "fill/person", "--from", "-2d")
    status, shown = at_a_terminal(tocsin.url, *words, answer="n")
    assert status == 1
    assert "Launch 2 occurrences, one at a time, the oldest first?" in shown
    assert "nothing was done" in shown
    assert tocsin("launches", "fill/person").err == "no launches\n"
    status, shown = at_a_terminal(tocsin.url, *words, answer="y")
    assert (status, "2 launches are asked for" in shown) == (0, True)
    wait(lambda: len(tocsin("launches", "fill/person", "--state", "succeeded", "--json").json["items"]) == 2)


def a_range_that_is_the_wrong_way_round_is_refused(tocsin):
    tocsin("add", "fill/wrong", "@daily", "--null")
    done = tocsin("backfill", "fill/wrong", "--from", "-1d", "--until", "-2d", "--preview")
    assert (done.status, "until" in done.err) == (1, True)
    assert tocsin("backfill", "fill/nobody", "--from", "-1d", "--preview").status == 1
    assert tocsin("backfill", "fill/wrong", "--preview").status == 2


def a_range_with_too_many_says_where_to_go_on(tocsin):
    tocsin("add", "fill/many", "* * * * *", "--null")
    done = tocsin("backfill", "fill/many", "--from", "-2d", "--preview")
    assert "1000 occurrences would be launched" in done.out
    assert "ask again from there" in done.err
