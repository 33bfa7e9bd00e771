"""Where NATS is and how one gets in: the settings ``nats``, ``nats_creds`` and ``nats_ca``, read once and checked."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tocsin.errors import InvalidInput

PORT = 4222
_ALLOWED = "nats://HOST:PORT or tls://HOST:PORT, several with commas"
_PART = r"-+BEGIN {}-+\s+(\S+)\s+-+END {}-+"
_JWT = re.compile(_PART.format("NATS USER JWT", "NATS USER JWT"))
_SEED = re.compile(_PART.format("USER NKEY SEED", "USER NKEY SEED"))


class Server(msgspec.Struct, frozen=True):
    """One of them. Its password is never shown."""

    host: str
    port: int
    needs_tls: bool = False
    user: str | None = None
    password: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.needs_tls else 'nats'}://{host}:{self.port}"

    __repr__ = __str__


class Access(msgspec.Struct, frozen=True):
    """All that it takes to connect."""

    servers: tuple[Server, ...]
    tls: ssl.SSLContext
    creds: Path | None = None

    def login(self, server: Server, nonce: str) -> dict[str, str]:
        """Fields of CONNECT. The file is read each time, as credentials are renewed. Raises OSError, ValueError."""
        if self.creds is not None:
            jwt, key = _read_creds(self.creds.read_text())
            signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=")
            return {"jwt": jwt, "sig": signature.decode()}
        if server.user is None:
            return {}
        if server.password is None:
            return {"auth_token": server.user}
        return {"user": server.user, "pass": server.password}


def access_of(urls: str, creds: str, ca: str) -> Access:
    """Raises InvalidInput naming the setting."""
    given = [part.strip() for part in urls.split(",") if part.strip()]
    if not given:
        raise InvalidInput("there is no address in it", field="nats", value="", allowed=_ALLOWED)
    servers = tuple(_server(number, url, needs_tls=bool(ca)) for number, url in enumerate(given, 1))
    return Access(servers, _tls(ca), _checked_creds(creds))


def _server(number: int, url: str, *, needs_tls: bool) -> Server:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _no_address(number, url) from None
    if (
        parts.scheme not in ("nats", "tls")
        or not host
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise _no_address(number, url)
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return Server(host, PORT if port is None else port, needs_tls or parts.scheme == "tls", user, password)


def _no_address(number: int, url: str) -> InvalidInput:
    # Half of a password may stand in what could not be read: then nothing of it is shown.
    is_plain = re.fullmatch(r"([A-Za-z]+://)?[^@:?#]*", url)
    return InvalidInput(
        f"address {number} cannot be used",
        field="nats",
        value=url[:200] if is_plain else "(not shown)",
        allowed=_ALLOWED,
        hint="in a user or a password, write ',' as %2C, '@' as %40, '/' as %2F",
    )


def _tls(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as wrong:  # why: an SSLError is one too
        raise _unreadable("nats_ca", ca, wrong, "a file of certificates (PEM)") from None


def _checked_creds(creds: str) -> Path | None:
    if not creds:
        return None
    path = Path(creds)
    try:
        _read_creds(path.read_text())
    except (OSError, ValueError) as wrong:
        raise _unreadable("nats_creds", creds, wrong, "a file of credentials (.creds)") from None
    return path


def _unreadable(field: str, path: str, wrong: Exception, allowed: str) -> InvalidInput:
    why = (
        wrong.strerror
        if isinstance(wrong, OSError) and wrong.strerror
        else str(wrong) or "not what it should be"
    )
    return InvalidInput(
        f"{path[:200]!r} cannot be used: {why}", field=field, value=path[:200], allowed=allowed
    )


def _read_creds(text: str) -> tuple[str, Ed25519PrivateKey]:
    """The user's JWT, and the key that proves it is his. What is wrong is told without what stands in the file."""
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise ValueError("it holds no user's JWT and NKEY seed")
    try:
        raw = base64.b32decode(seed[1] + "=" * (-len(seed[1]) % 8))
    except binascii.Error:
        raw = b""
    if (
        len(raw) != 36 or raw[0] & 0xF8 != 0x90
    ):  # why: two bytes of kind, 32 of seed, two of checksum; 'S' for seed
        raise ValueError("its NKEY seed is damaged")
    return jwt[1], Ed25519PrivateKey.from_private_bytes(raw[2:34])
