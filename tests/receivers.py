"""Receivers that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hanging_up() -> Iterator[int]:
    """The port of one who takes every request and hangs up without a word: nobody can know what became of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return  # the listener was closed
                with peer:
                    peer.recv(65536)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def full_listener() -> Iterator[tuple[socket.socket, list[socket.socket]]]:
    """One who accepts no more connections and does not refuse them either, and those who keep him busy."""
    with socket.socket() as listener, socket.socket() as one, socket.socket() as two:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (one, two):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener, [one, two]


@contextmanager
def full_port() -> Iterator[int]:
    """The port of such a one."""
    with full_listener() as (listener, _):
        yield listener.getsockname()[1]
