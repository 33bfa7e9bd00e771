"""The loop that drives everything: read this first.

One turn: see what is due, gather what came back and what callers want, write it all as one entry, and only then act
on it. Decisions come first in the entry, because they were made on exactly the state that it is appended to;
callers' commands come last and are judged when they are applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.errors import JournalError, Stopping
from tocsin.model import change as c
from tocsin.model.command import Command
from tocsin.model.launch import LaunchState
from tocsin.observe.metrics import Metrics
from tocsin.replica import tally
from tocsin.replica.conclusion import conclude
from tocsin.replica.flight import flight_of_row, flights_of_starts
from tocsin.replica.launcher import Launcher, Reports
from tocsin.replica.office import Office
from tocsin.replica.outcomes import changes_of
from tocsin.replica.outlook import Outlook
from tocsin.replica.proposer import Proposer
from tocsin.replica.scheduler import Agenda, agenda
from tocsin.replica.wishes import Wish, Wishes, prepared, settle
from tocsin.state import queries
from tocsin.state.store import Store

log = structlog.get_logger()

DUE_AT_ONCE = 5_000
HEARTBEAT_S = 1.0
ABSENCE_MS = 5_000
"""A turn that comes so much later than planned means that nobody was able to act: suspend, stall, a clock's step."""
RETENTION_EVERY_S = 60.0
FORGOTTEN_AT_ONCE = 10_000
RENEWED_EVERY_MS = 60_000
"""The journal hears this often that somebody is in office, so that an absence is not taken for longer than it was."""


class Tick(NamedTuple):
    """What one turn did."""

    started: int = 0
    skipped: int = 0
    ended: int = 0
    commands: int = 0
    next_ms: int | None = None
    more: bool = False

    def __str__(self) -> str:
        parts = [f"{count} {word}" for word, count in zip(self._fields[:4], self[:4], strict=True) if count]
        return ", ".join(parts) or "nothing to do"


class Leader:
    """One term in office."""

    def __init__(
        self,
        *,
        name: str,
        store: Store,
        office: Office,
        proposer: Proposer,
        launcher: Launcher,
        clock: Clock,
        metrics: Metrics,
        retention: Retention,
        on_state: Callable[..., Awaitable[Any]],
        wake: asyncio.Event,
    ) -> None:
        self._name = name
        self._store = store
        self._office = office
        self._proposer = proposer
        self._launcher = launcher
        self._clock = clock
        self._metrics = metrics
        self._retention = retention
        self._on_state = on_state
        self._wake = wake
        self._wishes = Wishes(wake.set)
        self._outlook = Outlook()
        self._stopping = False
        self._term = 0
        self._alive_ms = 0
        self._retained_s = clock.elapsed_s()
        self._looked_upto_lid = self._looked_upto_sid = 0
        self.ready = asyncio.Event()

    # What others may ask of it

    async def propose(self, command: Command) -> Any:
        """Carry out a command. Returns when it is durable and applied; raises if it was refused."""
        return await self._wishes.make(command)

    def stop(self) -> None:
        self._stopping = self._proposer.stopping = True
        self._wake.set()

    # Its life

    async def run(self) -> None:
        try:
            await self._take_office()
            await self._conclude_open_launches()
            self.ready.set()
            while not self._stopping:
                tick = await self.turn()
                if not tick.more:
                    await self._sleep(tick.next_ms)
            await self._resign()
        except Stopping as unfinished:
            log.warning("stopped with an entry that is not applied yet", reason=str(unfinished))
        finally:
            self._wishes.close()

    async def turn(self) -> Tick:
        """One turn of the loop."""
        now_ms = self._clock.wall_ms()
        if await self._noticed_absence(now_ms):
            return Tick(more=True)
        plan: Agenda = await self._on_state(
            agenda, self._store, now_ms, DUE_AT_ONCE, self._launcher.room(), self._outlook
        )
        for id, reason in plan.decision.unreadable.items():
            log.error("a schedule cannot be read on this machine", schedule=id, reason=reason)
        reports = self._launcher.take()
        commands, wishes = await self._on_state(prepared, self._store.db, self._wishes.take(), now_ms)
        forgotten = await self._forgettable(now_ms)
        outcomes = changes_of(reports, self._launcher.targets, now_ms)
        changes = [*plan.changes(), *forgotten, *outcomes, *commands]
        if not changes and now_ms - self._store.meta.time_ms > RENEWED_EVERY_MS:
            changes = [c.Renewed()]
        if changes:
            try:
                results = await self._proposer.commit(changes, self._term, now_ms)
            except JournalError as refused:
                return await self._not_written(refused, reports, wishes)
            await self._act(plan, changes, results, now_ms)
            for wish, result in zip(wishes, results[len(changes) - len(commands) :], strict=True):
                settle(wish.answer, result)
            tally.count(self._metrics, plan, reports, self._launcher.targets, self._clock.wall_ms())
        self._alive_ms = now_ms
        return await self._summary(plan, reports, wishes)

    async def _take_office(self) -> None:
        now_ms = self._alive_ms = self._clock.wall_ms()
        self._term = self._store.meta.term + 1
        while True:
            try:
                await self._proposer.commit([c.TookOffice(self._term, self._name)], self._term, now_ms)
                break
            except JournalError as refused:
                if not refused.retryable:
                    raise
                log.warning("cannot take office yet", reason=str(refused))
                await self._clock.wait(asyncio.Event(), HEARTBEAT_S)
                now_ms = self._alive_ms = self._clock.wall_ms()
        log.info("took office", term=self._term, replica=self._name)
        if self._term > 1:
            self._metrics.absences.inc()

    async def _conclude_open_launches(self) -> None:
        rows = await self._on_state(queries.handed_over, self._store.db)
        flights = [flight_of_row(row, self._term) for row in rows]
        await conclude(flights, self._launcher, self._metrics)
        for flight in flights:
            if flight.cancel is not None:
                self._launcher.cancel(flight.lid, flight.cancel)

    async def _noticed_absence(self, now_ms: int) -> bool:
        """Was there a time in which nobody acted (suspend, stall, a clock's step, a full disk)? Then the journal
        hears of it before anything is decided."""
        since_ms = self._alive_ms
        if now_ms < self._store.meta.present_since_ms:
            # The clock was put back to before the beginning of this presence: it begins now.
            since_ms = now_ms
        elif now_ms - since_ms < ABSENCE_MS + HEARTBEAT_S * 1000:
            return False
        try:
            await self._proposer.commit([c.Returned(since_ms)], self._term, now_ms)
        except JournalError as refused:
            await self._not_written(refused, Reports(), [])
            return True
        if since_ms < now_ms:
            log.warning("nobody was able to act", seconds=round((now_ms - since_ms) / 1000, 1))
            self._metrics.absences.inc()
        else:
            log.warning("the clock was put back")
        self._alive_ms = now_ms
        return True

    async def _act(self, plan: Agenda, changes: list[c.Change], results: list[Any], now_ms: int) -> None:
        """The entry is durable: only now do targets hear of it."""
        lids: list[int] = list(plan.attempts.lids)
        requested: list[int] = []
        for change, result in zip(changes, results, strict=True):
            if isinstance(change, c.LaunchesStarted):
                rows = plan.decision.started_rows
                self._launcher.hand_over(flights_of_starts(rows, result, self._term, now_ms))
            elif isinstance(change, c.CancelsOrdered):
                for lid, reason in zip(change.lids, change.reasons, strict=True):
                    self._launcher.cancel(lid, reason)
            elif isinstance(change, c.CancelRequested) and isinstance(result, int):
                self._launcher.cancel(result, change.reason)
            elif isinstance(change, c.LaunchRequested | c.LaunchResolved) and isinstance(result, int):
                requested.append(result)
        if lids or requested:
            rows = await self._on_state(queries.orders, self._store.db, lids + requested)
            started = [flight_of_row(row, self._term) for row in rows if row.state == LaunchState.STARTED]
            self._launcher.hand_over(started)
        if requested:
            # A run-now may replace what is open: which, was found out when it was applied.
            for lid, reason in await self._on_state(queries.to_be_cancelled, self._store.db):
                self._launcher.cancel(lid, reason)

    async def _not_written(self, refused: JournalError, reports: Reports, wishes: list[Wish]) -> Tick:
        """Nothing landed: callers are told, outcomes are kept, decisions are made anew when it works again."""
        if not refused.retryable:
            raise refused
        self._launcher.give_back(reports)
        for wish in wishes:
            settle(wish.answer, refused)
        log.error("nothing can be written down, so nothing is launched", reason=str(refused))
        await self._clock.wait(asyncio.Event(), HEARTBEAT_S)
        return Tick(more=not self._stopping)

    async def _resign(self) -> None:
        """Write down what is known, and let somebody else take over at once."""
        await self._launcher.drain(grace_s=10.0)
        now_ms = self._clock.wall_ms()
        try:
            while self._launcher.pending:
                outcomes = changes_of(self._launcher.take(), self._launcher.targets, now_ms)
                await self._proposer.commit(outcomes, self._term, now_ms)
            await self._proposer.commit([c.Resigned()], self._term, now_ms)
        except JournalError as refused:
            log.warning("left office without a word", reason=str(refused))

    # Small steps

    async def _forgettable(self, now_ms: int) -> list[c.Change]:
        """Now and then, what history is to be forgotten."""
        if self._clock.elapsed_s() - self._retained_s < RETENTION_EVERY_S:
            return []
        keep = self._retention
        before_ms = now_ms - keep.age_ms
        db = self._store.db
        old, self._looked_upto_lid = await self._on_state(
            queries.forgettable, db, self._looked_upto_lid, before_ms, keep.total, FORGOTTEN_AT_ONCE
        )
        many, self._looked_upto_sid = await self._on_state(
            queries.surplus, db, self._looked_upto_sid, keep.each, FORGOTTEN_AT_ONCE
        )
        lids = sorted({*old, *many})
        has_more = await self._on_state(queries.has_old_records, db, before_ms)
        if not self._looked_upto_lid and not has_more:
            # Once through: rest until the next time.
            self._retained_s = self._clock.elapsed_s()
        return [c.HistoryForgotten(lids, before_ms)] if lids or has_more else []

    async def _summary(self, plan: Agenda, reports: Reports, wishes: list[Wish]) -> Tick:
        next_ms: int | None = await self._on_state(self._outlook.next_wake_ms, self._store.db)
        decided = len(plan.decision.sids) + len(plan.attempts.lids)
        overdue = next_ms is not None and next_ms <= self._clock.wall_ms()
        return Tick(
            started=decided,
            skipped=len(plan.decision.skipped.sids),
            ended=len(reports.ended),
            commands=len(wishes),
            next_ms=next_ms,
            # What ended may have let something that waited for it go.
            more=overdue or bool(self._wishes or reports.ended) or self._launcher.pending,
        )

    async def _sleep(self, next_ms: int | None) -> None:
        """Until something is due, something comes back, somebody asks, or a heartbeat has passed."""
        seconds = HEARTBEAT_S
        if next_ms is not None:
            seconds = min(seconds, max(0.0, (next_ms - self._clock.wall_ms()) / 1000))
        await self._clock.wait(self._wake, seconds)
        self._wake.clear()
