"""What came of the schedules: ``run``, ``launches``, ``output`` and ``why``."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

NEVER = "0 0 29 2 *"


def a_run_that_is_waited_for_prints_its_output_and_tells_by_its_status(tocsin):
    tocsin("add", "wait/good", NEVER, "--shell", "echo one; echo two")
    tocsin("add", "wait/bad", NEVER, "--shell", "echo three; exit 7")
    good = tocsin("run", "wait/good", "--wait")
    assert (good.status, good.out) == (0, "one\ntwo\n")
    assert re.fullmatch(r"wait/good-\d+-manual\n(started\n)?(running\n)?succeeded\n", good.err)
    bad = tocsin("run", "wait/bad", "--wait")
    assert (bad.status, bad.out) == (1, "three\n")
    assert bad.err.endswith("failed: exit status 7\n")
    listed = tocsin("launches", "--schedule", "wait/bad", "--state", "failed", "--json").json
    name = listed["items"][0]["name"]
    assert tocsin("output", name).out == "three\n"
    assert tocsin("output", name, "--attempt", "1", "--json").json["head"] == "three\n"
    table = tocsin("launches", "--schedule", "wait/bad").out
    assert name in table
    assert "exit status 7" in table
    assert "exit status 7" in tocsin("why", "wait/bad", name.split("-")[1]).out


def a_run_that_is_waited_for_tells_of_each_attempt(tocsin):
    tocsin("add", "wait/again", NEVER, "--retry", "1", "--backoff", "1s", "--shell", "exit 3")
    done = tocsin("run", "wait/again", "--wait")
    assert done.status == 1
    assert re.search(r"^retrying: exit status 3, again at [-\d ]*\d\d:\d\d:\d\d", done.err, re.MULTILINE), (
        done.err
    )
    assert done.err.endswith("failed: exit status 3 (attempt 2 of 2)\n"), done.err


def a_run_without_output_is_not_silent(tocsin):
    tocsin("add", "wait/http", NEVER, "--http", "http://127.0.0.1:1/")
    done = tocsin("run", "wait/http", "--wait")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("wait/http-")
    assert "\nfailed: " in done.err
    tocsin("add", "wait/null", NEVER, "--null")
    assert tocsin("run", "wait/null", "--wait").err.endswith("succeeded\n")


def a_program_that_waits_gets_json_alone(tocsin):
    tocsin("add", "wait/json", NEVER, "--null")
    done = tocsin("run", "wait/json", "--wait", "--json")
    assert (done.json["state"], done.err) == ("succeeded", "")


def the_launches_of_a_schedule_are_listed_by_its_id(tocsin):
    tocsin("add", "of/one", NEVER, "--null")
    assert tocsin("launches", "of/one").err == "no launches\n"
    tocsin("run", "of/one", "--wait")
    listed = tocsin("launches", "of/one", "--json").json
    assert [item["schedule"] for item in listed["items"]] == ["of/one"]
    assert tocsin("launches", "--schedule", "of/one", "--json").json == listed
    assert tocsin("launches", "of/one", "--schedule", "of/two").status == 1
    tocsin("rm", "of/one")
    assert tocsin("launches", "of/one", "--json").json == listed, "what was removed has its launches still"
    assert tocsin("launches", "of/one", "--state", "failed").status == 0


def launches_of_what_was_never_there_are_an_error(tocsin):
    for words in (["of/nobody"], ["--schedule", "of/nobody"], ["of/nobody", "--json"]):
        done = tocsin("launches", *words)
        assert (done.status, done.out) == (1, "")
        assert "there is no schedule 'of/nobody'" in done.err


def the_output_of_a_schedule_is_that_of_its_newest_launch_that_was_started(tocsin):
    tocsin("add", "out/one", NEVER, "--shell", "echo hello")
    none = tocsin("output", "out/one")
    assert (none.status, none.out) == (1, "")
    assert "no launch of 'out/one' was started yet" in none.err
    name = tocsin("run", "out/one", "--wait", "--json").json["name"]
    found = tocsin("output", "out/one")
    assert (found.status, found.out, found.err) == (0, "hello\n", "")
    assert tocsin("output", "out/one", "--json").json["launch"] == name
    looked_at = tocsin.terminal("output", "out/one")
    assert (looked_at.out, looked_at.err) == ("hello\n", f"[{name}]\n")
    assert tocsin.terminal("output", name).err == ""


def an_output_cannot_command_the_terminal_unless_it_is_asked_for_raw(tocsin):
    tocsin(
        "add", "out/loud", NEVER, "--shell", r"printf 'a\tb\033]0;owned\007\r\nc\rd\302\233m\342\200\256\n'"
    )
    tocsin("run", "out/loud", "--wait")
    assert tocsin("output", "out/loud").out == "a\tb\\x1b]0;owned\\x07\nc\\x0dd\\x9bm\\u202e\n"
    assert tocsin("output", "out/loud", "--follow").out == "a\tb\\x1b]0;owned\\x07\nc\\x0dd\\x9bm\\u202e\n"
    raw = tocsin("output", "out/loud", "--raw").out
    assert "\x1b]0;owned\x07" in raw
    assert "\x9bm" in raw


def a_launch_without_output_is_not_taken_for_a_schedule(tocsin):
    tocsin("add", "out/null", NEVER, "--null")
    name = tocsin("run", "out/null", "--wait", "--json").json["name"]
    done = tocsin("output", name)
    assert (done.status, "captures none" in done.err) == (1, True)


def why_alone_is_about_the_newest_launch(tocsin):
    tocsin("add", "why/run", NEVER, "--shell", "exit 5")
    name = tocsin("run", "why/run", "--wait", "--json").json["name"]
    told = tocsin("why", "why/run", "--json").json
    assert [launch["name"] for launch in told["launches"]] == [name]
    assert "exit status 5" in tocsin("why", "why/run").out
    tocsin("rm", "why/run")
    assert "exit status 5" in tocsin("why", "why/run").out
    assert tocsin("why", "why/nobody").status == 1


def why_alone_is_about_the_last_occurrence_where_that_is_newer(tocsin, wait):
    tocsin("add", "why/often", "* * * * * *", "--null")
    first = wait(lambda: tocsin("launches", "why/often", "--json").json["items"])[-1]
    tocsin("pause", "why/often", "--note", "enough")
    wait(lambda: "was paused then" in tocsin("why", "why/often").out)
    assert tocsin("why", "why/often", "--json").json["at"] > first["scheduled_at"]


def why_of_what_has_not_happened_yet_tells_when_it_will(tocsin):
    tocsin("add", "why/later", "0 0 1 1 *", "--null")
    done = tocsin("why", "why/later")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("no occurrence yet; the first is at 20")
    upcoming = tocsin("show", "why/later", "--json").json["next"]
    assert tocsin("why", "why/later", "--json").json["at"] == upcoming
    tocsin("pause", "why/later")
    assert "it is paused; the first would be at 20" in tocsin("why", "why/later").out


def a_schedule_that_begins_later_had_no_occurrence(tocsin):
    tocsin("add", "why/start", "* * * * * *", "--null", "--start", "2030-01-01T00:00:00Z")
    assert "the first is at 2029-12-31 19:00:0" in tocsin("why", "why/start").out


def a_one_shot_that_was_launched_is_done(tocsin, wait):
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    tocsin("add", "once/one", f"@at {now}", "--null")
    wait(lambda: tocsin("launches", "once/one", "--state", "succeeded", "--json").json["items"])
    assert tocsin("list", "once/").out.splitlines()[1].split()[-2:] == ["-", "done"]
    assert re.search(r"^state +done$", tocsin("show", "once/one").out, re.MULTILINE)
    assert json.loads(tocsin("list", "once/", "--json").out)["items"][0]["enabled"] is True


def no_id_is_not_every_id(tocsin):
    tocsin("add", "some/one", NEVER, "--shell", "echo some")
    tocsin("run", "some/one", "--wait")
    for command in ("output", "why"):
        done = tocsin(command, "")
        assert (done.status, done.out) == (1, "")
        assert "is not a usable id" in done.err
