"""TLS over real sockets: what is shown, what is reloaded, what is refused, and whom the client trusts."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
import uvloop

from tocsin.api.door.lobby import Lobby, Patience
from tocsin.api.door.tls import Certificate, certificate
from tocsin.api.server import make_server, url_of
from tocsin.client import Client
from tocsin.config import Settings
from tocsin.errors import InvalidInput, Unreachable

SCHEDULES = b'{"items": [], "cursor": ""}'


class Pair(NamedTuple):
    cert: Path
    key: Path

    def settings(self) -> Settings:
        return Settings(tls_cert=str(self.cert), tls_key=str(self.key))

    def move_to(self, other: Pair) -> None:
        """As certificate managers do it: a new file takes the place of the old one."""
        os.replace(self.key, other.key)
        os.replace(self.cert, other.cert)


def _make_pair(place: Path, name: str, san: str = "DNS:localhost,IP:127.0.0.1") -> Pair:
    pair = Pair(place / f"{name}.pem", place / f"{name}.key")
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    more = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={san}"]
    files = ["-keyout", str(pair.key), "-out", str(pair.cert)]
    subprocess.run([*line, *more, *files], check=True, capture_output=True)
    return pair


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[..., Pair]:
    def make(name: str, san: str = "DNS:localhost,IP:127.0.0.1") -> Pair:
        return _make_pair(tmp_path_factory.mktemp("pair"), name, san)

    return make


class Heard:
    """An application that remembers the headers it was sent."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []
        self.schemes: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers.append(dict(scope["headers"]))
        self.schemes.append(scope["scheme"])
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(SCHEDULES))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": SCHEDULES})


class Served(NamedTuple):
    url: str
    port: int
    app: Heard
    certificate: Certificate | None


@asynccontextmanager
async def _served(pair: Pair | None, patience: Patience | None = None) -> AsyncIterator[Served]:
    shown = None if pair is None else certificate(pair.settings())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = Heard()
        server = make_server(app, Lobby(patience or Patience()), shown)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        url = url_of(listener, tls=shown is not None)
        try:
            yield Served(url, listener.getsockname()[1], app, shown)
        finally:
            server.end()
            await serving


def _run(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(15):
            await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(whole())


def _as_sent(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


async def _shown_at(port: int, name: str | None = "localhost", **limits: Any) -> bytes:
    """The certificate that a new connection is shown."""

    def look() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for limit, value in limits.items():
            setattr(context, limit, value)
        plain = socket.create_connection(("127.0.0.1", port), timeout=5)
        with plain, context.wrap_socket(plain, server_hostname=name) as connection:
            return connection.getpeercert(binary_form=True) or b""

    return await asyncio.to_thread(look)


def the_client_is_answered_over_tls(made):
    async def test() -> None:
        pair = made("service")
        async with _served(pair) as served, Client(served.url, ca=str(pair.cert), token="secret-1") as client:
            assert served.url.startswith("https://127.0.0.1:")
            assert (await client.schedule_page()).items == []
            assert served.app.schemes == ["https"]
            assert served.app.headers[0][b"authorization"] == b"Bearer secret-1"

    _run(test)


@pytest.mark.parametrize("name", ["localhost", None])
def a_new_pair_is_shown_to_new_connections_only(made, name):
    async def test() -> None:
        old, new = made("old"), made("new")
        was, will_be = _as_sent(old), _as_sent(new)
        async with _served(old) as served, Client(served.url, ca=str(old.cert)) as client:
            await client.schedule_page()
            assert await _shown_at(served.port, name) == was
            assert served.certificate is not None
            assert not served.certificate.refresh()
            new.move_to(old)
            assert served.certificate.refresh()
            assert await _shown_at(served.port, name) == will_be
            await client.schedule_page()  # on the connection that it has

    _run(test)


def a_change_is_noticed_without_being_told(made):
    async def test() -> None:
        old, new = made("old"), made("new")
        will_be = _as_sent(new)
        async with _served(old) as served:
            assert served.certificate is not None
            watching = asyncio.create_task(served.certificate.keep_fresh(every_s=0.01))
            new.move_to(old)
            while await _shown_at(served.port) != will_be:
                pass
            watching.cancel()

    _run(test)


@pytest.mark.parametrize("harm", ["other key", "no key", "gone", "garbage", "empty"])
def a_broken_new_pair_is_told_and_the_old_one_stays(made, harm):
    async def test() -> None:
        old, new = made("old"), made("new")
        was = _as_sent(old)
        named = {
            "other key": lambda: (os.replace(new.cert, old.cert), old.key)[1],
            "no key": lambda: (old.key.write_text("nothing"), old.key)[1],
            "gone": lambda: (old.cert.unlink(), old.cert)[1],
            "garbage": lambda: (old.cert.write_text("-----BEGIN CERTIFICATE-----\nx\n"), old.cert)[1],
            "empty": lambda: (old.cert.write_text(""), old.cert)[1],
        }
        async with _served(old) as served:
            assert served.certificate is not None
            file = named[harm]()
            with structlog.testing.capture_logs() as lines:
                assert not served.certificate.refresh()
                assert not served.certificate.refresh(), "the same is told once"
            assert [(line["log_level"], line["file"]) for line in lines] == [("warning", str(file))]
            assert await _shown_at(served.port) == was

    _run(test)


def a_pair_that_was_broken_for_a_moment_is_used_when_it_is_whole(made):
    async def test() -> None:
        old, new = made("old"), made("new")
        will_be = _as_sent(new)
        async with _served(old) as served:
            assert served.certificate is not None
            os.replace(new.cert, old.cert)
            assert not served.certificate.refresh()
            os.replace(new.key, old.key)
            assert served.certificate.refresh()
            assert await _shown_at(served.port) == will_be

    _run(test)


def a_pair_that_cannot_be_used_is_refused_at_the_start(made, tmp_path):
    one, other = made("one"), made("other")
    locked = tmp_path / "locked.key"
    line = ["openssl", "rsa", "-in", str(one.key), "-out", str(locked), "-aes128", "-passout", "pass:words"]
    subprocess.run(line, check=True, capture_output=True)
    for cert, key, field, told in (
        (one.cert, other.key, "tls_key", "is not the key of"),
        (tmp_path / "none", one.key, "tls_cert", "No such file"),
        (one.cert, tmp_path / "none", "tls_key", "No such file"),
        (one.cert, tmp_path, "tls_key", "Is a directory"),
        (one.key, one.key, "tls_cert", "holds no certificate"),
        (one.cert, one.cert, "tls_key", "holds no private key"),
        (one.cert, locked, "tls_key", "passphrase"),
    ):
        with pytest.raises(InvalidInput, match=told) as refused:
            Certificate(str(cert), str(key))
        assert refused.value.field == field


def one_file_of_the_pair_is_not_enough():
    for given, field in (({"tls_cert": "a"}, "tls_key"), ({"tls_key": "a"}, "tls_cert")):
        with pytest.raises(InvalidInput) as refused:
            Settings(**given).check()
        assert refused.value.field == field


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def nothing_older_than_tls_1_2_is_spoken(made):
    async def test() -> None:
        async with _served(made("service")) as served:
            v2, v1 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_1
            assert served.certificate is not None
            assert served.certificate.context.minimum_version == v2
            assert await _shown_at(served.port, maximum_version=v2)
            with pytest.raises(OSError):
                await _shown_at(served.port, minimum_version=v1, maximum_version=v1)

    _run(test)


def a_client_that_does_not_know_the_certificate_sends_nothing(made):
    async def test() -> None:
        pair, other = made("service"), made("other")
        async with _served(pair) as served:
            for ca in ("", str(other.cert)):
                async with Client(served.url, ca=ca, token="secret-1") as client:
                    with pytest.raises(Unreachable, match=r"not trusted: self.signed") as refused:
                        await client.schedule_page()
                assert "TOCSIN_CA" in refused.value.hint
                assert "secret" not in str(refused.value)
            assert served.app.headers == []

    _run(test)


def a_certificate_of_another_name_is_refused(made):
    async def test() -> None:
        pair = made("elsewhere", san="DNS:elsewhere.example")
        async with _served(pair) as served:
            async with Client(served.url, ca=str(pair.cert)) as client:
                with pytest.raises(Unreachable, match="not trusted") as refused:
                    await client.schedule_page()
                assert "name that the certificate was made for" in refused.value.hint
            async with Client(served.url, ca=str(pair.cert), any_name=True) as client:
                await client.schedule_page()

    _run(test)


def the_environment_names_certificate_and_token(made, monkeypatch):
    async def test() -> None:
        pair = made("service")
        monkeypatch.setenv("TOCSIN_CA", str(pair.cert))
        monkeypatch.setenv("TOCSIN_TOKEN", "secret-2\n")
        async with _served(pair) as served, Client(served.url) as client:
            await client.schedule_page()
            assert served.app.headers[0][b"authorization"] == b"Bearer secret-2"

    _run(test)


def a_ca_file_that_is_none_is_told(tmp_path):
    (tmp_path / "empty").write_text("")
    for path in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(InvalidInput, match="ca: "):
            Client("https://127.0.0.1:1", ca=str(path))


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "t\u00f6ken"])
def a_token_that_cannot_be_one_is_refused_and_not_shown(token):
    with pytest.raises(InvalidInput) as refused:
        Client("http://127.0.0.1:1", token=token)
    assert token not in str(refused.value)
    assert refused.value.value == "(not shown)"


@pytest.mark.parametrize(
    ("url", "is_exposed"),
    [
        ("http://127.0.0.1:1", False),
        ("http://localhost:1", False),
        ("http://[::1]:1", False),
        ("https://tocsin.example", False),
        ("http://tocsin.example", True),
        ("http://127.0.0.1:1,http://10.0.0.1:1", True),
        ("http://127.0.0.1.example", True),
    ],
)
def it_is_known_where_a_token_can_be_read_on_the_way(url, is_exposed):
    assert bool(Client(url, token="secret").exposed) is is_exposed
    assert not Client(url, token="").exposed


def a_client_that_never_shakes_hands_is_let_go(made):
    async def test() -> None:
        async with _served(made("service"), Patience(head_s=0.3)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"\x16\x03\x01")
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert await _shown_at(served.port)

    _run(test)


def plain_http_to_a_tls_port_is_no_request(made):
    async def test() -> None:
        async with _served(made("service")) as served:
            async with Client(f"http://127.0.0.1:{served.port}", token="secret") as client:
                with pytest.raises(Unreachable):
                    await client.schedule_page()
            assert served.app.headers == []

    _run(test)


def who_never_shakes_hands_is_counted_and_makes_room(made):
    """Each holds a descriptor, though nobody has heard of a request."""
    patience = Patience(head_s=20, connections_max=20, peer_connections_max=20, probes_max=5)

    async def test() -> None:
        pair = made("service")
        before = len(os.listdir("/proc/self/fd"))
        async with _served(pair, patience) as served, Client(served.url, ca=str(pair.cert)) as client:
            silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(60)]
            await client.schedule_page()
            ours = len(silent) + 1  # our own ends of them
            held = len(os.listdir("/proc/self/fd")) - before - ours
            assert held <= 2 * (patience.connections_max + patience.probes_max)
            for _, writer in silent:
                writer.close()

    _run(test)


def a_handshake_that_is_broken_off_leaves_nothing_behind(made):
    async def test() -> None:
        pair = made("service")
        async with _served(pair) as served, Client(served.url, ca=str(pair.cert)) as client:
            await client.schedule_page()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(50):
                _, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(b"this is no TLS at all\r\n\r\n")
                with suppress(ConnectionError):
                    await writer.drain()
                writer.close()
            async with asyncio.timeout(10):
                while len(os.listdir("/proc/self/fd")) > before:  # noqa: ASYNC110  # why: descriptors send no events
                    await asyncio.sleep(0.01)
            await client.schedule_page()

    _run(test)
