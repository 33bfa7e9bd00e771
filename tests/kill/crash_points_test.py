"""SIGKILL at each dangerous moment of a launch, one by one, and what must become of each kind of target."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kill.crasher import POINTS
from tests.kill.receiver import ExecReceiver, HttpReceiver

_KINDS = ("exec-skip", "exec-relaunch", "http-skip", "http-relaunch", "http-idempotent")


@pytest.fixture
def calls() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    yield receiver
    receiver.close()


def _schedules(commands: ExecReceiver, calls: HttpReceiver) -> list[dict[str, Any]]:
    """All due in the same second, so that they share one entry."""
    at = f"@at {int(time.time()) + 7}"  # a process that starts on a busy machine takes seconds
    command = {"kind": "exec", "shell": commands.shell()}
    call = {"kind": "http", "url": calls.url}
    return [
        {"id": "exec-skip", "cron": at, "target": command},
        {"id": "exec-relaunch", "cron": at, "target": command, "on_doubt": "relaunch"},
        {"id": "http-skip", "cron": at, "target": call},
        {"id": "http-relaunch", "cron": at, "target": call, "on_doubt": "relaunch"},
        {"id": "http-idempotent", "cron": at, "target": {**call, "idempotent": True}},
    ]


def _run(point: str, data: Path, schedules: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.kill.crasher", point, str(data), str(schedules)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=root)


def _crash_and_recover(
    points: list[str], tmp_path: Path, calls: HttpReceiver
) -> tuple[dict[str, list[Any]], Counter[str]]:
    commands = ExecReceiver(tmp_path / "commands.log")
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps(_schedules(commands, calls)))
    for point in points:
        crashed = _run(point, tmp_path / "data", file)
        assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    recovered = _run("none", tmp_path / "data", file)
    assert recovered.returncode == 0, recovered.stderr
    found: dict[str, list[Any]] = json.loads(recovered.stdout.splitlines()[-1])
    effects = Counter(seen.schedule for seen in [*commands.seen, *calls.seen])
    return found, effects


@pytest.mark.parametrize("point", POINTS)
def a_kill_at_this_moment_neither_doubles_nor_loses(point: str, tmp_path: Path, calls: HttpReceiver) -> None:
    found, effects = _crash_and_recover([point], tmp_path, calls)
    assert set(found) == set(_KINDS)
    for kind in ("exec-skip", "exec-relaunch"):
        assert (found[kind][0], effects[kind]) == ("succeeded", 1), (kind, found[kind])
    for kind in ("http-relaunch", "http-idempotent"):
        assert found[kind][0] == "succeeded"
        assert effects[kind] >= 1
    assert effects["http-skip"] <= 1
    if found["http-skip"][0] == "succeeded":
        assert effects["http-skip"] == 1
    else:
        assert found["http-skip"][0] == "in_doubt"
        assert "cannot be known" in found["http-skip"][2]


def before_anything_is_written_nothing_has_happened(tmp_path: Path, calls: HttpReceiver) -> None:
    found, effects = _crash_and_recover(["before the start is written"], tmp_path, calls)
    assert {kind: found[kind][0] for kind in _KINDS} == dict.fromkeys(_KINDS, "succeeded")
    assert effects == Counter(dict.fromkeys(_KINDS, 1))


def an_http_call_that_was_never_made_is_still_in_doubt_under_skip(
    tmp_path: Path, calls: HttpReceiver
) -> None:
    """The price of never launching twice: from outside, a call not made and a call not recorded look alike."""
    point = "after the start is durable, before it is applied"
    found, effects = _crash_and_recover([point], tmp_path, calls)
    assert found["http-skip"][0] == "in_doubt"
    assert effects["http-skip"] == 0


def a_second_kill_during_the_conclusion_changes_nothing(tmp_path: Path, calls: HttpReceiver) -> None:
    points = ["after the target was called, before its outcome is written", *["during the conclusion"] * 3]
    found, effects = _crash_and_recover(points, tmp_path, calls)
    for kind in ("exec-skip", "exec-relaunch"):
        assert (found[kind][0], effects[kind]) == ("succeeded", 1)
    assert effects["http-skip"] <= 1
    assert found["http-idempotent"][0] == "succeeded"
