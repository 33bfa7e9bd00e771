"""Which processes there are, where /proc does not show all of them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tocsin.targets.exec import processes


@pytest.fixture
def _others_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``hidepid=1``: other users' processes are listed, and cannot be read."""
    real = os.open

    def opened(path: Any, *args: Any, **named: Any) -> int:
        if path == "/proc/1/stat":
            raise PermissionError(1, "Operation not permitted", path)
        return real(path, *args, **named)

    monkeypatch.setattr(processes.os, "open", opened)


@pytest.mark.usefixtures("_others_are_hidden")
def processes_of_other_users_that_cannot_be_read_are_passed_over() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert processes.group_members(child.pid) == [child.pid]
        boot = processes.boot_id()
        own = processes.identity(boot, child.pid)
        assert own is not None
        assert processes.lives(own, boot)
        assert not processes.lives(f"{boot} 1 1", boot)
    finally:
        child.kill()
        child.wait()
    assert processes.group_members(child.pid) == []
