"""Where replicas run: on loopback with ports of their own, or each in a network namespace of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import NamedTuple

from tests.ports import own_ports

_CLONE_NEWNET = 0x40000000
_BLOCK = 4
"""Ports of one replica: peers, etcd's peers, etcd's clients, API."""


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
    base = own_ports(_BLOCK * len(names))[0]
    places = {}
    for number, name in enumerate(names):
        first = base + number * _BLOCK
        places[name] = Place("127.0.0.1", first, first + _BLOCK - 1)
    return places


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
