"""``tocsin limits``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import Command


def the_limits_are_shown_with_what_waits(
    serve: Callable[..., Any], wait: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "limits.yaml").write_text("- {label: team, rate: 1/d}\n- {target: exec, concurrency: 4}\n")
    serving = serve("--json", "--data", str(tmp_path / "data"), "--limits", str(tmp_path / "limits.yaml"))
    tocsin = Command(json.loads(serving.greeting)["url"])
    due_s = int(time.time()) + 1
    for id in ("a", "b", "c"):
        assert tocsin("add", id, f"@at {due_s}", "--null", "--label", "team=payroll").status == 0
    # One has been launched, and its end is written down: from then on the figures stay.
    wait(lambda: "succeeded" in tocsin("launches").out)
    wait(lambda: _of_first(tocsin) == (2, 0))
    shown = tocsin("limits")
    assert shown.status == 0
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["LIMIT", "RATE", "BURST", "AT", "ONCE", "STARTS", "UNDER", "WAY", "WAITING"]
    assert lines[1][:4] == ["team", "1/d", "1", "any"]
    assert lines[1][-1] == "2"
    assert lines[2] == ["team=payroll", "0", "2"]
    assert lines[3][:3] == ["exec", "any", "4"]
    told = tocsin("why", "c").out
    assert "It waits: the limit team 1/d is reached." in told


def a_service_without_limits_says_how_to_set_some(tocsin: Command) -> None:
    shown = tocsin("limits")
    assert shown.status == 0
    assert "tocsin serve --limits FILE" in shown.err + shown.out


def _of_first(tocsin: Command) -> tuple[int, int]:
    limit = tocsin("limits", "--json").json["items"][0]
    return limit["waiting"], limit["under_way"]
