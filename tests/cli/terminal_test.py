"""Tables before the eyes of a person, in a terminal of 80 columns."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tocsin.cli import present

ID = "billing/monthly-payroll1"
NEVER = "0 0 29 2 *"


def a_usual_list_of_launches_fits(tocsin):
    assert len(ID) == 24
    tocsin("add", ID, "* * * * * *", "--shell", "exit 17")
    name = tocsin("run", ID, "--wait", "--json").json["name"]
    title, *rows = tocsin.terminal("launches", ID).out.splitlines()
    assert re.match(r"NAME +STATE +STARTED \(E[SD]T\) +TOOK +REASON", title)
    assert max(map(len, [title, *rows])) <= 80
    assert len(rows) == len([row for row in rows if row.startswith(ID)]), "each row is one line"
    (row,) = [row for row in rows if name in row]
    assert re.search(r"failed +(\d\d-\d\d )?\d\d:\d\d:\d\d +0\.\d\ds", row)
    assert "E" not in row.split("failed")[1], "the zone is not in the row"


def a_usual_list_of_schedules_fits(tocsin):
    tocsin("add", f"{ID}x"[1:], "30 2 * * mon-fri", "--tz", "Europe/Berlin", "--null")
    tocsin("add", f"{ID}y"[1:], "0 0 1 7 *", "--tz", "Europe/Berlin", "--null")
    shown = tocsin.terminal("list", "illing/").out
    title, *rows = shown.splitlines()
    assert re.match(r"ID +CRON +ZONE +NEXT \((E[SD]T|EDT/EST)\) +STATE", title)
    assert len(rows) == 2
    for row in rows:
        assert len(row.rstrip()) <= 80
        assert row.rstrip().endswith(" enabled")
        assert "Europe/Berlin " in row
        assert "…" not in row
    assert "30 2 * * mon-fri" in shown


def a_long_reason_is_cut_in_a_terminal_and_whole_in_a_pipe(tocsin):
    id = "reason/one"
    tocsin("add", id, NEVER, "--http", "http://127.0.0.1:1/" + "x" * 80)
    view = tocsin("run", id, "--wait", "--json").json
    assert len(view["reason"]) > 20
    lines = tocsin.terminal("launches", id).out.splitlines()
    assert len(lines) == 2
    assert len(lines[1]) <= 80
    piped = tocsin("launches", id).out
    assert view["reason"] in piped
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d E[SD]T", piped)


def a_wide_terminal_shows_all_columns(tocsin):
    tocsin("add", "wide/one", NEVER, "--null")
    tocsin("run", "wide/one", "--wait")
    title = tocsin.terminal("launches", "wide/one", columns=200).out.splitlines()[0]
    assert title.split() == ["NAME", "STATE", "STARTED", "TOOK", "LATE", "ATTEMPT", "REASON"]


def a_moment_of_another_day_has_its_date():
    now = datetime.now(UTC)
    assert present.short_moment(now) == f"{now.astimezone():%H:%M:%S}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", present.short_moment(now + timedelta(days=800)))
    assert present.short_moment(None) == "-"


@pytest.mark.parametrize(
    ("months", "title"), [((), "NEXT"), ((1,), "NEXT (EST)"), ((7, 1), "NEXT (EDT/EST)")]
)
def the_zone_of_a_column_is_named_once(months, title):
    moments = [datetime(2027, month, 1, tzinfo=UTC) for month in months]
    assert present.zone_title("NEXT", [*moments, None]) == title
