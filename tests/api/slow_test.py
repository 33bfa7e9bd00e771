"""Slow, huge and hostile connections, over real sockets, against the server that serves the API."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvloop

from tocsin.api.door.lobby import Lobby, Patience
from tocsin.api.server import make_server

QUICK = Patience(head_s=0.5, body_pause_s=0.5, unread_s=0.5, keep_alive_s=1, linger_s=0.2, connections_max=20)
PATIENT = Patience(head_s=20, body_pause_s=20, keep_alive_s=20, linger_s=0.2, connections_max=20)
GOOD = b"GET /fine HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Application:
    """Reads what comes, and says how much it was; some paths do more."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.cut_off = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/plain")]
        if scope["path"] == "/early":
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"no"})
            return
        if scope["path"] == "/think":
            await self.go_on.wait()
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.cut_off.set()
                return
            size += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/stream":
            for n in range(4):
                await asyncio.sleep(0.3)  # longer in all than any patience of the test
                await send({"type": "http.response.body", "body": b"event %d\n" % n, "more_body": True})
        if scope["path"] == "/flood":
            while not self.cut_off.is_set():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"%d bytes" % size})


class Served:
    def __init__(self, port: int, app: Application, server: Any, patience: Patience) -> None:
        self.port = port
        self.app = app
        self.server = server
        self.patience = patience

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send all of it at once; what came back until the end of the answer."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            return await _answer(reader)
        finally:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    if "content-length" in headers:
        return int(head[0].split(" ")[1]), headers, await reader.readexactly(int(headers["content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return int(head[0].split(" ")[1]), headers, body


async def _until(condition: Callable[[], bool]) -> None:
    """For what the server knows and tells nobody."""
    while not condition():  # noqa: ASYNC110  # why: uvicorn's own sets send no events
        await asyncio.sleep(0.005)


def _is_problem(found: tuple[int, dict[str, str], bytes], status: int) -> bool:
    code, headers, body = found
    assert code == status, found
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert json.loads(body)["status"] == status
    return True


@asynccontextmanager
async def _served(patience: Patience) -> AsyncIterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = Application()
        server = make_server(app, Lobby(patience))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Served(listener.getsockname()[1], app, server, patience)
        finally:
            server.end()
            await serving


def _on_the_loop_of_the_service(whole: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(whole)


def _run(patience: Patience, test: Callable[[Served], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(15), _served(patience) as served:
            await test(served)
            status, _, body = await served.ask(GOOD)
            assert (status, body) == (200, b"0 bytes"), "it goes on for others"

    _on_the_loop_of_the_service(whole())


def a_connection_that_says_nothing_is_closed():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        assert await reader.read() == b""
        writer.close()

    _run(QUICK, test)


def a_head_that_comes_byte_by_byte_is_not_waited_for():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        closed = asyncio.create_task(reader.read())
        for byte in GOOD[:-2] + b"X-Long: " + b"a" * 1000:
            writer.write(bytes([byte]))
            done, _ = await asyncio.wait([closed], timeout=0.02)
            if done:
                break
        assert closed.done(), "each byte came soon after the other, and yet it ended"
        assert closed.exception() is not None or closed.result() == b""
        writer.close()

    _run(QUICK, test)


def the_second_head_of_a_connection_is_not_waited_for_either():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(GOOD + GOOD[:20])
        assert (await _answer(reader))[0] == 200
        assert await reader.read() == b""
        writer.close()

    _run(QUICK, test)


@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def a_body_that_stops_coming_is_answered_with_408(framing):
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n\r\n5\r\nabc")
        found = await _answer(reader)
        assert _is_problem(found, 408)
        assert json.loads(found[2])["retryable"] is True
        await served.app.cut_off.wait()
        assert await reader.read() == b""
        writer.close()

    _run(QUICK, test)


def a_body_that_keeps_coming_may_take_its_time():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(6):  # longer in all than the greatest pause
            await asyncio.sleep(0.3)
            writer.write(b"5\r\nline\n\r\n")
        writer.write(b"0\r\n\r\n")
        assert (await _answer(reader))[::2] == (200, b"30 bytes")
        writer.close()

    _run(msgspec.structs.replace(QUICK, body_pause_s=1.5), test)


def a_client_is_not_blamed_for_our_own_slowness():
    """It sent more than is read ahead, and it is we who do not read on."""

    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(
            b"POST /think HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
        )
        await asyncio.sleep(1.2)  # more than its time
        served.app.go_on.set()
        assert (await _answer(reader))[::2] == (200, b"3000000 bytes")
        writer.close()

    _run(QUICK, test)


def a_client_that_waits_for_our_word_is_not_blamed():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(
            b"POST /think HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        await asyncio.sleep(1.2)  # more than its time
        served.app.go_on.set()
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"abc")
        assert (await _answer(reader))[::2] == (200, b"3 bytes")
        writer.close()

    _run(QUICK, test)


def an_answer_may_stream_longer_than_any_patience():
    async def test(served: Served) -> None:
        status, _, body = await served.ask(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status == 200
        assert body.startswith(b"event 0\nevent 1\nevent 2\nevent 3\n")

    _run(QUICK, test)


def an_answer_that_nobody_reads_is_given_up():
    async def test(served: Served) -> None:
        _, writer = await served.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # why: a socket's transport can
        writer.write(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        state = served.server.server_state
        await _until(lambda: len(state.connections) == 1)
        await _until(lambda: not state.connections)
        served.app.cut_off.set()
        writer.close()

    _run(QUICK, test)


def an_early_answer_keeps_the_connection_if_the_body_ends():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
        assert (await _answer(reader))[::2] == (403, b"no")
        writer.write(b"def" + GOOD)
        assert (await _answer(reader))[::2] == (200, b"0 bytes")
        writer.close()

    _run(PATIENT, test)


def an_early_answer_does_not_let_the_body_go_on_for_ever():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert (await _answer(reader))[0] == 403
        closed = asyncio.create_task(reader.read())
        while not closed.done():
            writer.write(b"x")
            await asyncio.wait([closed], timeout=0.02)
        writer.close()

    _run(QUICK, test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400),
        (b"\x00" * 40 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnot-a-size\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 2_000_000, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X-Many: a\r\n" * 20_000 + b"\r\n", 431),
    ],
)
def what_cannot_be_read_is_told_so_in_problem_details(request_bytes, status):
    async def test(served: Served) -> None:
        assert _is_problem(await served.ask(request_bytes), status)

    _run(PATIENT, test)


def a_head_that_comes_whole_is_measured_too():
    async def test(served: Served) -> None:
        with socket.create_connection(("127.0.0.1", served.port)) as plain:
            # Sent before the server can read any of it: it finds all of the head at once.
            plain.sendall(GOOD[:-2] + b"X-Long: " + b"a" * 45_000 + b"\r\n\r\n")
            plain.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=plain)
            assert _is_problem(await _answer(reader), 431)
            writer.close()

    _run(PATIENT, test)


def many_idle_connections_do_not_stop_a_good_one():
    """Far more than there is room for: the eldest idle ones make room."""

    async def test(served: Served) -> None:
        idle = [await served.connect() for _ in range(60)]
        for n, (_, writer) in enumerate(idle):
            if n % 2:
                writer.write(GOOD[:10])
        for _ in range(5):
            assert (await served.ask(GOOD))[0] == 200
        assert len(served.server.server_state.connections) <= 20
        for _, writer in idle:
            writer.close()

    _run(PATIENT, test)


def busy_connections_are_kept_and_a_new_one_is_told():
    async def test(served: Served) -> None:
        busy = [await served.connect() for _ in range(20)]
        for _, writer in busy:
            writer.write(b"GET /think HTTP/1.1\r\nHost: localhost\r\n\r\n")
        state = served.server.server_state
        await _until(lambda: len(state.tasks) == 20)
        reader, writer = await served.connect()
        writer.write(GOOD)
        found = await _answer(reader)
        assert _is_problem(found, 503)
        assert found[1]["retry-after"] == "1"
        assert await reader.read() == b""
        writer.close()
        reader, writer = await served.connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await _answer(reader))[0] == 200, "whoever watches over the service is answered"
        assert await reader.read() == b"", "and makes room for the next one"
        writer.close()
        served.app.go_on.set()
        for reader, writer in busy:
            assert (await _answer(reader))[0] == 200
            writer.close()

    _run(PATIENT, test)


def busy_connections_of_one_address_leave_room_for_others():
    async def test(served: Served) -> None:
        busy = [await served.connect() for _ in range(5)]
        for _, writer in busy:
            writer.write(b"GET /think HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await _until(lambda: len(served.server.server_state.tasks) == 5)
        reader, writer = await served.connect()
        writer.write(GOOD)
        assert _is_problem(await _answer(reader), 503)
        elsewhere = ("127.0.0.2", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, local_addr=elsewhere)
        writer.write(GOOD)
        assert (await _answer(reader))[0] == 200
        served.app.go_on.set()

    _run(msgspec.structs.replace(PATIENT, peer_connections_max=5), test)


def probes_are_answered_however_many_wait_in_their_place():
    async def test(served: Served) -> None:
        busy = [await served.connect() for _ in range(20)]
        for _, writer in busy:
            writer.write(b"GET /think HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await _until(lambda: len(served.server.server_state.tasks) == 20)
        idle = [await served.connect() for _ in range(2 * served.patience.probes_max)]
        reader, writer = await served.connect()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await _answer(reader))[0] == 200
        assert len(served.server.server_state.connections) <= 20 + served.patience.probes_max
        served.app.go_on.set()
        for _, writer in (*busy, *idle):
            writer.close()

    _run(msgspec.structs.replace(PATIENT, probes_max=5), test)


def slow_bodies_make_room_for_others():
    async def test(served: Served) -> None:
        slow = [await served.connect() for _ in range(20)]
        for _, writer in slow:
            writer.write(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
        await _until(lambda: len(served.server.server_state.tasks) == 20)
        await asyncio.sleep(served.patience.linger_s + 0.1)  # until then a body is not slow
        for _ in range(20):
            reader, writer = await served.connect()
            writer.write(GOOD)
            assert (await _answer(reader))[0] == 200
            writer.close()

    _run(PATIENT, test)


def the_body_of_a_login_has_a_few_seconds_in_all():
    """However many pieces it comes in."""

    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        dripping = asyncio.create_task(_drip(writer))
        assert _is_problem(await _answer(reader), 408)
        dripping.cancel()

    _run(msgspec.structs.replace(PATIENT, public_body_s=0.5), test)


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.05)


def connections_leave_half_of_the_descriptors_to_launches():
    for descriptors in (256, 1024, 4096, 1_048_576):
        patience = Patience().within(descriptors)
        assert 2 * patience.connections_max + patience.probes_max <= descriptors / 2
    assert Patience().within(1_048_576) == Patience()


def a_kept_connection_is_closed_when_nothing_more_is_asked():
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(GOOD)
        assert (await _answer(reader))[0] == 200
        assert await reader.read() == b""
        writer.close()

    _run(QUICK, test)


def the_server_ends_while_connections_are_in_every_stage():
    async def whole() -> None:
        async with asyncio.timeout(15):
            async with _served(msgspec.structs.replace(PATIENT, linger_s=2)) as served:
                idle, head, body, bad = [await served.connect() for _ in range(4)]
                head[1].write(GOOD[:10])
                body[1].write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc")
                bad[1].write(b"GARBAGE\r\n\r\n")
                assert _is_problem(await _answer(bad[0]), 400)
                assert len(served.server.server_state.connections) == 3, "the bad one is only being seen off"
                body[1].close()
            for reader, writer in (idle, head):
                assert await reader.read() == b""
                writer.close()
            bad[1].close()

    _on_the_loop_of_the_service(whole())
