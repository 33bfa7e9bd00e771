"""Any request at all is answered, never with an error of ours: bodies, lines of an import, query strings, paths.

``tests/api/contract_test.py`` asks by the description of the service; here the questions know nothing of it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.parse
from pathlib import Path
from typing import Any

from tests.fuzz.mutation import fuzz, fuzz_behind

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_HEAD = re.compile(rb"([A-Z]+) (\S+)(?: (\S+))?")


class _Caller:
    """One connection, kept as long as it lasts. A file of the corpus is ``METHOD PATH TYPE``, then the body."""

    def __init__(self, service: Any) -> None:
        self._port = service.port
        self._connection: http.client.HTTPConnection | None = None
        self.statuses: dict[int, int] = {}

    def ask(self, raw: bytes) -> None:
        head, _, body = raw.partition(b"\n")
        found = _HEAD.match(head)
        method = found[1].decode() if found and found[1].decode() in _METHODS else "POST"
        path = _sendable(found[2] if found else head)
        kind = _sendable(found[3] or b"application/json") if found else "application/json"
        answer, content = self._answer(method, path, body, kind)
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        assert answer.status < 500, content
        if answer.status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert json.loads(content)["status"] == answer.status
            assert b"Traceback" not in content

    def _answer(
        self, method: str, path: str, body: bytes, kind: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        for _ in range(2):
            fresh = self._connection is None
            connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
            try:
                connection.request(method, path, body, {"content-type": kind})
                answer = connection.getresponse()
                is_endless = answer.headers.get("content-type", "").startswith("text/event-stream")
                content = b"" if is_endless else answer.read()
            except (http.client.HTTPException, ConnectionError):
                # It may have been closed behind the answer before; a fresh one must not be.
                connection.close()
                self._connection = None
                assert not fresh, "hung up without an answer"
                continue
            self._connection = None if is_endless or answer.will_close else connection
            if self._connection is None:
                connection.close()
            return answer, content
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _sendable(raw: bytes) -> str:
    """Any bytes, as far as a request can hold them."""
    return urllib.parse.quote(raw, safe="/:?&=%+,;@!$'()*~#[]{}|\"<>^`\\")[:6_000] or "/"


def any_request_is_answered_and_nothing_is_our_fault(start: Any, tmp_path: Path) -> None:
    """And nothing was taken that could not be read back: the journal is replayed, on an empty state."""
    service = start(tmp_path / "data")
    with contextlib.closing(_Caller(service)) as caller:
        fuzz("request", caller.ask, 500)
        fuzz_behind("request", re.compile(rb"[?\n]"), caller.ask, 8)
    assert caller.statuses.get(200, 0) > 50, "hardly anything was taken, so hardly anything was tried"
    seen = _all(service)
    assert seen
    assert service.stop() == 0
    assert "Traceback" not in service.log.read_text()
    for path in service.data.glob("state.db*"):
        path.unlink()
    again = start(service.data)
    assert _all(again) == seen
    assert again.stop() == 0


def _all(service: Any) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    cursor = ""
    while True:
        page = service.ask("GET", f"/v1/schedules?limit=500&cursor={urllib.parse.quote(cursor)}").json
        found += [(each["id"], each["version"]) for each in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            return found
