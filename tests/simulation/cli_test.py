"""``tocsin sim``, as a person or a program runs it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import TOCSIN, Command, Done, environment
from tests.golden.folder import HERE, Golden

from tocsin.simulation import run
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History

SHORT = ("--hours", "0.3", "--until", "0.03")
"""Of a plan for 0.3 hours the first minutes."""


@pytest.fixture
def sim() -> Callable[..., Done]:
    """In this process, which saves its start."""
    tocsin = Command(None)
    return lambda *words: tocsin("sim", *words)


def _in_a_process_of_its_own(*words: str, **more: str) -> Done:
    done = subprocess.run(
        [*TOCSIN, "sim", *words],
        capture_output=True,
        env={**environment(None), **more},
        timeout=120,
        check=False,
        text=True,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def the_same_seed_gives_the_same_trace_in_every_process(tmp_path: Path) -> None:
    found = []
    for chance in ("1", "2"):
        trace = tmp_path / chance
        words = ("--seed", "7", *SHORT, "--trace", str(trace), "--json")
        done = _in_a_process_of_its_own(*words, PYTHONHASHSEED=chance)
        assert done.status == 0, done.out
        found.append((done.json["trace"], hashlib.sha256(trace.read_bytes()).hexdigest()))
    assert found[0] == found[1]


def another_seed_gives_another_trace(sim: Callable[..., Done]) -> None:
    done = sim("--seed", "1-2", *SHORT, "--json")
    first, second = (json.loads(line) for line in done.out.splitlines())
    assert (first["seed"], second["seed"], done.status) == (1, 2, 0)
    assert first["trace"] != second["trace"]


def several_at_the_same_time_give_the_same_traces(sim: Callable[..., Done]) -> None:
    def traces(*words: str) -> dict[int, str]:
        lines = sim("--seed", "3,5", *SHORT, *words, "--json").out.splitlines()
        return {each["seed"]: each["trace"] for each in map(json.loads, lines)}

    one_by_one = traces()
    assert set(one_by_one) == {3, 5}
    assert traces("--jobs", "2") == one_by_one


def a_person_reads_a_line_a_seed(sim: Callable[..., Done]) -> None:
    done = sim("--seed", "1,4", *SHORT)
    first, second, total = done.out.splitlines()
    assert re.match(r"seed 1 +ok +\d+ claims kept  0\.\d h of 3 replicas in .*; trace [0-9a-f]{24}$", first)
    assert second.startswith("seed 4 ")
    assert total.startswith("2 seeds, ")
    assert total.endswith("all ok")


def json_says_what_happened(sim: Callable[..., Done]) -> None:
    found = sim("--seed", "1", "--hours", "0.3", "--until", "0.05", "--replicas", "5", "--json").json
    assert found.keys() >= {"seed", "ok", "hours", "seconds", "entries", "calls", "findings", "replay"}
    assert (found["ok"], found["replicas"], found["findings"], found["replay"]) == (True, 5, [], None)
    assert found["entries"] > 10
    assert found["calls"] > 0


def the_trace_is_written_line_by_line(sim: Callable[..., Done], tmp_path: Path) -> None:
    assert sim("--seed", "1", *SHORT, "--trace", str(tmp_path / "trace")).status == 0
    lines = (tmp_path / "trace").read_text().splitlines()
    assert len(lines) > 50
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S", line) for line in lines)
    assert any("took office" in line for line in lines)


def a_saved_plan_can_be_played_again(sim: Callable[..., Done], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    first = sim("--seed", "6", *SHORT, "--only", "0,1,2,11,12", "--save", str(plan), "--json")
    assert [action["number"] for action in json.loads(plan.read_bytes())["actions"]] == [0, 1, 2, 11, 12]
    again = sim("--plan", str(plan), "--json")
    assert again.json["trace"] == first.json["trace"]
    whole = sim("--seed", "6", *SHORT, "--json")
    assert whole.json["trace"] != first.json["trace"]


def without_faults_and_actions_nothing_breaks(sim: Callable[..., Done]) -> None:
    found = sim("--seed", "1", *SHORT, "--faults", "none", "--only", "none", "--json").json
    assert (found["faults"], found["commands"], found["calls"], found["ok"]) == (0, 0, 0, True)


def only_the_faults_that_were_asked_for_occur(sim: Callable[..., Done], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert sim("--seed", "1", *SHORT, "--faults", "clock,crash", "--save", str(plan)).status == 0
    saved = json.loads(plan.read_bytes())
    assert saved["faults"] == ["clock", "crash"]
    clocks, crashes = {"step", "stopped clock", "drift"}, {"crash", "power"}
    assert {each["kind"] for each in saved["actions"]} <= {"put"} | clocks | crashes


def a_broken_claim_is_told_shrunk_and_can_be_replayed(
    sim: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(history: History) -> list[Finding]:
        return [Finding(call.at_ms, f"{call.name} was called", call.name) for call in history.calls[:1]]

    claim = Checker("silence", "Nobody is ever called", told)
    monkeypatch.setattr(run, "ALL", (claim,))
    words = ("--seed", "1", "--hours", "0.3", "--until", "0.05")
    plan = tmp_path / "plan.json"
    done = sim(*words, "--save", str(plan))
    assert done.status == 1
    assert "FAILED  silence (1)" in done.out
    assert "silence: Nobody is ever called. Not so:" in done.out
    (replay,) = re.findall(r"Replay it: tocsin sim (.*)", done.out)
    kept = json.loads(plan.read_bytes())["actions"]
    assert f"--only {','.join(str(each['number']) for each in kept)}" in replay
    assert len(kept) < 5
    again = sim(*replay.split(), "--no-shrink", "--json")
    assert (again.status, again.json["ok"], again.json["findings"][0]["checker"]) == (1, False, "silence")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--seed", "x"], 1, ["--seed: 'x' is no seed", "allowed: 7, 1-20 or 3,8,40-44"]),
        (["--seed", "9-3"], 1, ["--seed: '9-3' is no seed"]),
        (["--seed", "1", "--faults", "nope"], 1, ["--faults: 'nope' is no kind of fault", "crash, pause"]),
        (["--seed", "1", "--only", "a"], 1, ["--only: 'a' are no numbers of actions", "allowed: 3,17,21"]),
        (["--plan", "/nowhere/plan"], 1, ["--plan: /nowhere/plan is no plan", "--save FILE writes one"]),
        (["--plan", os.devnull], 1, ["--plan: /dev/null is no plan"]),
        (["--for", "soon"], 1, ["--for"]),
        (["--replay", "/nowhere"], 1, ["--replay: there is no directory /nowhere"]),
        (["--replay", "/", "--plan", "x"], 1, ["--replay: a plan says itself what it goes on from"]),
        (["--hours", "0"], 2, ["--hours"]),
        (["--replicas", "0"], 2, ["--replicas"]),
        (["--hours", "x"], 2, ["--hours"]),
        (
            ["--seed", "1", *SHORT, "--trace", "/nowhere/trace"],
            1,
            ["--trace: /nowhere/trace cannot be written"],
        ),
        (["--seed", "1", *SHORT, "--save", "/nowhere/plan"], 1, ["--save: /nowhere/plan cannot be written"]),
    ],
)
def what_makes_no_sense_is_refused_in_a_sentence(
    words: list[str], status: int, told: list[str], sim: Callable[..., Done]
) -> None:
    done = sim(*words)
    assert (done.status, done.out) == (status, "")
    for each in told:
        assert each in done.err


def an_empty_directory_is_refused(sim: Callable[..., Done], tmp_path: Path) -> None:
    done = sim("--replay", str(tmp_path))
    assert (done.status, done.out) == (1, "")
    assert f"--replay: {tmp_path} holds nothing to go on from" in done.err


def a_service_goes_on_in_several_processes_at_once(tmp_path: Path) -> None:
    golden = Golden(HERE / "v1" / "first")
    data, last = golden.unpack(tmp_path / "data"), golden.expected.seq
    words = ("--replay", str(data), "--seed", "1-2", *SHORT, "--jobs", "2", "--json")
    done = _in_a_process_of_its_own(*words)
    assert done.status == 0, done.out
    assert done.err == (
        f"going on from entry {last} with 12 schedules, rebuilt from the journal's beginning and {last} entries: "
        "the same as snapshot 40, its state file\n"
    )
    assert {json.loads(line)["seed"] for line in done.out.splitlines()} == {1, 2}


def the_help_shows_examples(sim: Callable[..., Done]) -> None:
    done = sim("--help")
    assert done.status == 0
    assert "tocsin sim --seed 1-20 --hours 4" in done.out
    assert "tocsin sim --replay /backup/copy-of-data --hours 48" in done.out


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def one_that_is_ended_leaves_nobody_behind(how: signal.Signals) -> None:
    words = ["sim", "--for", "10m", "--hours", "1", "--jobs", "2"]
    running = subprocess.Popen(
        [*TOCSIN, *words], env=environment(None), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert running.stdout is not None
    assert b"claims kept" in running.stdout.readline()
    (tasks,) = Path(f"/proc/{running.pid}/task").glob(str(running.pid))
    children = [int(child) for child in (tasks / "children").read_text().split()]
    assert children
    running.send_signal(how)
    assert running.wait(20) == 130
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "whoever it started is still there"
    running.stdout.close()
