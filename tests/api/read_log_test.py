"""Who reads what commands printed is logged."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.access_test import token
from tests.api.conftest import eventually
from tests.api.logins import log_in
from tests.replica.lone import LeapClock

from tocsin.api.door.read_log import KEPT_MAX, LOGGED_EVERY_S, ReadLog
from tocsin.model.token import Caller

_OWN = pwd.getpwuid(os.getuid()).pw_name
READER = Caller("reader", frozenset({"read"}), token="0123456789ab")


def whoever_reads_an_output_is_logged_with_name_token_and_address(start: Any, tmp_path: Path) -> None:
    service = start(
        tmp_path / "data",
        "--tokens",
        "always",
        "--log-format",
        "json",
        "--allow-exec",
        "yes",
        "--exec-users",
        _OWN,
    )
    service.token = (service.data / "admin.token").read_text().strip()
    service.create("hello", target={"kind": "exec", "shell": "echo hello"})
    name = service.ask("POST", "/v1/schedules/hello:run").json["name"]
    eventually(lambda: service.ask("GET", f"/v1/launches/{name}").json["state"] == "succeeded")
    reads = token(service, "auditor", "read")
    for _ in range(3):
        assert service.as_(reads).ask("GET", f"/v1/launches/{name}:output").status == 200
    kept = {"Cookie": f"tocsin={log_in(service, reads)}"}
    assert service.as_("").ask("GET", f"/launches/{name}:part", headers=kept).status == 200
    others = token(service, "others", "read", prefixes=("b/",))
    assert service.as_(others).ask("GET", f"/v1/launches/{name}:output").status == 403
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if "output read" in line]
    assert [(line["launch"], line["by"], line["address"]) for line in lines] == [
        (name, "auditor", "127.0.0.1")
    ] * 2
    assert [line["token"] for line in lines] == [reads.split("_")[1]] * 2, "also of a session"


@pytest.mark.parametrize(("later_s", "lines"), [(LOGGED_EVERY_S - 1, 1), (LOGGED_EVERY_S + 1, 2)])
def whoever_looks_again_is_logged_again_after_a_while(later_s: float, lines: int) -> None:
    clock = LeapClock()
    reads = ReadLog(clock)
    with capture_logs() as logged:
        reads.output_read(READER, "::1", "s-1", 1)
        clock.ahead_s += later_s
        reads.output_read(READER, "::1", "s-1", 1)
    assert len(logged) == lines


def what_is_remembered_is_bounded() -> None:
    reads = ReadLog(LeapClock())
    for number in range(KEPT_MAX + 10):
        reads.output_read(READER, "::1", f"s-{number}", 1)
    assert len(reads._logged_s) == KEPT_MAX
