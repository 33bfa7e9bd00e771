"""``tocsin apply --diff``: what would change, told before anything is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.person import at_a_terminal

DIFFERENT = 4


@pytest.fixture
def file(folder: Any) -> Any:
    """A file with these schedules, each of them complete as soon as it has an id."""

    def written(*schedules: dict[str, Any], name: str = "all.json") -> Path:
        whole = [{"cron": "0 9 * * *", "target": {"kind": "null"}, **schedule} for schedule in schedules]
        return folder({name: json.dumps(whole)}) / name

    return written


def what_is_new_is_shown_and_not_sent(tocsin, file):
    path = file({"id": "diff/new", "timezone": "Europe/Berlin"})
    done = tocsin("apply", "-f", str(path), "--diff")
    assert done.status == DIFFERENT
    lines = done.out.splitlines()
    assert lines[0] == "+ new  diff/new  0 9 * * *  Europe/Berlin"
    assert lines[1] == "    launches in the next 14 days: 14"
    # The viewer is in New York.
    assert re.fullmatch(r"      \+ \S+ 0[34]:00:00 E[SD]T \(\S+ 09:00:00 Europe/Berlin\)", lines[2])
    assert lines[5] == "        and 11 more"
    assert lines[-1] == "1 new"
    assert tocsin("list", "diff/new").out == ""


def nothing_to_change_is_no_difference(tocsin, file):
    path = file({"id": "diff/same"})
    tocsin("apply", "-f", str(path))
    done = tocsin("apply", "-f", str(path), "--diff")
    assert (done.status, done.out) == (0, "1 unchanged\n")


def a_change_is_shown_with_the_launches_that_it_moves(tocsin, file):
    tocsin("apply", "-f", str(file({"id": "diff/moved", "labels": {"a": "b"}})))
    path = file({"id": "diff/moved", "cron": "30 10 * * *", "retry": {"limit": 3}})
    done = tocsin("apply", "-f", str(path), "--diff", "--days", "5")
    assert done.status == DIFFERENT
    assert "~ changed  diff/moved\n" in done.out
    assert '    cron: "0 9 * * *" -> "30 10 * * *"\n' in done.out
    assert '    retry: null -> {"limit":3}\n' in done.out
    assert '    labels.a: "b" -> (none)\n' in done.out
    assert "    launches in the next 5 days: 5 before, 5 after\n" in done.out
    move = r"      ~ \S+ \S+ E[SD]T \(\S+ 09:00:00 UTC\) -> \S+ \S+ E[SD]T \(\S+ 10:30:00 UTC\)\n"
    assert len(re.findall(move, done.out)) == 3
    assert tocsin("show", "diff/moved", "--json").json["version"] == 1


def a_change_of_other_fields_says_that_the_launches_stay(tocsin, file):
    tocsin("apply", "-f", str(file({"id": "diff/stays"})))
    done = tocsin("apply", "-f", str(file({"id": "diff/stays", "timeout": "5m"})), "--diff")
    assert '    timeout: null -> "5m"\n    launches in the next 14 days: the same 14\n' in done.out


def what_is_paused_stays_paused_in_the_preview_too(tocsin, file):
    tocsin("apply", "-f", str(file({"id": "diff/paused"})))
    tocsin("pause", "diff/paused")
    assert tocsin("apply", "-f", str(file({"id": "diff/paused"})), "--diff").out == "1 unchanged\n"
    done = tocsin("apply", "-f", str(file({"id": "diff/paused", "enabled": True})), "--diff")
    assert "~ changed  diff/paused, resumed\n    enabled: false -> true\n" in done.out
    edited = tocsin("apply", "-f", str(file({"id": "diff/paused", "cron": "@hourly"})), "--diff")
    assert "~ changed  diff/paused, still paused\n" in edited.out
    assert "    launches in the next 14 days: none\n" in edited.out


def a_change_of_the_clock_within_the_days_is_told(tocsin, file):
    path = file({"id": "diff/clock", "cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    done = tocsin("apply", "-f", str(path), "--diff", "--days", "366")
    assert re.search(
        r"    \S+: clocks go from 02:00 to 03:00; the occurrence of 02:30 is launched at 03:00\n", done.out
    )
    assert re.search(
        r"    \S+: clocks go back from 03:00 to 02:00; 02:30 comes twice and is launched", done.out
    )


def a_program_gets_one_object_a_schedule(tocsin, file):
    tocsin("apply", "-f", str(file({"id": "diff/j1"}, {"id": "diff/j2"})))
    tocsin("add", "diff/j4", "@daily", "--null", "--label", "by=json")
    path = file({"id": "diff/j1"}, {"id": "diff/j2", "cron": "@hourly"}, {"id": "diff/j3"})
    done = tocsin("apply", "-f", str(path), "--diff", "--json")
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["schedule"], one["change"]) for one in told] == [
        ("diff/j1", "unchanged"),
        ("diff/j2", "changed"),
        ("diff/j3", "new"),
    ]
    assert told[1]["fields"] == [{"field": "cron", "before": "0 9 * * *", "after": "@hourly"}]
    assert done.status == DIFFERENT


def what_would_be_pruned_is_shown(tocsin, file):
    labels = {"by": "diff"}
    tocsin(
        "apply", "-f", str(file({"id": "diff/keep", "labels": labels}, {"id": "diff/gone", "labels": labels}))
    )
    path = file({"id": "diff/keep", "labels": labels})
    prune = ("--prune", "--label", "by=diff")
    done = tocsin("apply", "-f", str(path), "--diff", *prune)
    assert (done.status, done.out) == (
        DIFFERENT,
        "- would be removed  diff/gone\n1 to be removed, 1 unchanged\n",
    )
    as_json = tocsin("apply", "-f", str(path), "--diff", "--json", *prune).out.splitlines()
    assert json.loads(as_json[-1]) == {"schedule": "diff/gone", "change": "removed"}
    assert tocsin("show", "diff/gone").status == 0


def the_exit_status_tells_what_went_wrong(alone, tocsin, file):
    path = file({"id": "diff/refused"})
    assert alone("apply", "-f", str(path), "--diff").status == 3
    assert tocsin("apply", "-f", str(path), "--diff", "--days", "367").status == 2


def colours_are_for_people(tocsin, file):
    path = file({"id": "diff/colour", "description": "\x1b[31mred\u202e"})
    tocsin("apply", "-f", str(path))
    changed = file({"id": "diff/colour", "cron": "@hourly", "description": "plain"})
    piped = tocsin("apply", "-f", str(changed), "--diff").out
    assert "\x1b" not in piped
    assert "\u202e" not in piped
    status, shown = at_a_terminal(tocsin.url, "apply", "-f", str(changed), "--diff", columns=40)
    assert status == DIFFERENT
    assert '    cron: \x1b[31m"0 9 * * *"\x1b[0m -> \x1b[32m"@hourly"\x1b[0m' in shown
    assert "\u202e" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert plain[-1] == "1 changed"
    assert max(map(len, plain)) > 40, "a line is not broken into pieces"


def too_many_launches_to_compare_are_told_as_such(tocsin, file):
    done = tocsin("apply", "-f", str(file({"id": "diff/second", "cron": "* * * * * *"})), "--diff")
    assert re.search(r"launches in the time until .* \(more are not counted\): 25000\n", done.out)
    assert "and 24997 more\n" in done.out
