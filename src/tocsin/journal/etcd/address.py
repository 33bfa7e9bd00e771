"""``etcd://[user[:password]@]host[:port],...[/prefix][?ca=&cert=&key=&tls=yes&password_file=]``"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from tocsin.errors import InvalidInput, cuts_a_password
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint

DEFAULT_PREFIX = "/tocsin/default"
_PORT = 2379
_ALLOWED = "etcd://[user[:password]@]host[:port],...[/prefix][?ca=FILE&cert=FILE&key=FILE&tls=yes&password_file=FILE]"
_OPTIONS = frozenset({"ca", "cert", "key", "tls", "password_file"})


class EtcdAddress(NamedTuple):
    """Where an etcd is and how to get in. Its ``repr`` keeps the password."""

    endpoints: tuple[Endpoint, ...]
    prefix: str
    user: str
    password: str
    tls: bool
    ca: str
    cert: str
    key: str

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """For people: without the password."""
        user = f"{self.user}@" if self.user else ""
        return f"etcd://{user}{','.join(str(endpoint) for endpoint in self.endpoints)}{self.prefix}"

    def client(self) -> EtcdClient:
        context = self._ssl_context() if self.tls else None
        return EtcdClient(self.endpoints, tls=context, user=self.user, password=self.password)

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError) as wrong:
            raise _bad(self.ca, f"the certificates of ca cannot be read: {_reason(wrong)}") from None
        if self.cert:
            try:
                context.load_cert_chain(self.cert, self.key or None, password="")
            except (OSError, ssl.SSLError) as wrong:
                raise _bad(self.cert, f"cert and key cannot be read: {_reason(wrong)}") from None
        return context


def parse(url: str) -> EtcdAddress:
    """Raises InvalidInput, which never shows more of the URL than the part that is wrong."""
    if not url.startswith("etcd://"):
        raise _bad(url.split(":", 1)[0], "this is no address of an etcd")
    rest, _, query = url.removeprefix("etcd://").partition("?")
    # The last "@" before the path: a password may hold one, a host may not.
    login, at, places = rest.rpartition("@")
    hosts, slash, path = places.partition("/")
    user, colon, password = login.partition(":")
    if cuts_a_password(rest, query):
        raise _bad("", "if the password holds a ?, write %3F for it: behind a ? the options begin")
    if at and not user:
        raise _bad("", "the user before the @ is empty")
    options = _options(query)
    if "password_file" in options:
        if colon:
            raise _bad("password_file", "the password is given twice, in the address and as password_file")
        password = _read(options["password_file"])
    if not user and "password_file" in options:
        raise _bad("password_file", "there is a password and no user")
    if options.get("key") and not options.get("cert"):
        raise _bad("key", "a key needs its certificate: cert=FILE")
    return EtcdAddress(
        endpoints=_endpoints(hosts),
        prefix=("/" + unquote(path).strip("/")) if slash and path.strip("/") else DEFAULT_PREFIX,
        user=unquote(user),
        password=password if "password_file" in options else unquote(password),
        tls=_tls(options),
        ca=options.get("ca", ""),
        cert=options.get("cert", ""),
        key=options.get("key", ""),
    )


def _endpoints(hosts: str) -> tuple[Endpoint, ...]:
    found = tuple(_endpoint(host) for host in hosts.split(","))
    if len(set(found)) != len(found):
        raise _bad(hosts, "a host is given twice")
    return found


def _endpoint(text: str) -> Endpoint:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif ":" in text:
        host, _, port = text.rpartition(":")
    if not host or any(not part.isprintable() or part.isspace() or part in "/@[]" for part in host):
        raise _bad(text, "a host is missing or cannot be one")
    if ":" in host and not text.startswith("["):
        raise _bad(text, "an IPv6 address needs brackets: [::1]:2379")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _bad(text, "the port is not a number from 1 to 65535")
    return Endpoint(host, int(port) if port else _PORT)


def _options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    for name, value in pairs:
        if name not in _OPTIONS:
            raise _bad(name, f"there is no option {name!r}")
        if not value:
            raise _bad(name, f"the option {name} is empty")
    if len(options) != len(pairs):
        raise _bad("", "an option is given twice")
    return options


def _tls(options: dict[str, str]) -> bool:
    given = options.get("tls")
    if given not in (None, "yes", "no"):
        raise _bad(given, "tls is yes or no")
    files = any(name in options for name in ("ca", "cert", "key"))
    if given == "no" and files:
        raise _bad("no", "certificates are given, but tls=no")
    return given == "yes" or files


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as wrong:
        raise _bad(path, f"the file of the password cannot be read: {_reason(wrong)}") from None


def _reason(wrong: Exception) -> str:
    return getattr(wrong, "strerror", None) or str(wrong)


def _bad(value: object, message: str) -> InvalidInput:
    return InvalidInput(message, field="journal", value=value, allowed=_ALLOWED)
