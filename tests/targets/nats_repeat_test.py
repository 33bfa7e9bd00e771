"""A stream drops a repeat only for as long as it remembers message ids: the target finds out how long that is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brokers.nats import STREAM, NatsServer, admin, arrived, make_stream
from tests.targets.nats_support import SPEC, connected, launch

from tocsin.clock import SystemClock
from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.model.target import NullTarget as NullSpec
from tocsin.targets.contract import Order, Verdict, recognises
from tocsin.targets.nats.windows import ASK_AGAIN_S
from tocsin.testing.targets import order_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    running = NatsServer(tmp_path / "nats")
    yield running
    running.stop()


class _MovedClock(SystemClock):
    ahead_s = 0.0

    def elapsed_s(self) -> float:
        return super().elapsed_s() + self.ahead_s


def _aged(age_s: float, **changes: object) -> Order:
    return order_for(SPEC, generated_at_ms=SystemClock().wall_ms() - int(age_s * 1000), **changes)


def a_repeat_is_sent_within_half_of_the_window_and_not_later(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>", duplicate_window=20)
        target = await connected(server.url)
        assert not target.idempotent(SPEC)
        await target.recall([SPEC, NullSpec()])
        assert target.idempotent(SPEC)
        assert target.remembers_s(SPEC) == 10.0
        young, old = _aged(5, is_repeat=True), _aged(11, name="suite/old-1", is_repeat=True)
        now_ms = SystemClock().wall_ms()
        assert [recognises(target, order, now_ms) for order in (young, old)] == [True, False]
        outcomes = await target.launch_batch([young, old, _aged(11, name="suite/retried-1")])
        await target.stop()
        assert [o.verdict for o in outcomes] == [Verdict.SUCCEEDED, Verdict.UNKNOWN, Verdict.SUCCEEDED]
        assert "would not recognise" in outcomes[1].reason
        assert await arrived(server.url) == {young.name: 1, "suite/retried-1": 1}

    asyncio.run(tried())


def a_repeat_whose_age_is_not_known_is_not_sent(server: NatsServer) -> None:
    """The clock was put back since, or nobody counted the time."""

    async def tried() -> None:
        await make_stream(server.url, "events.>", duplicate_window=20)
        target = await connected(server.url)
        await target.recall([SPEC])
        ahead = _aged(-3_600, name="suite/ahead-1", is_repeat=True)
        uncounted = _aged(1, name="suite/uncounted-1", is_repeat=True, is_uncounted=True)
        outcomes = await target.launch_batch([ahead, uncounted])
        await target.stop()
        assert [outcome.verdict for outcome in outcomes] == [Verdict.UNKNOWN, Verdict.UNKNOWN]
        assert await arrived(server.url) == {}

    asyncio.run(tried())


def what_no_stream_takes_is_not_repeated(server: NatsServer) -> None:
    async def tried() -> None:
        target = await connected(server.url)
        await target.recall([SPEC])
        assert not target.idempotent(SPEC)
        assert (await launch(target, _aged(1, is_repeat=True))).verdict is Verdict.UNKNOWN
        await target.stop()

    asyncio.run(tried())


def a_window_that_was_changed_is_noticed(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>", duplicate_window=20)
        clock = _MovedClock()
        target = await connected(server.url, clock=clock)
        await launch(target, order_for(SPEC))
        assert target.remembers_s(SPEC) == 10.0
        async with admin(server.url) as stream:
            await stream.update_stream(name=STREAM, subjects=["events.>", "more.*.x"], duplicate_window=4)
        await launch(target, order_for(SPEC))
        assert target.remembers_s(SPEC) == 10.0
        clock.ahead_s = ASK_AGAIN_S
        await launch(target, order_for(SPEC))
        assert target.remembers_s(SPEC) == 2.0
        assert target.remembers_s(NatsSpec(subject="more.and.x")) == 2.0
        for other in ("more.x", "more.and.more.x", "events", "eventsXone"):
            assert target.remembers_s(NatsSpec(subject=other)) == 0.0
        await target.stop()

    asyncio.run(tried())


_NO_API = """
accounts {
  A {
    jetstream: enabled
    users: [
      { user: admin, password: admin }
      { user: tocsin, password: tocsin, permissions: { publish: "events.>", subscribe: "_INBOX.>" } }
    ]
  }
}
"""


def one_who_may_not_ask_for_the_window_may_still_send(tmp_path: Path) -> None:
    async def tried() -> None:
        admin_url = server.url.replace("//", "//admin:admin@")
        await make_stream(admin_url, "events.>")
        target = await connected(server.url.replace("//", "//tocsin:tocsin@"))
        async with asyncio.timeout(3):
            assert (await target.launch(_aged(0))).verdict is Verdict.SUCCEEDED
        assert not target.idempotent(SPEC)
        assert (await launch(target, _aged(0, name="suite/x-1", is_repeat=True))).verdict is Verdict.UNKNOWN
        await target.stop()
        assert len(await arrived(admin_url)) == 1

    server = NatsServer(tmp_path / "nats", _NO_API)
    try:
        asyncio.run(tried())
    finally:
        server.stop()
