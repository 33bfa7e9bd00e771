"""``tocsin history``, ``versions``, ``restore``; ``launch``: who did what, and what was before."""

from __future__ import annotations

import re

from tests.cli.person import at_a_terminal

NEVER = "0 0 29 2 *"


def who_did_what_is_told_the_newest_first(tocsin):
    tocsin("add", "told/one", NEVER, "--null")
    tocsin("pause", "told/one", "--note", "the bank is down")
    tocsin("run", "told/one", "--wait")
    title, *rows = tocsin("history", "told/one").out.splitlines()
    assert title.split() == ["WHEN", "WHO", "WHAT", "ABOUT", "VERSION", "NOTE"]
    assert [re.split(r"  +", row)[2] for row in rows] == ["launched", "paused", "created"]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d E[SD]T", rows[0])
    assert "told/one-" in rows[0], "the launch that it was about"
    assert "the bank is down" in rows[1]
    page = tocsin("history", "told/one", "--limit", "1", "--json").json
    assert [item["act"] for item in page["items"]] == ["launched"]
    assert page["cursor"]
    assert "--limit 0" in tocsin("history", "told/one", "--limit", "1").err


def the_history_of_what_never_was_is_a_mistake(tocsin):
    done = tocsin("history", "told/nobody")
    assert (done.status, done.out, "told/nobody" in done.err) == (1, "", True)
    tocsin("add", "told/two", NEVER, "--null")
    nothing = tocsin("history", "--actor", "somebody-else")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "nothing is recorded\n")
    mine = tocsin("history", "told/two", "--json").json["items"][0]["actor"]
    assert "created" in tocsin("history", "told/two", "--actor", mine).out


def the_versions_of_a_schedule_say_how_they_came_about(tocsin):
    tocsin("add", "past/one", NEVER, "--null", "--description", "first: yes")
    tocsin("apply", "-f", "-", stdin='{"id": "past/one", "cron": "@daily", "target": {"kind": "null"}}')
    tocsin("rm", "past/one")
    rows = tocsin("versions", "past/one").out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert "cron, description" in rows[0]
    assert "deleted" in rows[0]
    assert [item["version"] for item in tocsin("versions", "past/one", "--json").json["items"]] == [2, 1]


def a_former_version_is_printed_as_apply_reads_it(tocsin):
    tocsin(
        "add", "past/two", "@daily", "--shell", "echo 'a: b' # c", "--payload", '{"on": "12:30", "é": [1]}'
    )
    document = tocsin("versions", "past/two", "--version", "1").out
    assert tocsin("apply", "-f", "-", stdin=document).out == "past/two unchanged\n"
    assert tocsin("versions", "past/two", "--version", "1", "--json").json["payload"] == {
        "on": "12:30",
        "é": [1],
    }
    other = tocsin("versions", "past/two", "--version", "7")
    assert (other.status, "there are 1" in other.err) == (1, True)


def what_was_removed_comes_back(tocsin):
    tocsin("add", "back/one", "@daily", "--null", "--tz", "Europe/Berlin")
    tocsin("rm", "back/one")
    done = tocsin("restore", "back/one")
    assert done.status == 0
    assert re.match(r"back/one is back, now at version 2; next: .* \(.* Europe/Berlin\), in ", done.out)
    there = tocsin("restore", "back/one")
    assert (there.status, "--version N" in there.err, "{" in there.err) == (1, True, False)
    assert tocsin("restore", "back/nobody").status == 1


def a_former_version_comes_back(tocsin):
    tocsin("add", "back/two", "@daily", "--null")
    tocsin("pause", "back/two")
    tocsin("resume", "back/two")
    done = tocsin("restore", "back/two", "--version", "2")
    assert "as version 2 was, now at version 4; it is paused: 'tocsin resume back/two' goes on" in done.out
    assert tocsin("restore", "back/two", "--version", "1", "--json").json["enabled"] is True
    assert "as it was at version 2" in tocsin("history", "back/two").out


def a_launch_is_shown_with_every_step(tocsin):
    tocsin(
        "add", "step/one", NEVER, "--tz", "Asia/Tokyo", "--retry", "1", "--backoff", "1s", "--shell", "exit 4"
    )
    name = tocsin("run", "step/one", "--wait", "--json").json["name"]
    done = tocsin("launch", name)
    assert re.search(r"occurrence +\S+ \S+ E[SD]T \(.* Asia/Tokyo\)", done.out)
    steps = done.out.split("\n\n")[1].splitlines()
    assert steps[0].split() == ["WHEN", "WHAT", "ATTEMPT", "WHO", "NOTE"]
    # Whether it is told that the target took it depends on how fast it ended.
    told = [re.split(r"  +", step)[1] for step in steps[1:]]
    assert [step for step in told if step != "accepted by its target"] == [
        "launched",
        "started",
        "attempt ended",
        "started",
        "failed",
    ]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} E[SD]T", steps[1])
    assert f"tocsin output {name}" in done.err
    assert len(tocsin("launch", name, "--json").json["steps"]) == len(told)
    assert tocsin("launch", "step/one-1").status == 1
    tocsin("rm", "step/one")
    assert tocsin("launch", name).status == 0, "a schedule that is gone has left its launches"


def tables_fit_a_window_of_80_columns(tocsin):
    id = "billing/monthly-payroll1"
    tocsin("add", id, "@daily", "--null", "--description", "x")
    tocsin("pause", id, "--note", "a reason that is rather long and has no room in a window like this one")
    tocsin("apply", "-f", "-", stdin=f'{{"id": "{id}", "cron": "@hourly", "target": {{"kind": "null"}}}}')
    for words in (("history", id), ("versions", id), ("backfill", id, "--from", "-1d", "--preview")):
        status, shown = at_a_terminal(tocsin.url, *words, columns=80)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert status == 0, shown
        assert max(map(len, plain.splitlines())) <= 80, plain
