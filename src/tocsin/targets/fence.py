"""Which hosts and addresses the ``http`` target may call. Pure decisions: nothing is resolved here.

What counts is the *address* that a connection would go to, not how it was written: names, decimal and hexadecimal
numbers, an IPv4 address inside an IPv6 one all end as an address, and that is judged. Rules, in this order:

1. What ``http_deny`` names is denied, as a host name or as an address.
2. Addresses that hand out a machine's credentials (cloud metadata, link-local) are denied, unless ``http_allow``
   names just them: an address or a network within that range. A host name or ``0.0.0.0/0`` there does not count,
   because whoever owns a name chooses its address.
3. Where callers need tokens (``guarded``) the same holds for the machine itself, loopback and ``0.0.0.0``: what
   listens there trusts whoever is logged in, and the owner of a schedule need not be.
4. If ``http_allow`` names anything, only that may be called.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from tocsin.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

CREDENTIALS: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local: metadata of most clouds
        "fe80::/10",  # link-local
        "fd00:ec2::/32",  # metadata and other services of AWS
        "fd20:ce::254/128",  # metadata of Google
        "100.100.100.200/32",  # metadata of Alibaba
        "168.63.129.16/32",  # wire server of Azure
        "192.0.0.192/32",  # metadata of Oracle
        "fd00:c1::a9fe:a9fe/128",  # metadata of Oracle
        "fd00:42::42/128",  # metadata of Scaleway
    )
)
ITSELF: tuple[Network, ...] = tuple(
    ip_network(text) for text in ("127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128")
)
_LOOPBACKS: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_TRANSLATED: tuple[tuple[IPv6Network, int], ...] = (
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("64:ff9b:1::/48"), 0),  # NAT64 of one's own, with a prefix of 96 bits (others: below)
    (IPv6Network("2002::/16"), 80),  # 6to4
    (IPv6Network("::/96"), 0),  # IPv4-compatible
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (IPv6Network("2001::/32"), 64),  # Teredo: its server
)
"""IPv6 networks that carry an IPv4 address, and how many bits stand behind it."""
_NAT64_OWN = IPv6Network("64:ff9b:1::/48")
_TEREDO = IPv6Network("2001::/32")
_ALL_ONES = 0xFFFFFFFF
_SHOWN_MAX = 100


class Denied(Exception):
    """A call that must not be made. ``str()`` says why and which setting decided."""


class Rules(msgspec.Struct, frozen=True):
    """What one of the two settings names."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    """``.example.org`` for ``*.example.org``."""
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str, field: str) -> Rules:
        """Hosts, ``*.example.org`` and networks, separated by commas."""
        names, suffixes, networks = set(), [], []
        for part in filter(None, (part.strip() for part in text.split(","))):
            network = _network(part)
            if network is not None:
                networks.append(network)
            elif _is_name(part.removeprefix("*.")):
                name = plain(part)
                if name.startswith("*."):
                    suffixes.append(name[1:])
                else:
                    names.add(name)
            else:
                raise InvalidInput(
                    f"{part[:_SHOWN_MAX]!r} is neither a host nor a network",
                    field=field,
                    value=part,
                    allowed="host.example.org, *.example.org, 10.0.0.7, 10.0.0.0/8 or fd00::/8, several with ,",
                )
        return cls(frozenset(names), tuple(suffixes), tuple(networks))

    def names_host(self, host: str) -> bool:
        name = plain(host)
        return name in self.names or name.endswith(self.suffixes)

    def covers(self, address: Address) -> bool:
        return any(address in network for network in self.networks)

    def __bool__(self) -> bool:
        return bool(self.names or self.suffixes or self.networks)


class Fence(msgspec.Struct, frozen=True):
    """The decision, for a host as it is written and for an address as it was found."""

    allow: Rules = Rules()
    deny: Rules = Rules()
    guarded: bool = False
    """Is the machine itself out of bounds?"""

    @classmethod
    def parse(cls, allow: str, deny: str, *, guarded: bool = False) -> Fence:
        return cls(Rules.parse(allow, "http_allow"), Rules.parse(deny, "http_deny"), guarded)

    def check_host(self, host: str) -> None:
        """Raise Denied for what is certain without a name server. A number in any notation is an address."""
        address = literal(host)
        if address is not None:
            self.check_address(host, address)
        elif looks_numeric(host):
            raise Denied(f"{_shown(host)} is not an address that can be called")
        elif self.deny.names_host(host):
            raise Denied(f"the host {_shown(host)} may not be called: http_deny names it")
        elif self.allow and not self.allow.networks and not self.allow.names_host(host):
            raise Denied(f"the host {_shown(host)} may not be called: http_allow does not name it")

    def check_address(self, host: str, address: Address) -> None:
        """Raise Denied if a call to this host must not go to this address."""
        where = _where(host, address)
        faces = tuple(faces_of(address))
        if self.deny.names_host(host) or any(self.deny.covers(face) for face in faces):
            raise Denied(f"{where} may not be called: http_deny names it")
        for face in faces:
            self._check_range(where, face, CREDENTIALS, "such addresses hand out credentials")
        if self.guarded:
            own = unwrapped(address)
            # What is the machine itself carries nothing: "::1" is not 0.0.0.1 in disguise.
            for face in [own] if own.is_loopback or own.is_unspecified else wrapped_in(address):
                self._check_range(where, face, ITSELF, "that is the machine of the service itself")
        if self.allow and not self.allow.names_host(host) and not self.allow.covers(unwrapped(address)):
            raise Denied(f"{where} may not be called: http_allow does not name it")

    def _check_range(self, where: str, face: Address, ranges: tuple[Network, ...], why: str) -> None:
        for network in ranges:
            if face in network and not self._names_within(network, face):
                raise Denied(f"{where} may not be called: {why}; if it is meant, http_allow must name {face}")

    def permitted(self, host: str, addresses: Iterable[str]) -> list[str]:
        """Those of the addresses a name has that may be called. Raises Denied if that is none of them."""
        found, refusal = [], Denied(f"{_shown(host)} has no address")
        for text in addresses:
            address = literal(text)
            if address is None:
                refusal = Denied(f"{_shown(text)} is not an address that can be called")
                continue
            try:
                self.check_address(host, address)
                found.append(text)
            except Denied as denied:
                refusal = denied
        if not found:
            raise refusal
        return found

    def _names_within(self, network: Network, address: Address) -> bool:
        return any(
            address in own and own.version == network.version and own.prefixlen >= network.prefixlen
            for own in self.allow.networks
        )


def plain(host: str) -> str:
    """A host's name as it is compared: small letters, no dot at the end."""
    return host.rstrip(".").lower()


def literal(host: str) -> Address | None:
    """The address that a host is in itself: ``127.0.0.1``, ``[::1]``, ``2130706433``, ``0x7f.1``, ``0177.0.0.1``."""
    text = plain(host).removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        return ip_address(text)
    except ValueError:
        return _classic_ipv4(text)


def looks_numeric(host: str) -> bool:
    """What a client may take for an address by its looks, and so never ask a name server about."""
    text = plain(host)
    return ":" in text or not text.isascii() or text.replace(".", "").isdigit() or not text


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside of ``::ffff:a.b.c.d``: the connection goes there."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def faces_of(address: Address) -> Iterable[Address]:
    """Every address that a connection to this one may end at, however it is wrapped."""
    for face in wrapped_in(address):
        yield face
        if (
            face.is_loopback or face.is_unspecified
        ):  # nobody means 127.0.0.1 to be denied and 0.0.0.0 or ::1 not
            yield from _LOOPBACKS


def wrapped_in(address: Address) -> Iterable[Address]:
    """The address, and every IPv4 address that it may carry."""
    address = unwrapped(address)
    yield address
    if not isinstance(address, IPv6Address):
        return
    number = int(address)
    for network, behind in _TRANSLATED:
        if address in network:
            yield IPv4Address((number >> behind) & _ALL_ONES)
    if address in _NAT64_OWN:
        # Prefixes of 48, 56 and 64 bits: the address stands around the byte at bit 64, which is left out.
        spared = (number >> 64 << 56) | (number & ((1 << 56) - 1))
        for prefix in (48, 56, 64):
            yield IPv4Address((spared >> (120 - prefix - 32)) & _ALL_ONES)
    if address in _TEREDO:  # its client, turned over
        yield IPv4Address((number & _ALL_ONES) ^ _ALL_ONES)


def _classic_ipv4(text: str) -> IPv4Address | None:
    """One to four numbers, each decimal, octal (``0...``) or hexadecimal (``0x...``); the last fills the rest."""
    parts = text.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    numbers = [_number(part) for part in parts]
    if any(number is None for number in numbers):
        return None
    *heads, last = [number for number in numbers if number is not None]
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    whole = last
    for place, head in enumerate(heads):
        whole += head << (24 - 8 * place)
    return IPv4Address(whole)


def _number(text: str) -> int | None:
    base = 16 if text.startswith("0x") else 8 if text.startswith("0") and len(text) > 1 else 10
    digits = text[2:] if base == 16 else text
    if not digits.isascii() or not digits.isalnum() or len(digits) > 40:
        return None
    try:
        return int(digits, base)
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        found = ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped and found.prefixlen >= 96:
        return IPv4Network((int(found.network_address.ipv4_mapped), found.prefixlen - 96))
    return found


def _is_name(text: str) -> bool:
    """A host's name that could be one: a misspelt network must not pass for a name that nothing ever has."""
    labels = plain(text).split(".")
    return (
        text.isascii()
        and all(label and label.replace("-", "").replace("_", "").isalnum() for label in labels)
        and not labels[-1].isdigit()
        and _classic_ipv4(plain(text)) is None
    )


def _where(host: str, address: Address) -> str:
    written = plain(host).strip("[]")
    return _shown(host) if written == str(address) else f"{_shown(host)} (the address {address})"


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
    return cut if cut.isprintable() else repr(cut)
