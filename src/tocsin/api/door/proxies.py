"""The address that a request came from, where a proxy stands between.

A proxy names the client in ``X-Forwarded-For``, behind all that the client itself wrote there. So the list is read from
its end: what a trusted proxy has added is true, and the first address that is no trusted proxy is the client's. Only
the proxies in the setting ``trusted_proxies`` are believed, by the address that they connect from.
``X-Forwarded-Proto`` of the same proxy tells whether the client came by https.

A service without tokens believes none, and refuses what was forwarded (see ``guard``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

_FOR = b"x-forwarded-for"
_PROTO = b"x-forwarded-proto"
_HOPS_MAX = 32
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Says who is one of them."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: object) -> bool:
        found = _parsed(address) if isinstance(address, str) and self._networks else None
        return found is not None and any(found in network for network in self._networks)

    def client(self, peer: str, forwarded_for: str) -> str:
        """The address of the client whose request ``peer`` sent. Addresses before an unreadable one are ignored."""
        if peer not in self:
            return peer
        client = peer
        for hop in reversed(forwarded_for.split(",")[-_HOPS_MAX:]):
            found = _parsed(_without_port(hop.strip()))
            if found is None:
                return client
            client = str(found)
            if client not in self:
                return client
        return client


class BehindProxies:
    """An ASGI application around everything else, which then sees the client's address and scheme."""

    def __init__(self, app: ASGIApp, trusted: TrustedProxies) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["client"] and scope["client"][0] in self._trusted:
            self._restore(scope)
        await self._app(scope, receive, send)

    def _restore(self, scope: HTTPScope) -> None:
        peer, port = scope["client"] or ("", 0)
        scope["client"] = self._trusted.client(peer, _joined(scope, _FOR)), port
        scheme = _joined(scope, _PROTO).rpartition(",")[2].strip().lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme


def _joined(scope: HTTPScope, name: bytes) -> str:
    """A header that stands there several times is one list."""
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def _without_port(hop: str) -> str:
    """``192.0.2.1:4711`` and ``[2001:db8::1]:4711`` are written too."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _parsed(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return mapped or found
