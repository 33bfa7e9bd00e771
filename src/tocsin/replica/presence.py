"""The presence of this replica, written and observed beside everything else that it does.

It runs in a thread with an event loop of its own: no decision, import, snapshot or long query delays it, neither on the
leader that renews its lease nor on a follower that notices when the leader was last heard. In the simulation a thread
is a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog
import uvloop

from tocsin.clock import Clock
from tocsin.errors import Conflict, JournalError
from tocsin.journal.contract import PresenceStore
from tocsin.model.presence import GROUP, Presence
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.clock_witness import ClockWitness
from tocsin.replica.liveness import JUDGE_S, PROBE_S, DiskProbe, Liveness
from tocsin.replica.nagging import Nag
from tocsin.replica.office import FRESH_S, RENEW_S, ElectedOffice, SoleOffice

log = structlog.get_logger()
AGAIN_S = 0.05
"""After a presence that was not acknowledged, the next one is sent so soon."""
WATCH_AGAIN_S = 0.3
TICK_S = 1.0
"""Where no other replica can lead, this thread ticks so often: a longer silence of it is an absence."""
RESIGNING_S = 10.0
"""So long the lease of a leader that is stopping is renewed, at the most."""
SILENCE_S = 3.0
"""A presence that is not acknowledged for so long is worth a word: the lease has ended."""

Host = Callable[[Callable[[], Coroutine[None, None, None]]], Awaitable[None]]
"""Where it runs: ``in_thread``, or ``in_task``."""


async def in_thread(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Returns when ``main`` has ended there, and raises what it raised."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(wrong: BaseException | None) -> None:
        if not ended.done():
            if wrong is None:
                ended.set_result(None)
            else:
                ended.set_exception(wrong)

    def body() -> None:
        wrong: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as raised:  # noqa: BLE001  # why: it is raised where it is waited for
            wrong = raised
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(end, wrong)

    threading.Thread(target=body, name="presence", daemon=True).start()
    await ended


async def in_task(main: Callable[[], Coroutine[None, None, None]]) -> None:
    await main()


class Turns:
    """Wakes the tasks of this thread when a term of this replica begins or ends, which happens in another thread."""

    def __init__(self, office: ElectedOffice) -> None:
        self._office = office
        self._waiting: set[asyncio.Event] = set()
        """One for each task: what one of them has heard is still news to the other."""
        self._wake: Callable[[], object] | None = None
        office.on_turn = self._on_turn

    async def until(self, stop: asyncio.Event, *, is_leading: bool) -> None:
        """Returns when this replica leads, or when it does not; and in any case after ``stop``."""
        loop = asyncio.get_running_loop()
        self._wake = partial(loop.call_soon_threadsafe, self._tell, context=contextvars.copy_context())
        stopping = asyncio.create_task(stop.wait(), name="stop")
        self._waiting.add(changed := asyncio.Event())
        try:
            while not stop.is_set():
                changed.clear()
                if (self._office.term is not None) is is_leading:
                    return
                told = asyncio.create_task(changed.wait(), name="turn")
                await asyncio.wait([stopping, told], return_when=asyncio.FIRST_COMPLETED)
                told.cancel()
        finally:
            self._waiting.discard(changed)
            stopping.cancel()

    def _tell(self) -> None:
        for changed in self._waiting:
            changed.set()

    def _on_turn(self) -> None:
        if self._wake is not None:
            with contextlib.suppress(RuntimeError):  # that thread has ended
                self._wake()


class Heartbeat:
    """Renews the lease of a leader by its presence."""

    def __init__(
        self,
        name: str,
        store: PresenceStore,
        office: ElectedOffice,
        turns: Turns,
        liveness: Liveness,
        clock: ClockGuard,
        seq: Callable[[], int],
    ) -> None:
        self._name = name
        self._store = store
        self._office = office
        self._turns = turns
        self._liveness = liveness
        self._clock = clock
        self._seq = seq
        self._counter = 0
        self._is_listed = False
        self._nag = Nag(clock)
        self.problem = ""

    async def run(self, stop: asyncio.Event) -> None:
        rest_s = 0.0
        until_s: float | None = None
        while True:
            if self._office.term is None:
                self._is_listed, self.problem = False, ""
                await self._turns.until(stop, is_leading=True)
                rest_s = 0.0
            if await self._clock.wait(stop, rest_s):
                now_s = self._clock.elapsed_s()
                until_s = now_s + RESIGNING_S if until_s is None else until_s
                if self._office.term is None or now_s > until_s:
                    return
                await asyncio.sleep(rest_s)  # a leader that is stopping resigns first
            sent_s = self._clock.elapsed_s()
            is_heard = await self.beat()
            took_s = self._clock.elapsed_s() - sent_s
            rest_s = max(0.0, RENEW_S - took_s) if is_heard else AGAIN_S

    async def beat(self) -> bool:
        """Returns whether there is time until the next one."""
        term = self._office.term
        if term is None or self._office.is_over(term):
            self._is_listed, self.problem = False, ""
            return True
        self._liveness.judge()
        if wedged := self._liveness.wedged:
            return await self._unlist(wedged)
        self._counter += 1
        sent_s = self._clock.elapsed_s()
        clock = self._clock
        presence = Presence(
            self._counter, clock.wall_ms(), {GROUP: term}, self._seq(), is_clock_believed=clock.is_believed
        )
        try:
            await self._store.put(self._name, presence)
        except Conflict as over:
            log.warning("presence refused, the term is over", term=term, reason=over.message)
            self._office.deposed(term)
            return True
        except JournalError as wrong:
            self._complain(wrong, sent_s)
            return False
        self._is_listed, self.problem = True, ""
        self._office.present(sent_s, term)
        if (silent_s := self._nag.over()) is not None:
            log.info("presence acknowledged again", after_s=silent_s)
        return True

    async def _unlist(self, wedged: str) -> bool:
        """One record without the group: it has no lease, and nobody needs to wonder why."""
        if not self._is_listed:
            return True
        log.error("leader is wedged, its lease is not renewed", reason=wedged)
        self._counter += 1
        with contextlib.suppress(JournalError):
            await self._store.put(self._name, Presence(self._counter, self._clock.wall_ms(), {}, self._seq()))
            self._is_listed = False
        return True

    def _complain(self, wrong: JournalError, sent_s: float) -> None:
        self.problem = f"the lease cannot be renewed: {wrong.message}"
        self._nag.began(sent_s)
        if self._nag.is_due("presence", after_s=SILENCE_S):
            log.error(
                "no majority: the lease cannot be renewed, nothing can be launched from here",
                reason=wrong.message,
                for_s=self._nag.lasted_s,
            )


class Observer:
    """Notices when the presence of another replica arrives. While this one leads, there is only its own: a term that is
    over is told by the journal, which refuses what is written in it."""

    def __init__(
        self,
        store: PresenceStore,
        office: ElectedOffice,
        turns: Turns,
        clock: Clock,
        seq: Callable[[], int],
    ) -> None:
        self._store = store
        self._office = office
        self._turns = turns
        self._seq = seq
        self._clock = clock
        self._nag = Nag(clock)

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._turns.until(stop, is_leading=False)
            try:
                await self._watch(stop)
            except JournalError as wrong:
                if self._nag.is_due(wrong.message):
                    log.warning("presence cannot be watched", reason=wrong.message, for_s=self._nag.lasted_s)
            await self._clock.wait(stop, WATCH_AGAIN_S)

    async def _watch(self, stop: asyncio.Event) -> None:
        records = self._store.watch()
        async with contextlib.aclosing(records):  # type: ignore[type-var]  # why: engines write it as a generator
            asked_s = self._clock.elapsed_s()
            async for seen in records:
                if self._office.term is not None:
                    return
                now_s = self._clock.elapsed_s()
                if now_s - asked_s > FRESH_S:
                    # This process stood still. What has arrived meanwhile tells the time of then, so it is asked anew.
                    return
                asked_s = now_s
                self._office.told_s(self._seq())  # was the one before applied?
                self._office.observed_presence(seen, self._clock.elapsed_s(), self._clock.wall_ms())
                self._nag.over()
                if stop.is_set():
                    return


class PresencePart:
    """All of it together, on one loop."""

    def __init__(
        self,
        office: ElectedOffice | SoleOffice,
        heartbeat: Heartbeat | None,
        observer: Observer | None,
        witness: ClockWitness | None,
        store: PresenceStore | None,
        probe: DiskProbe,
        liveness: Liveness,
        clock: Clock,
        host: Host,
    ) -> None:
        self._office = office
        self._heartbeat = heartbeat
        self._observer = observer
        self._witness = witness
        self._store = store
        self._probe = probe
        self._liveness = liveness
        self._clock = clock
        self._host = host
        self.disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk-probe")
        self._nag = Nag(clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_stopping = False

    @property
    def problem(self) -> str:
        return "" if self._heartbeat is None else self._heartbeat.problem

    async def run(self) -> None:
        await self._host(self._main)

    def stop(self) -> None:
        self._is_stopping = True
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stop.set)

    async def _main(self) -> None:
        self._stop = stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._is_stopping:
            stop.set()
        running = [asyncio.create_task(self._probe_disk(stop), name="disk probe")]
        if self._heartbeat is None:
            running.append(asyncio.create_task(self._tick(stop), name="tick"))
        else:
            running.append(asyncio.create_task(self._heartbeat.run(stop), name="heartbeat"))
        if self._observer is not None:
            running.append(asyncio.create_task(self._observer.run(stop), name="observer"))
        if self._witness is not None:
            running.append(asyncio.create_task(self._witness.run(stop), name="clock witness"))
        running.append(asyncio.create_task(self._judge(stop), name="liveness"))
        try:
            # The heartbeat decides when it is over; an observer waits for what may never come.
            left = set(running)
            while running[1] in left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self.disk.shutdown(wait=False)
            if self._store is not None:
                await self._store.close()

    async def _tick(self, stop: asyncio.Event) -> None:
        assert isinstance(self._office, SoleOffice)
        self._office.tick()
        while not await self._clock.wait(stop, TICK_S):
            self._office.tick()

    async def _judge(self, stop: asyncio.Event) -> None:
        """Goes on while a leader that is stopping resigns."""
        while True:
            self._liveness.judge()
            if await self._clock.wait(stop, JUDGE_S):
                await asyncio.sleep(JUDGE_S)

    async def _probe_disk(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = self._clock.elapsed_s()
            try:
                await loop.run_in_executor(self.disk, self._probe.write, self._clock.wall_ms())
                self._liveness.wrote(began_s)
            except OSError as wrong:
                if self._nag.is_due(str(wrong)):
                    log.error("the data directory takes no writes", reason=str(wrong))
            if await self._clock.wait(stop, PROBE_S):
                return
