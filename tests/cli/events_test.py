"""``events`` and ``output --follow``: what happens and what is printed, as it comes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.conftest import TOCSIN, environment

NEVER = "0 0 29 2 *"


class Following:
    """``tocsin ... --follow`` as a process of its own, read line by line."""

    def __init__(self, url: str | None, *words: str) -> None:
        self.process = subprocess.Popen(
            [*TOCSIN, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(url),
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10)

    def rest(self) -> tuple[int, str, str]:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        out, err = self.process.stdout.read(), self.process.stderr.read()
        self.process.wait(10)
        assert "Traceback" not in err, err
        return self.process.returncode, out, err


@pytest.fixture
def following(tocsin) -> Iterator:
    started: list[Following] = []

    def one(*words: str) -> Following:
        started.append(Following(tocsin.url, *words))
        return started[-1]

    yield one
    for each in started:
        each.process.kill()
        each.process.communicate()


def what_happened_is_told_a_line_each(tocsin):
    tocsin("add", "told/one", NEVER, "--shell", "exit 3")
    tocsin("run", "told/one", "--wait")
    tocsin("pause", "told/one", "--note", "enough\x1b[2J")
    done = tocsin("events", "--schedule", "told/one")
    assert (done.status, done.err) == (0, "")
    lines = [line.split(maxsplit=3) for line in done.out.splitlines()]
    assert all(zone in ("EST", "EDT") for _, _, zone, _ in lines), "in the viewer's zone"
    told = [re.sub(r"one-\d+-manual", "NAME", rest) for *_, rest in lines]
    assert re.fullmatch(r"schedule.created +told/one  version 1(, by \w+)?  \d+\.\d+-[0-9a-f]{8}", told[0])
    assert re.fullmatch(r"launch.started +told/NAME(  by \w+)?  \d+\.\d+-[0-9a-f]{8}", told[1])
    assert re.fullmatch(r"launch.failed +told/NAME  exit status 3  \d+\.\d+-[0-9a-f]{8}", told[-2])
    newest = told[-2].split()[-1]
    rest = tocsin("events", "--schedule", "told/one", "--since", newest).out
    assert rest == done.out.splitlines(keepends=True)[-1], "the id at the end of a line is what --since takes"
    assert "--since: " in tocsin("events", "--since", "abc").err
    assert "\x1b" not in done.out
    assert "enough" in told[-1]


def filters_and_json_are_for_programs(tocsin):
    tocsin("add", "json/one", NEVER, "--null")
    tocsin("run", "json/one", "--wait")
    done = tocsin("events", "--prefix", "json/", "--kind", "launch.*", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["kind"] for event in events] == ["launch.started", "launch.succeeded"]
    since = tocsin("events", "--prefix", "json/", "--since", events[0]["id"], "--json")
    assert json.loads(since.out) == events[1]
    for words in (["--since", "x"], ["--kind", "launch"], ["--since", "99999999"]):
        refused = tocsin("events", *words)
        assert (refused.status, refused.out) == (1, "")
        assert "allowed:" in refused.err


def following_begins_now_and_ends_quietly_with_an_interrupt(tocsin, following, wait):
    tocsin("add", "live/before", NEVER, "--null")
    live = following("events", "--follow", "--prefix", "live/", "--json")
    # It has begun when it tells of something; what it told of first must have come after it was started.
    numbers = iter(range(1000))

    def told() -> bool:
        tocsin("add", f"live/{next(numbers)}", NEVER, "--null")
        return bool(_is_ready(live))

    wait(told)
    first = json.loads(live.line())
    assert (first["kind"], first["schedule"] != "live/before") == ("schedule.created", True)
    assert live.interrupt() == 0
    assert live.rest()[2] == ""


def _is_ready(live: Following) -> bool:
    return bool(select.select([live.process.stdout], [], [], 0.1)[0])


def a_pipe_that_has_seen_enough_is_no_error(tocsin):
    tocsin("add", "pipe/one", NEVER, "--null")
    line = " ".join([*TOCSIN, "events", "| head -n 1"])
    done = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        env=environment(tocsin.url),
        timeout=30,
        check=False,
        text=True,
    )
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def before_a_persons_eyes_lines_are_short(tocsin):
    tocsin("add", "eyes/one", NEVER, "--null")
    shown = tocsin.terminal("events", "--schedule", "eyes/one", columns=60).out
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  schedule\.created    eyes/one  version 1(, by \w+)?  \d+\.\d+-[0-9a-f]{8}\n", shown
    )


def output_is_followed_until_the_launch_has_ended(tocsin, following, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    tocsin(
        "add", "out/live", NEVER, "--shell", f"echo one; read line < {gate}; echo $line; printf 'h\\303\\251'"
    )
    name = tocsin("run", "out/live", "--json").json["name"]
    live = following("output", "--follow", name)
    assert live.line() == "one\n"
    gate.write_text("two\n")
    assert live.line() == "two\n"
    assert live.rest() == (0, "hé", "")


def the_exit_status_of_following_is_how_the_launch_ended(tocsin):
    tocsin("add", "out/bad", NEVER, "--shell", "echo no; exit 9")
    name = tocsin("run", "out/bad", "--json").json["name"]
    done = tocsin("output", "--follow", name)
    assert (done.status, done.out, done.err) == (1, "no\n", "[failed: exit status 9]\n")
    assert tocsin("output", "--follow", "out/bad").out == "no\n", "the newest launch of a schedule"
    assert tocsin("output", "--follow", name, "--json").status == 1


def all_attempts_are_followed(tocsin):
    shell = 'echo "try $TOCSIN_ATTEMPT"; test $TOCSIN_ATTEMPT = 2'
    tocsin("add", "out/again", NEVER, "--retry", "2", "--backoff", "1s", "--shell", shell)
    name = tocsin("run", "out/again", "--json").json["name"]
    done = tocsin("output", "--follow", name)
    assert (done.status, done.out, done.err) == (0, "try 1\ntry 2\n", "[attempt 2]\n")


def a_launch_without_output_is_waited_for(tocsin):
    tocsin("add", "out/none", NEVER, "--null")
    name = tocsin("run", "out/none", "--json").json["name"]
    done = tocsin("output", "--follow", name)
    assert (done.status, done.out) == (0, "")
    assert "captures none" in done.err


def a_full_head_and_a_moving_tail_are_followed_without_a_byte_too_much(tocsin, following, tmp_path):
    """Three times what is kept, the next piece when the one before was seen; letters of two bytes hit the seams."""
    gate, writer = tmp_path / "gate", tmp_path / "writer.py"
    os.mkfifo(gate)
    writer.write_text(
        "import pathlib, sys\n"
        "for number in range(5):\n"
        "    sys.stdout.buffer.write(f'{number:03d} {chr(233) * 20000}\\n'.encode())\n"
        "    sys.stdout.flush()\n"
        f"    pathlib.Path({str(gate)!r}).read_text()\n"
    )
    tocsin("add", "out/long", NEVER, "--shell", f"{TOCSIN[0]} {writer}")
    live = following("output", "--follow", tocsin("run", "out/long", "--json").json["name"])
    for number in range(5):
        assert live.line() == f"{number:03d} " + "é" * 20_000 + "\n"
        gate.write_text("go on")
    assert live.rest() == (0, "", "")


def what_was_dropped_unseen_is_told(tocsin):
    tocsin("add", "out/flood", NEVER, "--shell", "seq 1 200000")
    name = tocsin("run", "out/flood", "--wait", "--json").json["name"]
    done = tocsin("output", "--follow", name)
    assert done.out.startswith("1\n2\n3\n")
    assert done.out.endswith("199999\n200000\n")
    assert re.search(r"\n\[\.\.\. \d+ bytes were not kept \.\.\.\]\n", done.out)
    assert (done.err, tocsin("output", name).out) == ("", done.out)
