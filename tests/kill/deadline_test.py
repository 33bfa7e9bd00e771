"""Commands with a deadline, a SIGKILL in the middle of them, and a restart long after it: what runs is on time, and
what the record says of it is what the commands themselves saw."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from tests.kill.receiver import ExecReceiver, Seen
from tests.kill.service import Service, wait_for

COUNT = 400
DEADLINE_S = 4
AWAY_S = 8


class Aftermath(NamedTuple):
    seen: dict[str, Seen]
    launches: dict[str, dict[str, Any]]
    at_s: int


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    folder = tmp_path_factory.mktemp("deadline")
    commands = ExecReceiver(folder / "commands.log")
    service = Service(folder / "data")
    try:
        service.start()
        service.wait_ready()
        at_s = int(time.time()) + 10
        target = {"kind": "exec", "shell": commands.shell("")}
        common = {"cron": f"@at {at_s}", "target": target, "deadline": f"{DEADLINE_S}s"}
        _import(service, [{"id": f"late/{number}", **common} for number in range(COUNT)])
        assert time.time() < at_s, "this machine is too slow for this test"
        wait_for(lambda: len(commands.seen) >= 20, "the first commands")
        service.kill()
        wait_for(lambda: time.time() > at_s + AWAY_S, "the deadline to have passed")
        service.start()
        service.wait_ready()
        wait_for(lambda: service.status()["open"] == 0 and _all(service), "every launch to end")
        launches = {launch["name"]: launch for launch in service.launches()}
        yield Aftermath({seen.name: seen for seen in commands.seen}, launches, at_s)
    finally:
        service.close()


def _import(service: Service, schedules: list[dict[str, Any]]) -> None:
    lines = "\n".join(map(json.dumps, schedules)).encode()
    request = urllib.request.Request(
        service.url + "/v1/import", lines, {"Content-Type": "application/x-ndjson"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def _all(service: Service) -> bool:
    return len(list(service.launches())) == COUNT


def the_kill_hit_them_in_the_middle(aftermath: Aftermath) -> None:
    assert 20 <= len(aftermath.seen) < COUNT


def no_command_began_behind_its_deadline(aftermath: Aftermath) -> None:
    late = [seen for seen in aftermath.seen.values() if seen.at_s > aftermath.at_s + DEADLINE_S + 0.5]
    assert late == []


def what_did_not_begin_is_recorded_as_skipped_for_its_deadline(aftermath: Aftermath) -> None:
    for name, launch in aftermath.launches.items():
        if name not in aftermath.seen:
            assert launch["state"] == "skipped", launch
            assert launch["reason"].startswith("deadline"), launch
            assert (launch["started_at"], launch["lateness_ms"]) == (None, None), launch


def what_began_is_recorded_with_the_moment_at_which_it_did(aftermath: Aftermath) -> None:
    for name, seen in aftermath.seen.items():
        launch = aftermath.launches[name]
        assert launch["state"] == "succeeded", launch
        started_s = datetime.fromisoformat(launch["started_at"]).timestamp()
        assert abs(started_s - seen.at_s) < 0.5, (launch, seen)
