"""Floods: much of what is cheap to send and dear to take. The others go on being served, and launches on time."""

from __future__ import annotations

import base64
import json
import math
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

HEAD = b"POST /v1/schedules HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LATE_S_MAX = 1.0
"""Far more than is usual, and far less than any of these floods once cost."""


def _connected(service: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=10)


def _everything(connection: socket.socket) -> bytes:
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return found


def _sent(connection: socket.socket, data: bytes) -> bytes:
    """What came back, although the other side may stop listening in the middle."""
    with suppress(ConnectionError):
        connection.sendall(data)
    return _everything(connection)


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def _together(count: int, call: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


@contextmanager
def _on_time(service: Any) -> Iterator[None]:
    """Meanwhile nobody who asks waits for long: what an answer waits for, a launch waits for too."""
    waited_s: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            began = time.monotonic()
            is_served = service.ask("GET", "/healthz").status == 200
            waited_s.append(time.monotonic() - began if is_served else math.inf)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()
    assert 0 < max(waited_s) < LATE_S_MAX


def a_million_bytes_in_tiny_chunks_keep_nobody_waiting(service):
    def flood() -> int:
        with _connected(service) as connection:
            return _status(_sent(connection, CHUNKED + b"1\r\n \r\n" * 170_000))

    with _on_time(service):
        assert set(_together(20, flood)) == {400}


def chunks_that_are_small_but_few_are_read(service, sample):
    body = json.dumps(sample("flood/chunks")).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with _connected(service) as connection:
        connection.sendall(CHUNKED + chunks + b"0\r\n\r\n")
        assert _status(connection.recv(65536)) == 201


def a_body_in_many_pieces_comes_whole_and_in_order(service, sample):
    body = json.dumps(sample("flood/order", payload=[*range(10_000)])).encode()
    chunks = b"".join(b"28\r\n%b\r\n" % body[at : at + 40].ljust(40) for at in range(0, len(body), 40))
    with _connected(service) as connection:
        connection.sendall(CHUNKED + chunks + b"0\r\n\r\n")
        assert _status(connection.recv(65536)) == 201
    assert service.ask("GET", "/v1/schedules/flood/order").json["payload"] == [*range(10_000)]


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 200000"])
def who_is_refused_before_a_long_body_is_told_that_the_connection_ends(guarded, framing):
    with _connected(guarded) as connection:
        connection.sendall(HEAD + framing + b"\r\n\r\n")
        began = time.monotonic()
        answer = _everything(connection)
        assert _status(answer) == 401
        assert b"\r\nconnection: close\r\n" in answer
        assert time.monotonic() - began < 5, "the body is not waited for"


def who_is_refused_before_a_short_body_may_ask_again(guarded):
    with _connected(guarded) as connection:
        connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n")
        answer = b""
        while b"}" not in answer:
            answer += connection.recv(65536)
        assert _status(answer) == 401
        connection.sendall(b"{}GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert _status(connection.recv(65536)) == 200


def bodies_that_never_come_shut_nobody_out(guarded):
    with ExitStack() as opened:
        for _ in range(300):  # more than one address may have
            connection = opened.enter_context(_connected(guarded))
            with suppress(ConnectionError):  # its place may be another's already
                connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        for _ in range(5):
            assert guarded.ask("GET", "/v1/whoami").status == 200


def requests_sent_far_ahead_of_their_answers_end_the_connection(service):
    with _connected(service) as connection:
        answers = _sent(connection, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500)
    assert 4 <= answers.count(b"HTTP/1.1 200") < 50


def a_few_requests_may_be_sent_ahead(service):
    asked = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with _connected(service) as connection:
        answers = _sent(connection, (asked + b"\r\n") * 4 + asked + b"Connection: close\r\n\r\n")
    assert answers.count(b"HTTP/1.1 200") == 5


def two_ways_to_tell_the_length_of_a_body_are_refused(service):
    with _connected(service) as connection:
        answer = _sent(connection, HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert _status(answer) == 400
    assert answer.count(b"HTTP/1.1") == 1, "and the connection is closed"


def long_lists_keep_nobody_waiting(service, sample):
    service.create("flood/lists")
    nested = b"[" * 30 + b",".join([b"[]"] * 80_000) + b"]" * 30
    headers = {"content-type": "application/json"}
    preview = b'{"schedule":' + json.dumps(sample("flood/x")).encode()[:-1] + b',"payload":' + nested + b"}}"
    with _on_time(service):
        for method, path, body in (
            ("PATCH", "/v1/schedules/flood/lists", b'{"payload":' + nested + b"}"),
            ("POST", "/v1/preview", preview),
        ):
            answers = _together(8, lambda m=method, p=path, b=body: service.ask(m, p, b, headers, raw=True))
            assert {answer.status for answer in answers} == {400}
            assert {answer.json["field"] for answer in answers} == {"payload"}


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"kind": "http", "url": "http://a/", "success": ["200"] * 21}, "target.success"),
        (
            {"kind": "http", "url": "http://a/", "headers": {f"X-{n}": "" for n in range(101)}},
            "target.headers",
        ),
        ({"kind": "exec", "argv": ["a"] * 2001}, "target.argv"),
        ({"kind": "exec", "shell": "a", "env": {f"V{n}": "" for n in range(501)}}, "target.env"),
    ],
)
def a_target_has_so_many_of_everything(service, sample, target, field):
    answer = service.ask("POST", "/v1/schedules", sample("flood/many", target=target))
    assert (answer.status, answer.json["field"]) == (400, field)
    assert answer.json["allowed"].startswith("up to ")


def a_selector_has_no_more_labels_than_a_schedule(service):
    wish = {"action": "pause", "selector": {"labels": {f"k{n}": "v" for n in range(33)}}}
    answer = service.ask("POST", "/v1/bulk", wish)
    assert (answer.status, answer.json["field"]) == (400, "selector.labels")


def a_million_blank_lines_keep_nobody_waiting(service):
    with _on_time(service):
        headers = {"content-type": "application/x-ndjson"}
        answer = service.ask("POST", "/v1/import", b"\n" * 1_000_000, headers, raw=True)
    assert (answer.status, answer.json["done"]) == (200, True)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/launches", b"labc"),
        ("/v1/launches", b"l" + b"9" * 30),
        ("/v1/launches", b"l\xff\xfe"),
        ("/v1/launches", b"l-5"),
        ("/v1/launches", "l٣".encode()),
        ("/v1/history", b"rabc"),
        ("/v1/history", b"r" + b"9" * 25),
        ("/v1/schedules", b"s\xff"),
        ("/v1/schedules", b"s\x00"),
        ("/v1/schedules", b"sbilling/"),
    ],
)
def a_forged_cursor_is_refused(service, path, content):
    forged = base64.urlsafe_b64encode(zlib.crc32(content).to_bytes(4, "big") + content).rstrip(b"=").decode()
    answer = service.ask("GET", f"{path}?cursor={forged}")
    assert (answer.status, answer.json["field"]) == (400, "cursor")


def who_says_to_speak_for_others_is_not_believed(guarded):
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1", "Origin": guarded.url}
    assert guarded.ask("GET", "/v1/status", headers=headers).status == 200, "our own origin is still http"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def pages_of_other_sites_may_only_link_to_the_reference(service, site):
    headers = {"Sec-Fetch-Site": site}
    assert service.ask("GET", "/v1/schedules", headers=headers).status == 403
    assert service.ask("GET", "/docs", headers=headers).status == 200
    for own in ("same-origin", "none"):
        assert service.ask("GET", "/v1/schedules", headers={"Sec-Fetch-Site": own}).status == 200


def the_reference_shows_the_host_that_was_asked_and_nothing_else_of_it(guarded):
    def shown(host: str) -> set[str]:
        page = guarded.ask("GET", "/docs", headers={"Host": host}).body.decode()
        return set(re.findall(r"http://([^/&<]*)/v1", page))

    assert shown("tocsin.example:8400") == {"tocsin.example:8400"}
    assert shown("[::1]:8400") == {"[::1]:8400"}
    assert shown("tocsin.example;$(id)") == {"127.0.0.1:8400"}


def the_pages_are_paced_and_the_probes_are_not(start, tmp_path):
    service = start(tmp_path / "data", "--rate-limit", "2")
    assert 429 in [service.ask("GET", "/openapi.json").status for _ in range(10)]
    assert {service.ask("GET", path).status for path in ("/healthz", "/readyz") * 10} == {200}
    assert service.stop() == 0


@pytest.mark.parametrize("is_chunked", [False, True])
def the_body_of_a_login_may_have_four_kilobytes(guarded, is_chunked):
    """Anybody may send one."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = b"token=" + b"x" * 5_000
    content = iter([body]) if is_chunked else body
    assert guarded.as_("").ask("POST", "/login", content, form, raw=True).status == 413


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/login", "application/x-www-form-urlencoded"),
        ("/v1/import", "application/x-ndjson"),
        ("/v1/schedules", "application/json"),
    ],
)
def whoever_hangs_up_in_the_middle_of_a_body_leaves_no_trace_in_the_log(start, tmp_path, wait, path, kind):
    service = start(tmp_path / "data", "--tokens", "always", "--access-log")
    token = (service.data / "admin.token").read_text().strip()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: 1000\r\n\r\n"
    )
    for _ in range(3):
        with _connected(service) as connection:
            connection.sendall(head.encode() + b"a")
    wait(lambda: service.log.read_text().count(path) >= 3)
    assert "Traceback" not in service.log.read_text()
    assert "unexpected error" not in service.log.read_text()
    assert service.stop() == 0
