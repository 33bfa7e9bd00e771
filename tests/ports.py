"""Ports that are this process's alone, until it ends.

A port that is free now may be another's in a moment: a test that starts its server again on the same one would find
somebody there. So tests that run at the same time keep apart: each process locks blocks of ports, below those that
the kernel gives to whoever asks for any.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FIRST, _LAST = 20_000, 32_704
_BLOCK = 64
_LOCKS = Path(tempfile.gettempdir()) / f"tocsin-test-ports-{os.getuid()}"


def own_ports(count: int) -> list[int]:
    """In a row, never handed out before, and nobody listens there."""
    global _left
    while len(_left) < count:
        _left = next(_blocks)
    found, _left = _left[:count], _left[count:]
    return found if all(map(_is_free, found)) else own_ports(count)


def own_port() -> int:
    return own_ports(1)[0]


def _locked() -> Iterator[list[int]]:
    _LOCKS.mkdir(exist_ok=True)
    for first in range(_FIRST, _LAST, _BLOCK):
        lock = os.open(_LOCKS / str(first), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            yield [*range(first, first + _BLOCK)]
    raise AssertionError(f"all ports from {_FIRST} to {_LAST} are taken by tests")


_blocks = _locked()
_left: list[int] = []


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
