"""Who belongs to the cluster and where: ``a=HOST:PORT,b=HOST:PORT,c=HOST:PORT``.

A replica has three ports in a row. On PORT the replicas talk to each other, on PORT+1 their etcd members do, and on
PORT+2 etcd answers its clients.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from tocsin.errors import InvalidInput
from tocsin.model.cluster import Member

DEFAULT_PORT = 8410
PORTS = 3
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_NAMES = "up to 32 of a-z, 0-9 and -, neither beginning nor ending with -"
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
_ALLOWED = "NAME=HOST or NAME=HOST:PORT, separated by commas; an IPv6 address in brackets"


def parse_cluster(text: str, own: str, ports: int = PORTS) -> list[Member]:
    """All replicas, by name; ``own`` must be one of them. ``ports``: how many each of them uses."""
    members = [parse_member(part) for part in text.split(",") if part.strip()]
    check_together(members, ports)
    if own not in {member.name for member in members}:
        listed = ", ".join(member.name for member in members) or "nobody"
        raise _wrong(
            f"{own!r} is the name of this replica, and only {listed} stands here",
            own,
            hint=f"give it one of these names with --name, or add {own}=HOST:PORT",
        )
    return sorted(members, key=lambda member: member.name)


def parse_member(text: str) -> Member:
    """One ``NAME=HOST:PORT``."""
    name, equals, address = (part.strip() for part in text.partition("="))
    if not equals:
        raise _wrong(f"{text.strip()!r} has no name", text, allowed=_ALLOWED)
    if not _NAME.fullmatch(name):
        raise _wrong(f"{name!r} is not a name of a replica", name, allowed=_NAMES)
    host, port = split_address(address)
    return Member(name, peer=_joined(host, port))


def check_together(members: Iterable[Member], ports: int = PORTS) -> None:
    """Names are their own, and so are the ports where two replicas share a machine."""
    seen: list[Member] = []
    for member in members:
        for other in seen:
            if other.name == member.name:
                raise _wrong(f"{member.name!r} stands there twice", member.name, hint="name it once")
            if _overlap(member, other, ports):
                raise _wrong(
                    f"{other.name} ({other.peer}) and {member.name} ({member.peer}) would use the same ports",
                    member.peer,
                    hint=f"each needs its port and the two behind it: keep them {PORTS} or more apart"
                    if ports > 1
                    else "each needs a port of its own",
                )
        seen.append(member)


def split_address(address: str) -> tuple[str, int]:
    """Host (without brackets) and port, which need not be given."""
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        fine = bool(bracket) and _is_ipv6(host) and (not rest or rest.startswith(":"))
        port = rest[1:]
    else:
        host, colon, port = address.partition(":")
        rest = colon + port
        fine = _HOST.fullmatch(host) is not None
    if not fine or (rest and not re.fullmatch(r"[0-9]{1,5}", port)):
        raise _wrong(f"{address!r} is not an address", address, allowed=_ALLOWED)
    number = int(port) if rest else DEFAULT_PORT
    if not 1 <= number <= 65535 - (PORTS - 1):
        raise _wrong(f"{number} is out of range", address, allowed=f"a port of 1 to {65535 - (PORTS - 1)}")
    return host, number


def raft_url(member: Member) -> str:
    """Where the other etcd members reach the one of this replica."""
    return _url(member, 1)


def etcd_url(member: Member) -> str:
    """Where clients reach the etcd of this replica."""
    return _url(member, 2)


def on_host(member: Member, host: str, offset: int) -> str:
    """The URL of one of its ports, at another host name."""
    return f"https://{_joined(host, split_address(member.peer)[1] + offset)}"


def _url(member: Member, offset: int) -> str:
    return on_host(member, split_address(member.peer)[0], offset)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def _overlap(one: Member, other: Member, ports: int) -> bool:
    (host, port), (other_host, other_port) = split_address(one.peer), split_address(other.peer)
    return _canonical(host) == _canonical(other_host) and abs(port - other_port) < ports


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        name = host.lower().rstrip(".")
        return "127.0.0.1" if name == "localhost" else name


def _wrong(message: str, value: str, *, allowed: str = "", hint: str = "") -> InvalidInput:
    return InvalidInput(message, field="cluster", value=value, allowed=allowed, hint=hint)
