"""Presence is written while this replica leads, observed while it does not, and neither takes a timer meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.replica.lone import LeapClock, until

from tocsin.clock import SystemClock
from tocsin.journal.contract import SeenPresence
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.clock_guard import ClockGuard, guarded
from tocsin.replica.liveness import WEDGED_S, Liveness
from tocsin.replica.office import RENEW_S, ElectedOffice
from tocsin.replica.presence import Heartbeat, Observer, Turns, in_thread

PATIENCE_S = 10.0


class _Clock(SystemClock):
    """Counts who waits for the time to pass."""

    def __init__(self) -> None:
        self.waits = 0

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        self.waits += timeout_s > 0
        return await super().wait(event, timeout_s)


class _Store:
    """Keeps what was written, and tells it to those who watch. Used from one loop."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Presence]] = []
        self.is_written = threading.Event()
        self.watches = self.opened = 0
        self._changed = asyncio.Event()

    async def put(self, replica: str, presence: Presence) -> None:
        self.written.append((replica, presence))
        self._changed.set()
        self.is_written.set()

    async def watch(self) -> AsyncIterator[list[SeenPresence]]:
        self.watches += 1
        self.opened += 1
        known = 0
        try:
            while True:
                newest = {name: SeenPresence(name, at, seen) for at, (name, seen) in enumerate(self.written)}
                yield [seen for seen in newest.values() if seen.version >= known]
                known = len(self.written)
                self._changed.clear()
                await self._changed.wait()
        finally:
            self.watches -= 1

    async def close(self) -> None:
        return


def _take_office(office: ElectedOffice, clock: ClockGuard, term: int) -> None:
    office.observed(clock.elapsed_s(), term=term - 1, is_vacant=True)
    office.election(term, "")
    office.renewed(clock.elapsed_s())


def _heartbeat(office: ElectedOffice, store: _Store, clock: ClockGuard, liveness: Liveness) -> Heartbeat:
    return Heartbeat("a", store, office, Turns(office), liveness, clock, lambda: 0)


async def _until(is_so: Callable[[], bool]) -> None:
    async def seen() -> bool:
        return is_so()

    await until(seen)


def a_follower_waits_without_a_timer_and_renews_at_once_when_its_term_begins(tmp_path: Path) -> None:
    """The term begins in the thread of the leader loop, and presence has a thread of its own."""
    ticking = _Clock()
    clock = guarded(ticking, tmp_path / "clock.json")
    office, store = ElectedOffice(clock, "a"), _Store()
    heartbeat = _heartbeat(office, store, clock, Liveness(clock))
    threads: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def beside() -> None:
        threads.append((asyncio.get_running_loop(), asyncio.Event()))
        await heartbeat.run(threads[0][1])

    async def work() -> None:
        running = asyncio.create_task(in_thread(beside))
        for term in (1, 2):
            await asyncio.sleep(1.5 * RENEW_S)
            waits = ticking.waits
            await asyncio.sleep(1.5 * RENEW_S)
            assert ticking.waits == waits, "nothing is to be renewed"
            store.is_written.clear()
            _take_office(office, clock, term)
            assert await asyncio.to_thread(store.is_written.wait, RENEW_S / 2)
            assert store.written[-1][1].terms == {GROUP: term}
            office.ended()
        loop, stop = threads[0]
        loop.call_soon_threadsafe(stop.set)
        async with asyncio.timeout(PATIENCE_S):
            await running

    asyncio.run(work())


def a_loop_that_has_stood_still_for_too_long_is_noticed_by_the_next_renewal(tmp_path: Path) -> None:
    leaping = LeapClock()
    clock = guarded(leaping, tmp_path / "clock.json")
    office, store, liveness = ElectedOffice(clock, "a"), _Store(), Liveness(clock)
    heartbeat = _heartbeat(office, store, clock, liveness)

    async def work() -> None:
        _take_office(office, clock, 1)
        for beat in range(1, 20):
            leaping.ahead_s += RENEW_S
            liveness.wrote(clock.elapsed_s())
            await heartbeat.beat()
            if not store.written[-1][1].terms:
                assert WEDGED_S <= beat * RENEW_S <= WEDGED_S + RENEW_S
                return
        raise AssertionError("it is renewed for ever")

    asyncio.run(work())


def a_leader_does_not_observe_and_looks_again_when_its_term_is_over(tmp_path: Path) -> None:
    clock = guarded(SystemClock(), tmp_path / "clock.json")
    office, store = ElectedOffice(clock, "a"), _Store()
    observer = Observer(store, office, Turns(office), clock, lambda: 0)

    async def work() -> None:
        await _until(lambda: store.watches == 1)
        _take_office(office, clock, 1)
        for counter in (1, 2, 3):
            await store.put("a", Presence(counter, clock.wall_ms(), {GROUP: 1}))
            await _until(lambda: store.watches == 0)
        assert store.opened == 1
        office.ended()
        await _until(lambda: store.watches == 1)
        await _until(lambda: office.heard_ms("a") == store.written[-1][1].sent_ms)
        assert office.leader_offset_ms() is None

    asyncio.run(_beside(observer.run, work))


def a_replica_that_leads_when_its_observer_starts_observes_when_it_leads_no_more(tmp_path: Path) -> None:
    clock = guarded(SystemClock(), tmp_path / "clock.json")
    office, store = ElectedOffice(clock, "a"), _Store()
    turns = Turns(office)
    observer = Observer(store, office, turns, clock, lambda: 0)
    _take_office(office, clock, 1)

    async def work() -> None:
        await _until(lambda: bool(turns._waiting))
        assert store.opened == 0
        office.ended()
        await _until(lambda: store.opened == 1)

    asyncio.run(_beside(observer.run, work))


async def _beside(
    run: Callable[[asyncio.Event], Awaitable[None]], work: Callable[[], Awaitable[None]]
) -> None:
    running = asyncio.ensure_future(run(asyncio.Event()))
    try:
        await work()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
