"""When nobody answers: why, in words of a person, and what would help."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def curt() -> Iterator[str]:
    """The address of somebody who hangs up when spoken to, as one who expects TLS does."""
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
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def what_only_asks_is_not_said_to_have_been_carried_out(alone, curt):
    asked = alone("list", "--url", curt)
    assert asked.status == 3
    assert "https://" in asked.err
    assert "carried out" not in asked.err
    told = alone("run", "x", "--url", curt)
    assert (told.status, "carried out" in told.err, "https://" in told.err) == (3, True, True)
    assert "https://" in alone("export", "--url", curt).err


def a_refused_connection_is_called_that(alone):
    done = alone("list")
    assert done.status == 3
    assert "(connection refused)" in done.err
    assert "Errno" not in done.err
    assert "Connect call" not in done.err


def a_service_without_tls_is_told_from_one_that_is_not_there(tocsin):
    done = tocsin("list", "--url", tocsin.url.replace("http:", "https:"))
    assert (done.status, "it does not speak TLS" in done.err, "http://" in done.err) == (3, True, True)
