"""``tocsin forecast`` before a person and in a pipe, and warnings that reach whoever wrote something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.conftest import Service
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Forty at the same moment, which are as many as may be, and one elsewhere."""
    running = Service(tmp_path_factory.mktemp("crowded") / "data", "--herd-limit", "40")
    for number in range(40):
        running.create(f"billing/night/{number}", cron="0 3 * * *", labels={"team": "finance"})
    running.create("other/one", cron="0 15 * * *")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def tocsin(crowded: Service) -> Command:
    return Command(crowded.url)


def a_person_sees_bars_as_wide_as_the_window_and_the_peak(tocsin: Command) -> None:
    for columns in (70, 120):
        done = tocsin.terminal("forecast", columns=columns)
        lines = done.out.splitlines()
        (peak,) = [line for line in lines if "◀ peak" in line]
        assert len(peak) == columns
        assert " 40 " in peak
        assert "40/s" in peak
        bars = [line for line in lines if set(line) & set("▏▎▍▌▋▊▉█")]
        assert len(bars) == 2
        assert all(len(line) <= columns for line in lines[:25])


def the_worst_second_is_told_with_its_causes_and_remedies(tocsin: Command) -> None:
    done = tocsin("forecast", "--worst", "1")
    assert done.status == 0
    assert "41 launches of 41 schedules" in done.out
    assert "40 launches at " in done.out
    assert "0 3 * * * (UTC): 40" in done.out
    assert "billing/night/: 40" in done.out
    assert "team=finance: 40" in done.out
    assert "If the 40 cron schedules" in done.out
    assert "40 -> 1 launches" in done.out or "40 -> 2 launches" in done.out or "40 -> 3 launches" in done.out
    assert "overlap" in done.err


def a_program_gets_the_answer_of_the_api(tocsin: Command) -> None:
    found = tocsin("forecast", "billing/", "--from", "+1h", "--to", "7d", "--bucket", "1h", "--json").json
    assert len(found["buckets"]) in (7 * 24, 7 * 24 + 1)
    assert found["launches"] == 7 * 40
    assert found["worst"][0]["launches"] == 40


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--to", "yesterday"], "until"),
        (["--bucket", "1s", "--to", "7d"], "bucket"),
        (["--from", "soon"], "from"),
        (["no such/"], "prefix"),
    ],
)
def a_mistake_is_told_in_a_sentence(tocsin: Command, words: list[str], named: str) -> None:
    done = tocsin("forecast", *words)
    assert done.status == 1
    assert done.err.startswith(f"tocsin: {named}: ")


def whoever_writes_too_many_is_warned(tocsin: Command, tmp_path: Path) -> None:
    done = tocsin("add", "more/added", "0 3 * * *", "--null")
    assert done.status == 0
    assert "tocsin: warning: cron: 40 launches are planned" in done.err
    assert "'? ? 3 * * *'" in done.err
    file = tmp_path / "one.yaml"
    file.write_text("id: more/applied\ncron: 0 3 * * *\ntarget: {kind: 'null'}\n")
    assert "warning: cron: 41 launches" in tocsin("apply", "-f", str(file)).err
    tocsin("add", "more/free", "? ? ? * * *", "--null")
    assert "warning: cron: 42 launches" in tocsin("set", "more/free", "cron=0 3 * * *").err
    lines = tmp_path / "lines"
    target = {"kind": "null"}
    lines.write_text(json.dumps({"id": "more/line", "cron": "0 3 * * *", "target": target}) + "\n")
    done = tocsin("import", str(lines))
    assert done.status == 0
    assert "warning: 1 schedules make a second fuller" in done.err
    for id in ("added", "applied", "free", "line"):
        tocsin("rm", f"more/{id}")
