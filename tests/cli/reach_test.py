"""When nobody answers: why, in words of a person, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.receivers import hanging_up


@pytest.fixture
def curt() -> Iterator[str]:
    """The address of somebody who hangs up when spoken to, as one who expects TLS does."""
    with hanging_up() as port:
        yield f"http://127.0.0.1:{port}"


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
