"""``tocsin audit`` against a real service: the table, the JSON, and an exit status to go by."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from tests.cli.conftest import Command


def _launched(tocsin: Any, id: str) -> int:
    return len(tocsin("launches", id, "--state", "succeeded", "--json", "--limit", "0").json["items"])


def an_audit_that_finds_nothing_ends_well(tocsin, wait):
    tocsin("add", "audit/second", "* * * * * *", "--null")
    wait(lambda: _launched(tocsin, "audit/second") >= 3)
    done = tocsin("audit")
    assert (done.status, done.err) == (0, "")
    assert "doubled      0\n" in done.out
    assert "unaccounted  0\n" in done.out
    assert "on time, 0 late" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("audit/second")]
    assert line.split()[1:3] != ["0", "0"]


def one_schedule_or_the_beginning_of_ids_can_be_named(tocsin, wait):
    for id in ("part/a", "part/b"):
        tocsin("add", id, "* * * * * *", "--null")
    wait(lambda: _launched(tocsin, "part/b") >= 2)
    for given, found in (
        ("part/", ["part/a", "part/b"]),
        ("part", ["part/a", "part/b"]),
        ("part/a", ["part/a"]),
    ):
        done = tocsin("audit", given, "--json", "--from", "-1h")
        assert done.status == 0
        assert [item["schedule"] for item in done.json["items"]] == found
        assert done.json["cursor"] == ""
    done = tocsin("audit", "prat/")
    assert (done.status, "no id begins with it" in done.err) == (1, True)


def a_time_that_has_not_come_is_refused(tocsin):
    done = tocsin("audit", "--from", "2990-01-01")
    assert (done.status, done.out) == (1, "")
    assert "from: that time has not come yet" in done.err


def many_schedules_are_counted_and_a_few_are_shown(tocsin, wait):
    for number in range(5):
        tocsin("add", f"few/{number}", "* * * * * *", "--null")
    wait(lambda: _launched(tocsin, "few/4") >= 1)
    done = tocsin("audit", "few/", "--limit", "2")
    assert done.status == 0
    assert sum(line.startswith("few/") for line in done.out.splitlines()) == 2
    assert done.err == "3 more schedules: --limit 0 shows all\n"


def what_must_not_be_is_named_and_is_the_exit_status(serve, wait, tmp_path):
    serving = serve("--json", "--data", str(tmp_path / "data"))
    tocsin = Command(json.loads(serving.greeting)["url"])
    tocsin("add", "s", "* * * * * *", "--null")
    wait(lambda: _launched(tocsin, "s") >= 3)
    db = sqlite3.connect(tmp_path / "data" / "state.db")
    with db:
        db.execute("DELETE FROM launch WHERE lid = 2")
    db.close()
    done = tocsin("audit")
    assert done.status == 1
    assert "unaccounted  1\n" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("unaccounted: ")]
    assert line.startswith("unaccounted: s at 20")
    assert tocsin("audit", "--json").status == 1
    serving.stop()
