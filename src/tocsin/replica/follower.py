"""Following: what others write is applied here, so that this replica can take over at any moment.

The moment at which an entry arrives is what counts for the office, not the one at which it is applied.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalError
from tocsin.journal.contract import Journal, Record, check_end
from tocsin.model import change as c
from tocsin.model.entry import Position
from tocsin.replica.applying import Applier, Landed
from tocsin.replica.nagging import Nag
from tocsin.replica.office import Office
from tocsin.state.store import Store, is_damage

log = structlog.get_logger()
ASK_AHEAD_S = 0.5
"""The others are asked whether this replica may stand so long before the office opens: a dead one keeps silent."""
AHEAD = 256
"""So many entries are read before they are applied."""


class _Arrived(NamedTuple):
    record: Record
    at_s: float


class Follower:
    """Applies what it reads, until the office is open to this replica."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        applier: Applier,
        office: Office,
        clock: Clock,
        on_state: Callable[..., Awaitable[Any]],
        on_clock_set: Callable[[int], None] = lambda now_ms: None,
    ) -> None:
        """``on_clock_set`` is told what time it was when an entry arrived by which a person confirmed the clock."""
        self._on_clock_set = on_clock_set
        self._journal = journal
        self._store = store
        self._applier = applier
        self._office = office
        self._clock = clock
        self._on_state = on_state
        self._stop = asyncio.Event()
        self._nag = Nag(clock)
        self._followed = ("", 0)
        self.problem = ""
        self.heard_s = clock.elapsed_s()
        """When the journal was last heard from."""

    def stop(self) -> None:
        self._stop.set()

    async def follow(self, may_stand: Callable[[], Awaitable[bool]]) -> None:
        """Returns when nobody has been in office for long enough and this replica may stand, or after ``stop``."""
        arrived: asyncio.Queue[_Arrived] = asyncio.Queue(AHEAD)
        reading = asyncio.create_task(self._read(arrived), name="journal reader")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        getting: asyncio.Task[_Arrived] | None = None
        permission = _Permission(may_stand)
        try:
            while not self._stop.is_set():
                opens_in_s = self._office.opens_in_s()
                asking = permission.asked(opens_in_s) if arrived.empty() else []
                if arrived.empty() and opens_in_s <= 0 and permission.is_given():
                    return
                getting = getting or asyncio.create_task(arrived.get(), name="next entry")
                events: list[asyncio.Future[Any]] = [getting, reading, stopping, *asking]
                done, _ = await asyncio.wait(
                    events,
                    timeout=_patience_s(opens_in_s),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if getting in done:
                    got, getting = getting.result(), None
                    await self._take([got, *_all_of(arrived)])
                if reading in done:
                    reading.result()  # it ends only with an error
        finally:
            permission.withdraw()
            waiting = [task for task in (reading, stopping, getting) if task is not None]
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _read(self, arrived: asyncio.Queue[_Arrived]) -> None:
        """A journal that does not answer is asked again; a gap is the end."""
        after = self._store.meta.position
        while not self._stop.is_set():
            try:
                records = self._journal.read(after.seq, after.id)
                async with contextlib.aclosing(records):  # type: ignore[type-var]  # why: engines write it as a generator
                    async for record in records:
                        self.heard_s = self._clock.elapsed_s()
                        self.problem = ""
                        if (silent_s := self._nag.over()) is not None:
                            log.info("the journal can be read again", after_s=silent_s)
                        await arrived.put(_Arrived(record, self.heard_s))
                        after = Position(record.seq, record.id)
            except JournalError as wrong:
                if not wrong.retryable:
                    raise
                self.problem = str(wrong)
                if self._nag.is_due(self.problem):
                    log.warning("the journal cannot be read", reason=self.problem, for_s=self._nag.lasted_s)
            await self._clock.wait(self._stop, 0.3)

    async def _take(self, news: list[_Arrived]) -> None:
        landed = [self._applier.landed(record) for record, _ in news]
        await self._apply(landed)
        for (_, at_s), each in zip(news, landed, strict=True):
            for change in each.entry.changes:
                if isinstance(change, c.ClockSet) and change.actor:
                    self._on_clock_set(change.now_ms + round((self._clock.elapsed_s() - at_s) * 1000))
        meta = self._store.meta
        self._office.observed(news[-1].at_s, term=meta.term, is_vacant=not meta.leader)
        self._applier.applied.notice(self._store.meta.seq)
        self._tell_leader()

    def _tell_leader(self) -> None:
        """Once per term."""
        meta = self._store.meta
        if meta.leader and (meta.leader, meta.term) != self._followed:
            self._followed = (meta.leader, meta.term)
            log.info("follows", leader=meta.leader, term=meta.term)

    async def _apply(self, landed: list[Landed]) -> None:
        """Where there is no room to apply them, there is no way but to wait: they are the truth already."""
        while not self._stop.is_set():
            try:
                await self._on_state(self._applier.apply_all, landed)
                self.problem = ""
                return
            except sqlite3.OperationalError as wrong:
                if is_damage(wrong):
                    raise
                self.problem = f"entry {landed[0].seq} cannot be applied yet: {wrong}"
                log.error("cannot apply", seq=landed[0].seq, reason=str(wrong))
                await self._clock.wait(self._stop, 1.0)


class _Permission:
    """To stand for office, which the others are asked for when it is about to open, and each time anew."""

    def __init__(self, may_stand: Callable[[], Awaitable[bool]]) -> None:
        self._may_stand = may_stand
        self._asking: asyncio.Future[bool] | None = None

    def asked(self, opens_in_s: float) -> list[asyncio.Future[bool]]:
        """What is to be waited for."""
        if opens_in_s > ASK_AHEAD_S:
            self.withdraw()
        elif self._asking is None:
            self._asking = asyncio.ensure_future(self._may_stand())
        return [] if self._asking is None or self._asking.done() else [self._asking]

    def is_given(self) -> bool:
        if self._asking is None or not self._asking.done():
            return False
        is_given, self._asking = self._asking.result(), None
        return is_given

    def withdraw(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None


def _patience_s(opens_in_s: float) -> float:
    """Until it is time to ask, and then until it opens."""
    return min(max(0.05, opens_in_s - ASK_AHEAD_S if opens_in_s > ASK_AHEAD_S else opens_in_s), 60.0)


async def catch_up(
    journal: Journal, applier: Applier, store: Store, on_state: Callable[..., Awaitable[Any]]
) -> None:
    """Apply what the journal holds and the state does not have yet. Raises ChainBroken if it does not go on from
    there."""
    last, last_id = (await journal.bounds()).end
    if store.meta.seq >= last:
        check_end(Position(last, last_id), *store.meta.position)
        return
    log.info("replaying the journal", after=store.meta.seq, upto=last)
    records = journal.read(*store.meta.position)
    async with contextlib.aclosing(records):  # type: ignore[type-var]  # why: engines write it as a generator
        async for record in records:
            await on_state(applier.apply, applier.landed(record))
            applier.applied.notice(record.seq)
            if record.seq >= last:
                return


def _all_of(arrived: asyncio.Queue[_Arrived]) -> list[_Arrived]:
    found = []
    while not arrived.empty():
        found.append(arrived.get_nowait())
    return found
