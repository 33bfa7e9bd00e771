"""How a connection to a NATS server begins: it says what it is, we say who we are."""

from __future__ import annotations

import asyncio
import secrets

import msgspec

from tocsin import __version__
from tocsin.targets.nats.settings import Access, Server
from tocsin.targets.nats.wire import READ_BYTES, Connection
from tocsin.targets.nats.words import said_in, why_of

CONNECT_S = 3.0


class Info(msgspec.Struct, frozen=True):
    """What a server says of itself, as far as it matters here."""

    max_payload: int = 1024 * 1024
    nonce: str = ""
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False


class NotConnected(Exception):
    """Why not, in words that may be shown."""


async def connect(server: Server, access: Access) -> Connection:
    """Raises NotConnected."""
    try:
        async with asyncio.timeout(CONNECT_S):
            return await _connect(server, access)
    except TimeoutError:
        raise NotConnected(f"{server} does not answer within {CONNECT_S:g}s") from None
    except (OSError, ValueError) as wrong:
        raise NotConnected(f"{server}: {why_of(wrong)}") from None


async def _connect(server: Server, access: Access) -> Connection:
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=READ_BYTES)
    try:
        info = _info(await reader.readline(), server)
        if not info.headers:
            raise NotConnected(f"{server} is too old: it knows no headers")
        if server.needs_tls and not (info.tls_required or info.tls_available):
            raise NotConnected(f"{server} offers no TLS")
        if server.needs_tls or info.tls_required:
            await writer.start_tls(access.tls, server_hostname=server.host)
        inbox = f"_INBOX.{secrets.token_hex(11)}."
        writer.write(_greeting(server, access, info, inbox))
        await _welcome(reader, server)
        return Connection(reader, writer, info.max_payload, inbox)
    except BaseException:
        writer.close()
        raise


def _info(line: bytes, server: Server) -> Info:
    if not line.startswith(b"INFO "):
        raise NotConnected(f"{server} does not speak as NATS does")
    return msgspec.json.decode(line[5:], type=Info)


def _greeting(server: Server, access: Access, info: Info, inbox: str) -> bytes:
    options = {
        "verbose": False,
        "pedantic": False,
        "lang": "tocsin",
        "version": __version__,
        "name": "tocsin",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "echo": False,
        **access.login(server, info.nonce),
    }
    return b"CONNECT %b\r\nSUB %b* 1\r\nPING\r\n" % (msgspec.json.encode(options), inbox.encode())


async def _welcome(reader: asyncio.StreamReader, server: Server) -> None:
    while line := await reader.readline():
        if line.startswith(b"PONG"):
            return
        if line.startswith(b"-ERR"):
            raise NotConnected(f"{server} refuses: {said_in(line)}")
    raise NotConnected(f"{server} closed the connection")
