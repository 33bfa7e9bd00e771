"""The benchmarks tell what they measured, and what they could not. How fast anything is, is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.table import OURS, Report

_ROOT = Path(__file__).parents[1]


def a_ratio_tells_how_many_times_better_tocsin_is() -> None:
    report = Report()
    report.add("drain", OURS, 100.0, "launches/s")
    report.add("drain", "peer", 25.0, "launches/s")
    report.add("drain", "limit", 400.0, "launches/s", is_limit=True)
    report.add("lateness", OURS, 5.0, "ms", less_is_better=True)
    report.add("lateness", "peer", 20.0, "ms", less_is_better=True)
    text = report.text()
    assert "| peer |  | 25.0 | 4x |" in text
    assert "| limit |  | 400 | 25% of it |" in text
    assert "| peer |  | 20.0 | 4x |" in text


def a_goal_tells_how_far_it_was_reached_and_what_was_not_measured_is_no_miss() -> None:
    report = Report()
    report.goal("rate", 60.0, 50.0, "/s")
    report.goal("late", 20.0, 10.0, "ms", less=True)
    report.goal("absent", None, 1.0, "/s")
    assert [(goal.ratio, goal.is_met) for goal in report.goals] == [(1.2, True), (0.5, False), (None, None)]
    assert "MISSED" in report.text()
    assert "not measured" in report.text()


def a_scenario_measures_a_real_service_and_writes_what_it_found(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    words = ["exec", "--commands", "20", "--json", str(found), "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(found.read_text())
    assert told["notes"] == [], done.stdout
    ours, limit, *_ = told["figures"]
    assert ours["who"] == OURS
    assert ours["size"] == 20
    assert ours["value"] > 0
    assert limit["is_limit"]
    assert told["goals"][0]["text"] == "commands (true), exit status and output recorded"


def retention_deletes_what_is_too_much_while_a_real_service_launches(tmp_path: Path) -> None:
    """The scenario in small: 240 schedules at their limit."""
    found = tmp_path / "found.json"
    words = [
        "retention",
        "--retention-schedules",
        "240",
        "--retention-each",
        "50",
        "--retention-seconds",
        "15",
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench",
            *words,
            "--without-cluster",
            "--json",
            str(found),
            "--folder",
            str(tmp_path),
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(found.read_text())
    assert told["notes"] == [], done.stdout
    more = told["figures"][0]["more"]
    assert more["deleted"] > 0, more
    assert more["deleted"] >= more["launched"] // 4, more
    assert (more["leader_changes"], more["absences"], more["missed"]) == (0, 0, 0), more
    assert more["kept"] <= 240 * 50 + more["launched"] - more["deleted"] + 240, more
