"""Where replicas run: on loopback with ports of their own, or each in a network namespace of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import socket
from collections.abc import Iterator
from typing import NamedTuple

_CLONE_NEWNET = 0x40000000
_BLOCK = 4
"""Ports of one replica: peers, etcd's peers, etcd's clients, API."""
_BELOW_EPHEMERAL = (20_000, 32_000)
"""Ports that the kernel gives to outgoing connections are higher: nobody takes ours while a replica is down."""


class Place(NamedTuple):
    """The network side of one replica."""

    host: str
    port: int
    api_port: int
    namespace: str = ""

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def command(self) -> list[str]:
        """What a command line begins with, to be run there."""
        return ["ip", "netns", "exec", self.namespace] if self.namespace else []


def on_loopback(names: str) -> dict[str, Place]:
    """Blocks of free ports, one after the other."""
    base = _free_ports(_BLOCK * len(names))
    places = {}
    for number, name in enumerate(names):
        first = base + number * _BLOCK
        places[name] = Place("127.0.0.1", first, first + _BLOCK - 1)
    return places


def _free_ports(count: int) -> int:
    for _ in range(1000):
        base = random.randrange(_BELOW_EPHEMERAL[0], _BELOW_EPHEMERAL[1] - count)
        if all(_is_free(port) for port in range(base, base + count)):
            return base
    raise AssertionError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread opens its sockets in that namespace. Empty: where it is. A socket stays where it was opened."""
    if not namespace:
        yield
        return
    with _opened("/proc/thread-self/ns/net") as home, _opened(f"/run/netns/{namespace}") as there:
        _enter(there)
        try:
            yield
        finally:
            _enter(home)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(descriptor: int) -> None:
    """``os.setns`` is there only since Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
