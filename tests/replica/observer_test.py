"""A replica that stood still learns nothing from what has arrived meanwhile: it tells the time of then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tocsin.journal.contract import SeenPresence
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.office import FOLLOWER_S, RENEW_S, ElectedOffice
from tocsin.replica.presence import Observer, Turns


class _Clock:
    def __init__(self) -> None:
        self.passed_s = 0.0

    def elapsed_s(self) -> float:
        return self.passed_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self.passed_s * 1000)

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        self.passed_s += timeout_s
        return event.is_set()


class _Store:
    """Two watches: the process is paused in the first one, after some records."""

    def __init__(self, clock: _Clock, stop: asyncio.Event, paused_s: float, is_answer_late: bool) -> None:
        self._clock = clock
        self._stop = stop
        self._paused_s = paused_s
        self._is_answer_late = is_answer_late
        self._counter = 0
        self.watches = 0

    def _record(self) -> list[SeenPresence]:
        self._counter += 1
        presence = Presence(self._counter, 1_700_000_000_000 + self._counter * 500, {GROUP: 1}, 1)
        return [SeenPresence("a", self._counter, presence)]

    async def watch(self) -> AsyncIterator[list[SeenPresence]]:
        self.watches += 1
        if self.watches == 1:
            for _ in range(0 if self._is_answer_late else 4):
                self._clock.passed_s += RENEW_S
                yield self._record()
            self._clock.passed_s += self._paused_s
            for _ in range(8):
                yield self._record()
        self._stop.set()
        yield self._record()

    async def put(self, replica: str, presence: Presence) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("is_answer_late", [False, True])
def records_that_arrive_together_after_a_pause_tell_no_time(is_answer_late: bool) -> None:
    async def observe() -> None:
        stop, clock = asyncio.Event(), _Clock()
        office, store = ElectedOffice(clock), _Store(clock, stop, 40.0, is_answer_late)
        await Observer(store, office, Turns(office), clock, seq=lambda: 1).run(stop)
        assert store.watches == 2
        offset_ms = office.leader_offset_ms()
        assert offset_ms is None or abs(offset_ms - 1_700_000_000_000) < 1_000
        assert office.opens_in_s() == pytest.approx(FOLLOWER_S, abs=0.5)

    asyncio.run(observe())


def records_that_arrive_as_they_are_written_tell_the_time() -> None:
    async def observe() -> None:
        stop, clock = asyncio.Event(), _Clock()
        office, store = ElectedOffice(clock), _Store(clock, stop, 0.0, is_answer_late=False)
        await Observer(store, office, Turns(office), clock, seq=lambda: 1).run(stop)
        assert store.watches == 1
        assert office.leader_offset_ms() is not None

    asyncio.run(observe())
