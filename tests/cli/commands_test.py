"""What a person types, and what comes of it."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys

import pytest

NEVER = "0 0 29 2 *"


def a_schedule_is_added_listed_shown_and_removed(tocsin):
    added = tocsin("add", "life/one", NEVER, "--tz", "Europe/Berlin", "--shell", "echo hi", "--label", "a=b")
    assert (added.status, added.err) == (0, "")
    assert added.out.startswith("life/one added; next: ")
    again = tocsin("add", "life/one", NEVER, "--tz", "Europe/Berlin", "--shell", "echo hi", "--label", "a=b")
    assert (again.status, "exists already" in again.out) == (0, True)
    listed = tocsin("list", "life/")
    assert listed.out.splitlines()[0].split() == ["ID", "CRON", "ZONE", "NEXT", "STATE"]
    row = listed.out.splitlines()[1]
    assert "life/one" in row
    assert NEVER in row
    assert "Europe/Berlin)" in row, "the zone of the schedule differs from the viewer's"
    shown = tocsin("show", "life/one")
    facts = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (facts["target.shell"], facts["labels.a"]) == ("echo hi", "b"), "one fact a line"
    assert tocsin("rm", "life/one").out == "life/one removed\n"
    gone = tocsin("show", "life/one")
    assert gone.status == 1
    assert gone.err.startswith("tocsin: there is no schedule 'life/one'")


def the_command_in_a_process_of_its_own_prints_answers_and_tells_by_its_status(tocsin):
    added = tocsin.process("add", "process/one", NEVER, "--shell", "echo hi", "--json")
    assert (added.status, added.err, added.json["version"]) == (0, "", 1)
    listed = tocsin.process("list", "process/")
    assert "process/one" in listed.out
    assert "\x1b" not in listed.out
    assert tocsin.process("run", "process/one", "--wait").out == "hi\n"
    missing = tocsin.process("show", "process/two")
    assert (missing.status, missing.out, len(missing.err.splitlines())) == (1, "", 2)
    assert tocsin.process("add", "process/one").status == 2
    unreachable = tocsin.process("status", "--url", "http://127.0.0.1:1")
    assert (unreachable.status, len(unreachable.err.splitlines())) == (3, 2)


def every_policy_can_be_given_as_an_option(tocsin):
    words = (
        "--on-doubt relaunch --missed all --overlap queue --deadline 10m --timeout 1h --jitter 30s --retry 3"
    )
    more = "--backoff 2s --max-backoff 1m --description text --paused --http http://localhost:9/x --json"
    added = tocsin("add", "policy/one", NEVER, "--payload", '{"a": [1]}', *words.split(), *more.split())
    found = added.json
    expected = {
        "on_doubt": "relaunch",
        "missed": "all",
        "overlap": "queue",
        "deadline": "10m",
        "timeout": "1h",
        "jitter": "30s",
        "retry": {"limit": 3, "backoff": "2s", "max_backoff": "1m"},
        "payload": {"a": [1]},
        "enabled": False,
        "next": None,
    }
    assert {name: found[name] for name in expected} == expected
    assert json.loads(tocsin("show", "policy/one", "--json").out) == found


def every_field_of_a_command_can_be_given_as_an_option(tocsin):
    user = getpass.getuser()  # another one would need the setting exec_users
    words = (
        f"--env A=b=c --env D= --cwd /tmp --user {user} --memory-mb 64 --cpu-seconds 5 --catch-up-spread 5m"
    )
    more = "--start 2030-01-01T00:00:00Z --end 2031-01-01T00:00:00+01:00 --shell true --json"
    found = tocsin("add", "exec/all", NEVER, *words.split(), *more.split(), "--payload", "{}").json
    assert found["target"] == {
        "kind": "exec",
        "shell": "true",
        "env": {"A": "b=c", "D": ""},
        "cwd": "/tmp",
        "user": user,
        "limits": {"memory_mb": 64, "cpu_seconds": 5},
    }
    assert (found["catch_up_spread"], found["payload"]) == ("5m", {})
    assert found["start"] == "2030-01-01T00:00:00Z"
    assert found["end"].startswith(("2031-01-01T00:00:00+01:00", "2030-12-31T23:00:00Z"))


def every_field_of_an_http_call_can_be_given_as_an_option(tocsin):
    words = "--http http://localhost:9/x --method PUT --header X-A:b:c --secret env:KEY --idempotent --json"
    found = tocsin("add", "http/all", NEVER, *words.split(), "--header", "X-B: d").json
    assert found["target"] == {
        "kind": "http",
        "url": "http://localhost:9/x",
        "method": "PUT",
        "headers": {"X-A": "b:c", "X-B": "d"},
        "secret": "env:KEY",
        "idempotent": True,
    }


@pytest.mark.parametrize(
    ("target", "words", "told"),
    [
        ("--null", "--env A=b", ["--env", "a command", "'null'", "--shell"]),
        ("--http=http://localhost:9/", "--cpu-seconds 1", ["--cpu-seconds", "a command", "'http'"]),
        ("--http=http://localhost:9/", "--cwd /", ["--cwd"]),
        ("--shell=true", "--header a:b", ["--header", "an HTTP call", "'exec'", "--http"]),
        ("--shell=true", "--idempotent", ["--idempotent", "an HTTP call"]),
        ("--null", "--secret env:A", ["--secret", "an HTTP call"]),
        ("--http=http://localhost:9/", "--header ab", ["header", "key:value"]),
        ("--null", "--start 2030-01-01T00:00:00", ["start", "offset"]),
        ("--null", "--end soon", ["end"]),
    ],
)
def an_option_that_does_not_fit_is_refused(tocsin, target, words, told):
    done = tocsin("add", "misfit", NEVER, target, *words.split())
    assert (done.status, done.out) == (1, "")
    for part in told:
        assert part in done.err, done.err


def the_help_of_add_is_in_panels(alone):
    text = alone("add", "--help").out
    assert text.index("Target: what is launched") < text.index("--memory-mb") < text.index("Policies")
    assert text.index("Policies") < text.index("--catch-up-spread")


def words_after_two_dashes_are_the_command(tocsin):
    found = tocsin("add", "argv/one", NEVER, "--json", "--", "/bin/echo", "--json", "-x", "a b").json
    assert found["target"] == {"kind": "exec", "argv": ["/bin/echo", "--json", "-x", "a b"]}


def a_launch_is_cancelled(tocsin, wait):
    tocsin("add", "cancel/one", NEVER, "--", "sleep", "60")
    name = tocsin("run", "cancel/one", "--json").json["name"]
    assert tocsin("cancel", name, "--reason", "enough").status == 0
    wait(lambda: "enough" in tocsin("launches", "--schedule", "cancel/one", "--state", "cancelled").out)
    late = tocsin("cancel", name)
    assert (late.status, "has ended" in late.err) == (1, True)


def a_schedule_is_paused_and_resumed(tocsin):
    tocsin("add", "pause/one", NEVER, "--null")
    assert "is paused" in tocsin("pause", "pause/one", "--note", "why not").out
    assert "paused (why not)" in tocsin("show", "pause/one").out
    assert [item["id"] for item in tocsin("list", "pause/", "--paused", "--json").json["items"]] == [
        "pause/one"
    ]
    assert "goes on" in tocsin("resume", "pause/one").out


def why_takes_a_time_of_today_in_the_zone_of_the_schedule(tocsin):
    tocsin("add", "why/one", "0 12 * * *", "--tz", "Asia/Tokyo", "--null")
    told = tocsin("why", "why/one", "03:00", "--json").json
    assert told["at"].endswith("T18:00:00Z")
    assert tocsin("why", "why/one", "25:00").status == 1
    odd = tocsin("why", "why/one", "noon")
    assert (odd.status, "at: 'noon'" in odd.err, "allowed:" in odd.err) == (1, True, True)


def the_status_is_readable_and_its_json_is_the_api_s(tocsin):
    assert "schedules" in tocsin("status").out
    assert set(tocsin("status", "--json").json) >= {"replica", "term", "issues", "digest", "next_due"}


def a_list_that_was_cut_says_so(tocsin):
    for number in range(3):
        tocsin("add", f"cut/{number}", NEVER, "--null")
    cut = tocsin("list", "cut/", "--limit", "2")
    assert len(cut.out.splitlines()) == 3
    assert "--limit 0" in cut.err
    assert tocsin("list", "cut/", "--limit", "2", "--json").json["cursor"]
    assert len(tocsin("list", "cut/", "--limit", "0").out.splitlines()) == 4
    none = tocsin("list", "nothing/")
    assert (none.out, none.err) == ("", "no id begins with 'nothing/'; 'tocsin list' shows all\n")
    assert "add one" not in tocsin("list", "cut/", "--paused").err


def a_pipe_gets_whole_lines_however_long(tocsin):
    id = "long/" + "x" * 190
    tocsin("add", id, NEVER, "--null")
    assert any(id in line and "enabled" in line for line in tocsin("list", "long/").out.splitlines())


def what_others_wrote_cannot_speak_to_the_terminal(tocsin):
    tocsin("add", "escape/one", NEVER, "--null", "--description", "\x1b[31mred\nline")
    shown = tocsin("show", "escape/one").out
    assert "\x1b" not in shown
    assert "\\x1b[31mred\\nline" in shown


def a_reader_that_has_seen_enough_is_no_error(tocsin):
    line = f"{sys.executable} -m tocsin next '* * * * *' --count 10000 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2
    assert done.stdout.splitlines()[1] == "0"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("add", "x", "61 * * * *", "--null"), 1, ["minute", "61", "allowed"]),
        (("add", "x", "* * * * *", "--null", "--tz", "Europe/Berln"), 1, ["timezone", "Europe/Berln"]),
        (("add", "..", NEVER, "--null"), 1, ["id", "allowed"]),
        (("add", "x", NEVER), 1, ["target", "--shell"]),
        (("add", "x", NEVER, "--null", "--shell", "true"), 1, ["several"]),
        (("add", "x", NEVER, "--null", "--overlap", "maybe"), 1, ["overlap", "maybe"]),
        (("add", "x", NEVER, "--null", "--payload", "{"), 1, ["payload", "JSON"]),
        (("add", "x", NEVER, "--null", "--label", "x"), 1, ["label", "key=value"]),
        (("add", "x", NEVER, "--null", "--backoff", "1s"), 1, ["--retry"]),
        (("add", "x", NEVER, "--null", "--timeout", "5"), 1, ["timeout", "5s"]),
        (("launches", "--state", "happy"), 1, ["state", "happy", "succeeded"]),
        (("output", "nonsense"), 1, ["name", "nonsense", "tocsin launches"]),
        (("run", "nobody"), 1, ["nobody", "tocsin list"]),
        (("rm", "nobody"), 1, ["nobody"]),
        (("list", "--limit", "-1"), 2, ["--limit"]),
        (("frobnicate",), 2, ["frobnicate"]),
        (("add", "x"), 2, ["CRON"]),
        (("list", "--url", "nowhere"), 1, ["url", "nowhere", "http://"]),
        (("list", "--url", "http://127.0.0.1:1"), 3, ["tocsin serve"]),
    ],
)
def a_mistake_is_told_in_a_line_or_two(tocsin, words, status, told):
    done = tocsin(*words)
    assert done.status == status
    assert done.out == ""
    for part in told:
        assert part in done.err, done.err
    assert len(done.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (("show", "nobody", "--json"), 1, {"status": 404, "retryable": False}),
        (("add", "x", NEVER, "--null", "--retry", "-1", "--json"), 1, {"field": "retry.limit", "value": -1}),
        (("status", "--url", "http://127.0.0.1:1", "--json"), 3, {"retryable": True}),
    ],
)
def a_program_gets_problem_details_on_stderr(tocsin, words, status, expected):
    done = tocsin(*words)
    problem = json.loads(done.err)
    assert (done.status, done.out) == (status, "")
    assert expected.items() <= problem.items()
    assert problem["detail"]


@pytest.mark.parametrize(("policy", "then"), [("last", "it is launched now"), ("skip", "it is not launched")])
def whoever_adds_a_moment_that_has_passed_is_told_what_that_means(tocsin, policy, then):
    done = tocsin("add", f"past/{policy}", "@at 2020-01-01T00:00:00Z", "--null", "--missed", policy)
    assert (done.status, then in done.err) == (0, True)
