"""The end of a service that cannot go on, with a replica that fails as told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.api import server
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.errors import InvalidInput, NotFound
from tocsin.observe.metrics import Metrics


class DyingReplica:
    """Starts, and dies as soon as it has been greeted."""

    clock = SystemClock()
    metrics = Metrics()
    name = "r"
    problem = ""
    meta = SimpleNamespace(seq=1)

    def __init__(self, start_failure: Exception | None = None) -> None:
        self.start_failure = start_failure
        self.greeted = asyncio.Event()
        self.is_stopped = False

    async def start(self) -> None:
        if self.start_failure is not None:
            raise self.start_failure

    async def failed(self) -> BaseException:
        await self.greeted.wait()
        return RuntimeError("an entry cannot be applied")

    async def stop(self) -> None:
        self.is_stopped = True


def _run(replica: Any, on_ready: Any) -> int:
    return asyncio.run(server.run(replica, Settings(listen="127.0.0.1:0"), on_ready))


def a_replica_that_fails_ends_the_process_with_one(capsys):
    replica = DyingReplica()

    async def on_ready(url: str) -> None:
        assert url.startswith("http://127.0.0.1:")
        replica.greeted.set()

    assert _run(replica, on_ready) == 1
    assert replica.is_stopped
    assert "an entry cannot be applied" in "".join(capsys.readouterr())


def a_greeting_that_fails_is_told_and_the_service_goes_on(capsys):
    replica = DyingReplica()

    async def on_ready(_: str) -> None:
        replica.greeted.set()
        raise NotFound("no examples")

    assert _run(replica, on_ready) == 1
    assert "no examples" in "".join(capsys.readouterr())


def a_data_directory_that_cannot_be_used_is_named():
    async def on_ready(_: str) -> None:
        raise AssertionError("it never became ready")

    replica = DyingReplica(PermissionError(13, "Permission denied"))
    with pytest.raises(InvalidInput, match=r"data: cannot work in .*Permission denied"):
        _run(replica, on_ready)
    assert not replica.is_stopped, "there is nothing to stop"
