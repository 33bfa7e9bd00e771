"""Receivers that keep their own record of what reached them, apart from anything that the service says."""

from __future__ import annotations

import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    """One call that reached a receiver."""

    name: str
    attempt: int
    at_s: float
    term: int

    @property
    def schedule(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def instant_s(self) -> int:
        return int(self.name.rpartition("-")[2])


class HttpReceiver:
    """Answers slowly enough that kills fall into calls; ``/flaky`` refuses each first attempt."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                attempt, term = (int(self.headers[f"Tocsin-{name}"]) for name in ("Attempt", "Term"))
                seen = Seen(self.headers["Idempotency-Key"], attempt, time.time(), term)
                receiver.seen.append(seen)
                threading.Event().wait(zlib.crc32(f"{seen.name}{seen.attempt}".encode()) % 200 / 1000)
                status = 500 if self.path == "/flaky" and seen.attempt == 1 else 204
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The record is in ``seen``."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                """A caller that was killed in the middle of a call is what this is all about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class ExecReceiver:
    """Commands append a line to a file: small appends are atomic."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def shell(self, then: str = "") -> str:
        """A shell line that makes its mark, then does something else."""
        return f'echo "$TOCSIN_LAUNCH $TOCSIN_ATTEMPT $(date +%s.%N) $TOCSIN_TERM" >> {self.path}; {then or "true"}'

    @property
    def seen(self) -> list[Seen]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [Seen(name, int(attempt), float(at), int(term)) for name, attempt, at, term in lines]
