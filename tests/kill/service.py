"""The service as a user runs it: a process of its own, talked to over HTTP, killed with SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.ports import own_port

PATIENCE_S = 60.0


class Service:
    """``tocsin serve`` on a data directory, started and killed as often as one likes."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.port = own_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._log = data.parent / f"{data.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tocsin", "serve", "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self.port}", *self._options]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL to the service alone: what it started lives on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the service ended with {self.process.returncode}:\n{self.log()[-3000:]}"
                )
            try:
                return self.call("GET", "/readyz", raw=True) is not None
            except (urllib.error.URLError, OSError):
                return False

        wait_for(ready, "the service to be ready")

    def call(self, method: str, path: str, body: object = None, *, raw: bool = False) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            content = answer.read()
        return content if raw else (json.loads(content) if content else None)

    def put(self, schedule: dict[str, Any]) -> None:
        self.call("PUT", "/v1/schedules/" + urllib.parse.quote(schedule["id"]), schedule)

    def launches(self, **filters: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            query = urllib.parse.urlencode({"limit": "1000", "cursor": cursor, **filters})
            page = self.call("GET", "/v1/launches?" + query)
            yield from page["items"]
            cursor = page["cursor"]
            if not cursor:
                return

    def why(self, schedule: str, instant_s: int) -> str:
        path = f"/v1/schedules/{urllib.parse.quote(schedule)}:why?at={instant_s}"
        return str(self.call("GET", path)["answer"])

    def status(self) -> dict[str, Any]:
        return dict(self.call("GET", "/v1/status"))

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def wait_for(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Ask until it is so. The pause between two questions only spares the processor."""
    pause = _Pause()
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s:.0f} s in vain for {what}")
        pause()


class _Pause:
    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def __call__(self) -> None:
        import select

        select.select([self._read], [], [], 0.02)

    def __del__(self) -> None:
        os.close(self._read)
        os.close(self._write)
