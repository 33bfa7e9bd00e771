"""The HTTP target against real servers on loopback, well-behaved (aiohttp) and not (raw sockets)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from tests.receivers import full_port

from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets import http
from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.http import HttpTarget
from tocsin.targets.message import _signature
from tocsin.testing.targets import order_for

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def _opened() -> AsyncIterator[HttpTarget]:
    target = HttpTarget()
    await target.start()
    try:
        yield target
    finally:
        await target.stop()


@asynccontextmanager
async def _raw_server(talk: Talk, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async def close_after(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(close_after, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def _whole_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head + await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)


async def _call(url: str, **spec: Any) -> Outcome:
    changes = {key: spec.pop(key) for key in ("timeout_s", "payload") if key in spec}
    async with _opened() as target:
        return await target.launch(order_for(HttpSpec(url=url, **spec), **changes))


async def _received(**spec: Any) -> tuple[web.Request, bytes]:
    """Make one call and return what the server saw of it."""
    seen: list[tuple[web.Request, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request, await request.read()))
        return web.Response()

    async with _server(handle) as base:
        outcome = await _call(base, **spec)
    assert outcome.verdict is Verdict.SUCCEEDED, outcome
    [only] = seen
    return only


@asynccontextmanager
async def _server(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def the_event_and_its_headers_name_the_launch() -> None:
    async def test() -> None:
        request, body = await _received(payload=b'{"company": 7}')
        assert json.loads(body) == {
            "id": "suite/one-1700000000",
            "generated_at": "2023-11-14T22:13:20.123Z",
            "schedule_id": "suite/one",
            "payload": {"company": 7},
        }
        expected = {
            "Content-Type": "application/json",
            "Idempotency-Key": "suite/one-1700000000",
            "Tocsin-Attempt": "1",
            "Tocsin-Term": "7",
            "Tocsin-Scheduled-At": "2023-11-14T22:13:20Z",
            "ce-specversion": "1.0",
            "ce-id": "suite/one-1700000000",
            "ce-source": "/tocsin",
            "ce-type": "tocsin.launch",
            "ce-subject": "suite/one",
            "ce-time": "2023-11-14T22:13:20Z",
        }
        assert {name: request.headers.get(name) for name in expected} == expected
        assert "Tocsin-Signature" not in request.headers

    _run(test)


def the_owner_may_choose_body_and_type_but_not_the_name() -> None:
    async def test() -> None:
        headers = {
            "content-type": "text/csv",
            "idempotency-key": "forged",
            "Host-Hint": "x",
            "Content-Length": "1",
        }
        request, body = await _received(body="a;b {{not}} a template", headers=headers, method="PUT")
        assert (request.method, body) == ("PUT", b"a;b {{not}} a template")
        assert request.headers["Content-Type"] == "text/csv"
        assert request.headers.getall("Idempotency-Key") == ["suite/one-1700000000"]
        assert request.headers["Host-Hint"] == "x"

    _run(test)


def a_get_has_no_body_unless_one_is_given() -> None:
    async def test() -> None:
        request, body = await _received(method="GET")
        assert (request.method, body) == ("GET", b"")
        assert "Content-Type" not in request.headers

    _run(test)


@pytest.mark.parametrize("kind", ["env", "file"])
def a_secret_signs_the_time_the_launch_and_the_body(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hush")
    (tmp_path / "secret").write_text("hush\n")
    reference = "env:HOOK_SECRET" if kind == "env" else f"file:{tmp_path}/secret"

    async def test() -> None:
        request, body = await _received(secret=reference)
        at, _, signature = request.headers["Tocsin-Signature"].partition(",")
        signed = at.removeprefix("t=").encode() + b"\nsuite/one-1700000000\n" + body
        assert signature == "v3=" + hmac.new(b"hush", signed, hashlib.sha256).hexdigest()

    _run(test)


def no_other_name_and_body_have_the_same_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a text that joins them by what both may hold, part of one could be passed off as part of the other."""
    monkeypatch.setenv("HOOK_SECRET", "hush")
    seen = set()
    for name, body in [("a.b-1", b"c"), ("a", b"b-1.c"), ("a", b"b-1\nc"), ("a.b-1.c", b"")]:
        seen.add(_signature(name, body, [b"hush"], 1_700_000_000))
    assert len(seen) == 4


def while_a_secret_is_replaced_both_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEW", "new")
    monkeypatch.setenv("OLD", "old")

    async def test() -> None:
        request, body = await _received(secret="env:NEW", old_secret="env:OLD")
        at, *signatures = request.headers["Tocsin-Signature"].split(",")
        signed = at.removeprefix("t=").encode() + b"\nsuite/one-1700000000\n" + body
        assert signatures == [f"v3={hmac.new(key, signed, 'sha256').hexdigest()}" for key in (b"new", b"old")]

    _run(test)


def values_by_reference_are_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "to/k&en #1")
    (tmp_path / "key").write_text("s3cret\n")
    seen: list[web.Request] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(status=401, text=f"not with {request.headers['X-Key'][:5]}...")

    async def test() -> None:
        async with _server(handle) as base:
            outcome = await _call(
                base + "p?t=${env:HOOK_TOKEN}&u=1",
                headers={"Authorization": "Bearer ${env:HOOK_TOKEN}", "X-Key": f"${{file:{tmp_path}/key}}"},
            )
        (request,) = seen
        assert request.query == {"t": "to/k&en #1", "u": "1"}
        assert request.headers["Authorization"] == "Bearer to/k&en #1"
        assert request.headers["X-Key"] == "s3cret"
        assert outcome.reason == "HTTP 401: the answer is not shown, because the call carried a secret"

    _run(test)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n"]
)
def an_answer_that_is_not_http_shows_neither_itself_nor_the_address(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "to/k&en")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async def test() -> None:
        async with _raw_server(talk) as base:
            outcome = await _call(base + "?t=${env:HOOK_TOKEN}", method="GET")
        expected = "no answer: what came back is not HTTP"
        assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, expected)

    _run(test)


@pytest.mark.parametrize("value", ["two\nlines", "nul\0", "\udcff"])
def a_value_that_cannot_be_sent_is_told_without_the_value(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_bytes(value.encode(errors="surrogateescape"))

    async def test() -> None:
        outcome = await _call("http://127.0.0.1:1/", headers={"X-Key": f"${{file:{tmp_path}/key}}"})
        assert outcome.verdict is Verdict.NOT_STARTED
        assert outcome.permanent
        assert outcome.reason == f"the secret file:{tmp_path}/key holds characters that cannot be sent"

    _run(test)


def an_answer_that_is_no_error_is_not_shown_whatever_counts_as_success() -> None:
    """Otherwise a strange list of statuses would make any address readable."""

    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            return web.Response(status=int(request.path[1:]), text="inner secret")

        async with _server(handle) as base:
            for status in (200, 204, 304):
                assert (await _call(f"{base}{status}", success=("418",))).reason == f"HTTP {status}"
            assert (await _call(f"{base}500", success=("418",))).reason == "HTTP 500: inner secret"

    _run(test)


@pytest.mark.parametrize("reference", ["env:NO_SUCH_SECRET", "file:/no/such/secret"])
def without_its_secret_a_call_is_never_made(reference: str) -> None:
    async def test() -> None:
        outcome = await _call("http://127.0.0.1:1/", secret=reference)
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, reference.startswith("env:"))
        assert reference in outcome.reason

    _run(test)


@pytest.mark.parametrize(
    ("status", "verdict", "permanent"),
    [
        (200, Verdict.SUCCEEDED, False),
        (204, Verdict.SUCCEEDED, False),
        (301, Verdict.FAILED, True),
        (307, Verdict.FAILED, True),
        (400, Verdict.FAILED, True),
        (404, Verdict.FAILED, True),
        (408, Verdict.FAILED, False),
        (425, Verdict.FAILED, False),
        (429, Verdict.FAILED, False),
        (500, Verdict.FAILED, False),
        (502, Verdict.UNKNOWN, False),
        (504, Verdict.UNKNOWN, False),
        (503, Verdict.FAILED, False),
    ],
)
def a_status_says_how_it_ended(status: int, verdict: Verdict, permanent: bool) -> None:
    calls = 0

    async def handle(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async def test() -> None:
        async with _server(handle) as base:
            outcome = await _call(base)
        assert (outcome.verdict, outcome.permanent, outcome.exit_code) == (verdict, permanent, status)
        assert outcome.ended_ms is not None
        assert calls == 1  # a redirect is an answer, not an order to call again

    _run(test)


def the_owner_says_what_counts_as_success() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=409)

    async def test() -> None:
        async with _server(handle) as base:
            assert (await _call(base, success=("2xx", "409"))).verdict is Verdict.SUCCEEDED
            assert (await _call(base, success=("200",))).verdict is Verdict.FAILED

    _run(test)


def a_little_of_the_answer_tells_why() -> None:
    async def handle(request: web.Request) -> web.Response:
        text = "no\x1b[31m such\x00 table" if request.path == "/odd" else "x" * 100_000
        return web.Response(status=500, text=text)

    async def test() -> None:
        async with _server(handle) as base:
            assert (await _call(base + "odd")).reason == "HTTP 500: no[31m such table"
            assert len((await _call(base)).reason) < 400

    _run(test)


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize("idempotent", [False, True])
def a_request_whose_answer_never_came_is_unknown_and_sent_once(method: str, idempotent: bool) -> None:
    requests: list[bytes] = []

    async def read_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await _whole_request(reader))

    async def test() -> None:
        async with _raw_server(read_and_close) as url:
            outcome = await _call(url, method=method, idempotent=idempotent)
        assert outcome.verdict is Verdict.UNKNOWN, outcome
        assert len(requests) == 1

    _run(test)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def a_kept_connection_that_closes_under_a_request_is_not_tried_twice(method: str) -> None:
    requests: list[bytes] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await _whole_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        requests.append(await _whole_request(reader))

    async def test() -> None:
        async with _raw_server(answer_once) as url, _opened() as target:
            spec = HttpSpec(url=url, method=method, idempotent=True)
            assert (await target.launch(order_for(spec))).verdict is Verdict.SUCCEEDED
            outcome = await target.launch(order_for(spec, "suite/two-1"))
            assert outcome.verdict is Verdict.UNKNOWN
        assert len(requests) == 2

    _run(test)


def only_an_idempotent_receiver_is_called_over_a_kept_connection() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while not reader.at_eof():
            try:
                await _whole_request(reader)
            except asyncio.IncompleteReadError:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def test() -> None:
        nonlocal connections
        async with _raw_server(answer) as url, _opened() as target:
            for idempotent, expected in ((True, 1), (False, 3)):
                connections = 0
                for number in range(3):
                    spec = HttpSpec(url=url, idempotent=idempotent)
                    outcome = await target.launch(order_for(spec, f"suite/kept-{number}"))
                    assert outcome.verdict is Verdict.SUCCEEDED
                assert connections == expected

    _run(test)


def an_answer_that_is_no_http_is_unknown() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _whole_request(reader)
        writer.write(b"220 mail.example ESMTP\r\n")

    async def test() -> None:
        async with _raw_server(talk) as url:
            assert (await _call(url)).verdict is Verdict.UNKNOWN

    _run(test)


def a_status_counts_even_if_the_rest_of_the_answer_is_lost() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _whole_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")

    async def test() -> None:
        async with _raw_server(talk) as url:
            assert (await _call(url)).verdict is Verdict.SUCCEEDED

    _run(test)


def silence_is_unknown_not_failed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        async with _raw_server(talk) as url:
            outcome = await _call(url, timeout_s=0.2)
        assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "no answer within 0.2s")

    _run(test)


def _run_and_stand_still(answer: bytes, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Outcome:
    """One call with a time-out that ends while nothing else can happen in this process."""

    async def answer_and_stand_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _whole_request(reader)
        writer.write(answer[:9])
        threading.Event().wait(0.5)
        for _ in range(10):  # it takes some turns to read it all
            await asyncio.sleep(0)
        writer.write(answer[9:])
        await reader.read()

    async def call() -> Outcome:
        async with asyncio.timeout(20), _raw_server(answer_and_stand_still) as url:
            return await _call(url, timeout_s=0.1)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(call())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def an_answer_that_came_while_the_process_stood_still_beyond_the_time_out_is_read(
    monkeypatch: pytest.MonkeyPatch, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    monkeypatch.setattr(http, "_LATE_S", 0.1)
    outcome = _run_and_stand_still(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", loop_factory)
    assert outcome.verdict is Verdict.SUCCEEDED, outcome


def silence_beyond_a_time_out_that_was_noticed_late_is_told_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_LATE_S", 0.1)
    monkeypatch.setattr(http, "_READ_S", 0.2)
    outcome = _run_and_stand_still(b"", asyncio.new_event_loop)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason.startswith("no answer within ")
    assert outcome.reason.endswith(
        "s (the process stood still, or was busy, when the time-out of 0.1s was over)"
    )


def the_shorter_of_both_time_outs_counts() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        async with _raw_server(talk) as url:
            outcome = await _call(url, timeout="1s", timeout_s=3600.0)
        assert outcome.reason == "no answer within 1s"

    _run(test)


def a_host_without_an_address_is_not_started() -> None:
    async def test() -> None:
        outcome = await _call("http://no-such-host.invalid/hook?token=hush")
        assert outcome.verdict is Verdict.NOT_STARTED
        assert "no-such-host.invalid" in outcome.reason
        assert "hush" not in outcome.reason

    _run(test)


def a_tls_handshake_that_fails_is_not_started(tmp_path: Path) -> None:
    files = ("-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate"))
    line = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*line.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.read())

    async def test() -> None:
        async with _raw_server(talk, context) as url:
            outcome = await _call(url.replace("http:", "https:"))
        assert outcome.verdict is Verdict.NOT_STARTED, outcome
        assert "not trusted" in outcome.reason
        async with _raw_server(talk) as url:  # answers nothing to the greeting
            outcome = await _call(url.replace("http:", "https:"), timeout_s=0.2)
        assert (outcome.verdict, outcome.reason) == (Verdict.NOT_STARTED, "no connection within 0.2s")

    _run(test)


def an_address_that_cannot_be_used_is_not_started() -> None:
    async def test() -> None:
        outcome = await _call("http://user:pw@127.0.0.1/", headers={"Authorization": "Bearer x"})
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
        assert "pw" not in outcome.reason

    _run(test)


def a_call_cancelled_before_it_was_connected_was_none() -> None:
    async def test() -> None:
        with full_port() as port:
            async with _opened() as target:
                order = order_for(HttpSpec(url=f"http://127.0.0.1:{port}/"))
                call = asyncio.create_task(target.launch(order))
                await asyncio.wait([call], timeout=0.3)
                await target.cancel(order)
                outcome = await call
        assert (outcome.verdict, outcome.is_uncalled) == (Verdict.CANCELLED, True)
        assert outcome.called_ms is None

    _run(test)


def a_call_that_a_stopping_service_lets_go_before_it_was_connected_is_for_the_next_one() -> None:
    async def test() -> None:
        with full_port() as port:
            async with _opened() as target:
                call = asyncio.create_task(
                    target.launch(order_for(HttpSpec(url=f"http://127.0.0.1:{port}/")))
                )
                await asyncio.wait([call], timeout=0.3)
                call.cancel()
                outcome = await call
        assert outcome.is_too_late
        assert outcome.called_ms is None

    _run(test)


def a_leader_that_resigns_revokes_what_has_not_gone_out_and_nothing_else() -> None:
    async def test() -> None:
        reached, may_answer = asyncio.Event(), asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _whole_request(reader)
            reached.set()
            await may_answer.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        with full_port() as port:
            async with _raw_server(talk) as url, _opened() as target:
                sent = asyncio.create_task(target.launch(order_for(HttpSpec(url=url), name="suite/sent-1")))
                unsent = asyncio.create_task(
                    target.launch(order_for(HttpSpec(url=f"http://127.0.0.1:{port}/")))
                )
                await reached.wait()
                await asyncio.wait([unsent], timeout=0.3)
                target.revoke_unsent()
                assert (await unsent).is_too_late
                may_answer.set()
                assert (await sent).verdict is Verdict.SUCCEEDED

    _run(test)


def a_call_cancelled_in_flight_says_that_it_may_have_been_received() -> None:
    async def test() -> None:
        reached = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _whole_request(reader)
            reached.set()
            await reader.read()

        async with _raw_server(talk) as url, _opened() as target:
            order = order_for(HttpSpec(url=url))
            call = asyncio.create_task(target.launch(order))
            await reached.wait()
            await target.cancel(order)
            outcome = await call
            assert outcome.verdict is Verdict.CANCELLED
            assert "may have acted" in outcome.reason
            assert not outcome.is_uncalled
            assert not target._pending

    _run(test)
