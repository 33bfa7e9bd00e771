"""A receiver of http launches in a process of its own: ``python -m tests.cluster.receiver HOST RECORD``.

It prints its port, and writes one line for each call into the record before it does anything else: name, attempt,
term, boot clock, and whether the work was done (``good``) or refused (``bad``). How it behaves is in the path:
``/quick``, ``/slow`` (answers after one to three seconds), ``/flaky`` (refuses each first attempt).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.cluster.checker import Call
from tests.cluster.places import Place
from tests.cluster.waiting import until

_ROOT = Path(__file__).parents[2]


class Record:
    """The calls in a file that grows. What was read once is not read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._calls: list[Call] = []
        self._read = 0

    @property
    def calls(self) -> list[Call]:
        """Whole lines only: the last one may still be on its way."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        self._calls += [Call.read(line) for line in whole.decode().splitlines()]
        return self._calls.copy()


class HttpReceiver(Record):
    """The process and its record."""

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        super().__init__(folder / "calls.log")
        host = place.host if place else "127.0.0.1"
        before = place.command if place else []
        command = [*before, sys.executable, "-m", "tests.cluster.receiver", host, str(self.path)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=_ROOT, start_new_session=True
        )
        assert self._process.stdout is not None
        port = until(self._process.stdout.readline, "the receiver's port").strip()
        self.url = f"http://{host}:{port}"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class ExecReceiver(Record):
    """Commands append a line to a file. A small append is atomic, whoever makes it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "commands.log")

    def shell(self, then: str = "", *, flaky: bool = False) -> str:
        """A line that makes its mark without starting another process. ``flaky``: each first attempt does no work."""
        good = '$([ "$TOCSIN_ATTEMPT" -gt 1 ] && echo good || echo bad)' if flaky else "good"
        mark = f'"$TOCSIN_LAUNCH $TOCSIN_ATTEMPT $TOCSIN_TERM $up {good}"'
        after = '[ "$TOCSIN_ATTEMPT" -gt 1 ]' if flaky else then or ":"
        return f"read up _ < /proc/uptime; echo {mark} >> {self.path}; {after}"


def _serve(host: str, record: str) -> None:
    descriptor = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            name, attempt = self.headers["Idempotency-Key"], int(self.headers["Tocsin-Attempt"])
            good = not (self.path == "/flaky" and attempt == 1)
            os.write(descriptor, Call(name, attempt, int(self.headers["Tocsin-Term"]), at_s, good).line())
            if self.path == "/slow":
                threading.Event().wait(1 + zlib.crc32(name.encode()) % 2000 / 1000)
            self.send_response(204 if good else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The record is in the file."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """A caller that was killed in the middle of a call is what this is all about."""

    server = Server((host, 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
