"""A machine whose host name changes between two starts."""

from __future__ import annotations

from pathlib import Path

from tests.kill.service import Service, wait_for

NEVER = "0 0 1 1 *"


def a_command_that_was_left_running_is_found_again_under_another_name(tmp_path: Path) -> None:
    first = Service(tmp_path / "data", "--name", "a", "--allow-exec", "yes")
    first.start()
    try:
        first.wait_ready()
        gate, began = tmp_path / "gate", tmp_path / "began"
        shell = f"echo x >> {began}; until test -e {gate}; do sleep 0.05; done"
        first.put({"id": "s", "cron": NEVER, "target": {"kind": "exec", "shell": shell}})
        first.call("POST", "/v1/schedules/s:run", {})
        wait_for(began.exists, "the command to begin")
    finally:
        first.close()
    second = Service(tmp_path / "data", "--name", "b", "--allow-exec", "yes")
    second.start()
    try:
        second.wait_ready()
        gate.touch()
        wait_for(lambda: [each["state"] for each in second.launches()] == ["succeeded"], "its end")
    finally:
        second.close()
    assert began.read_text() == "x\n"
