from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.brokers.nats import NatsServer, arrived, make_stream
from tests.targets.nats_support import connected

from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.targets.contract import Target
from tocsin.targets.nats.target import NatsTarget
from tocsin.testing.targets import (
    CLAIMS,
    Claim,
    Harness,
    a_further_attempt_has_an_effect_of_its_own,
    claim_name,
    hold,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    running = NatsServer(tmp_path_factory.mktemp("nats"))
    yield running
    running.stop()


class _NatsHarness(Harness):
    cannot_start = NatsSpec(subject="nobody.listens")

    def __init__(self, url: str, stream: str) -> None:
        self._url = url
        self._stream = stream
        self._targets: list[NatsTarget] = []

    async def another(self) -> Target:
        self._targets.append(await connected(self._url))
        return self._targets[-1]

    def effects(self, name: str) -> int:
        """Asked in a thread, as the loop waits for the answer."""
        found: list[Counter[str]] = []
        asking = threading.Thread(target=lambda: found.append(asyncio.run(arrived(self._url, self._stream))))
        asking.start()
        asking.join(20)
        return found[0][name]

    async def stop(self) -> None:
        for target in self._targets:
            await target.stop()


_NUMBERS = iter(range(1_000_000))


@asynccontextmanager
async def _harness(server: NatsServer) -> AsyncIterator[Harness]:
    """A stream for each claim, as all of them use the same names."""
    number = next(_NUMBERS)
    await make_stream(server.url, f"events{number}.>", name=f"EVENTS{number}")
    await make_stream(server.url, f"small{number}.>", name=f"SMALL{number}", max_msg_size=10)
    harness = _NatsHarness(server.url, f"EVENTS{number}")
    harness.succeeds = NatsSpec(subject=f"events{number}.one", headers={"Team": "suite"})
    harness.fails_for_good = NatsSpec(subject=f"small{number}.one")
    harness.target = await harness.another()
    try:
        yield harness
    finally:
        await harness.stop()


_APPLICABLE = [claim for claim in CLAIMS if claim is not a_further_attempt_has_an_effect_of_its_own]
"""A further attempt of what was acknowledged is dropped by the stream: that is what its message id is for."""


@pytest.mark.parametrize("claim", _APPLICABLE, ids=claim_name)
def the_nats_target_conforms(claim: Claim, server: NatsServer) -> None:
    hold(claim, _harness(server))
