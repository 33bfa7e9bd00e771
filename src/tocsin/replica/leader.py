"""The loop that drives everything: read this first.

One turn: see what is due, gather what came back and what callers want, write it all as one entry, and only then act
on it. Decisions come first in the entry, because they were made on exactly the state that it is appended to;
callers' commands come last and are judged when they are applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from tocsin.decide.due import DueRow
from tocsin.errors import (
    ChainBroken,
    Deposed,
    DeposedInDoubt,
    JournalError,
    NoLeader,
    Refused,
    Stopping,
    TocsinError,
    Uncertain,
)
from tocsin.journal.codec import CHANGES_BYTES_MAX
from tocsin.model import change as c
from tocsin.model.command import Command
from tocsin.model.launch import LaunchState
from tocsin.replica import tally
from tocsin.replica.clock_watch import ClockWatch
from tocsin.replica.conclusion import Concluder
from tocsin.replica.elsewhere import ASK_EVERY_S, DOUBTED_MAX, Elsewhere
from tocsin.replica.flight import Again, flight_of_row, flights_of_starts
from tocsin.replica.forgetting import Forgetting
from tocsin.replica.iterations import Iterations
from tocsin.replica.lanes import PAYLOAD_BYTES_OUTSTANDING_MAX, Room
from tocsin.replica.launcher import Launcher
from tocsin.replica.limited import outlook_for
from tocsin.replica.nagging import Nag
from tocsin.replica.outcomes import changes_of, resolutions
from tocsin.replica.proposer import Proposer
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import Agenda, agenda, nothing
from tocsin.replica.surroundings import Surroundings
from tocsin.replica.terms import settle
from tocsin.replica.vigil import HEARTBEAT_S, Vigil
from tocsin.replica.wishes import COMMANDS_AT_ONCE, Prepared, Wish, Wishes, prepared, size_of
from tocsin.state import queries

log = structlog.get_logger()

DUE_AT_ONCE = 5_000
DUE_WHEN_ASKED = 1_200
"""While callers wait for answers a herd is taken up in smaller portions: each of them is a turn that they wait for."""
ASKED_S = 1.0
COMMANDS_BESIDE = 16
"""So many commands are carried out in a turn that also launches: each of them is a caller who then asks for more."""
HEARD_ROUNDS = 4
"""So often the event loop goes round after callers were answered: to write the answers, and to read what they ask for
next. Otherwise it would do so between a decision and its launch."""
GRACE_S = 10.0
_END_WAITING = (
    c.CancelsOrdered
    | c.CancelRequested
    | c.LaunchRequested
    | c.LaunchResolved
    | c.LaunchesEnded
    | c.AttemptsFailed
    | c.HandOversWithdrawn
    | c.SchedulePut
)
"""Changes that may end launches which wait to be called again. Where a former call of one may have gone out, it is put
in doubt when the change is applied."""
DOUBTED_FOR_MS = 3_600_000
"""So long a new leader still asks what became of a launch that was put in doubt."""


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
        around: Surroundings,
        *,
        term: int,
        former_terms: set[int],
        proposer: Proposer,
        launcher: Launcher,
        elsewhere: Elsewhere,
        forgetting: Forgetting,
        wake: asyncio.Event,
        on_won: Callable[[], None],
    ) -> None:
        """``on_won`` is called once the term has begun: a term whose election was lost is another one's."""
        self._around = around
        self._store = around.store
        self._clock = around.clock
        self._metrics = around.metrics
        self._on_state = around.on_state
        self._proposer = proposer
        self._launcher = launcher
        self._elsewhere = elsewhere
        self._forgetting = forgetting
        self._wake = wake
        self._on_won = on_won
        self._wishes = Wishes(wake.set)
        self._limits = around.limits
        self._outlook = outlook_for(around.limits, around.metrics)
        self._iterations = Iterations(around.clock, around.metrics)
        self._stopping = self._deposed = False
        self._vigil = Vigil(around.clock, around.office, around.checkpoint_every_s, around.checkpoint_seen_s)
        self._clock_watch = ClockWatch(
            around.clock, around.ask_clock, around.seen_clock, is_sole=around.is_sole
        )
        self._clock_off_ms = 0
        """By how much this machine's clock is known to be wrong: only what is written last knows of it."""
        self._told: dict[asyncio.Task[None], None] = {}
        self._uncancelled = Nag(around.clock)
        self._former_terms = former_terms
        self.term = term
        self._doubt_tally = tally.DoubtTally()
        self._asked_s = 0.0
        self._had_many = self._is_short = False
        self.ready = asyncio.Event()

    # What others may ask of it

    async def propose(self, command: Command) -> Any:
        """Carry out a command. Returns when it is durable and applied; raises if it was refused."""
        return await self._wishes.make(self._clock_watch.check(command))

    def stop(self) -> None:
        """Resign."""
        self._stopping = True
        self._wake.set()

    def stop_for_good(self) -> None:
        """Resign, and do not wait for what cannot be applied."""
        self._proposer.stopping = True
        self.stop()

    def depose(self, term: int) -> None:
        """Somebody who leads in that term says so: ours is over, if it was an earlier one."""
        if term > self.term:
            self._deposed = True
            self._launcher.close()
            self._wake.set()

    # Its life

    async def run(self) -> None:
        """Returns after resigning. Raises Deposed when another took office (or took it first)."""
        asking = asyncio.create_task(self._elsewhere.run(), name="elsewhere")
        try:
            await self._take_office()
            await self._conclude_open_launches()
            self.ready.set()
            while not self._stopping:
                self._iterations.begin()
                tick = await self.turn()
                self._around.liveness.iterated()
                self._iterations.end(is_full=tick.more, is_shared=self._had_many)
                if not tick.more:
                    await self._sleep(tick.next_ms)
                elif tick.commands:
                    await self._hear()
            await self._resign()
        except Stopping as unfinished:
            log.warning("stopped with an entry that is not applied yet", reason=str(unfinished))
        finally:
            self._launcher.close()
            self._around.office.ended()
            self._wishes.close(NoLeader("this replica has left office", hint="try again in a moment"))
            for task in (asking, *self._told):
                task.cancel()
            await asyncio.gather(asking, *self._told, return_exceptions=True)

    async def turn(self) -> Tick:
        """One turn of the loop."""
        if self._deposed or self._around.office.is_over(self.term):
            raise Deposed("another replica leads")
        if not self._around.is_sole and not self._around.liveness.is_disk_alive:
            log.error("the disk takes no writes, stepping down", term=self.term)
            self.stop()
            return Tick()
        self._launcher.in_office(self.term)
        if await self._noticed_wrong_clock():
            return Tick()
        # Only now: the others may have been asked, and have said that it is another time.
        now_ms = self._clock.wall_ms()
        may_decide = self._clock_watch.may_decide()
        if may_decide and (await self._noticed_clock_again(now_ms) or await self._noticed_absence(now_ms)):
            return Tick(more=True)
        self._iterations.step("absence")
        portion = self._portion()
        # What a former term left open comes first to whatever room there is.
        room = self._launcher.room()
        again = self._elsewhere.take_again(room, may_call=may_decide)
        plan = await self._plan(now_ms, portion, room) if may_decide else nothing()
        self._iterations.step("decide")
        for id, reason in plan.decision.unreadable.items():
            log.error("a schedule cannot be read on this machine", schedule=id, reason=reason)
        reports, reported_ms = self._launcher.take(portion), self._clock.wall_ms()
        # A long list of schedules takes a while. Between two of them come the launches that have fallen due.
        is_busy = bool(plan.decision.sids)
        wishes = self._wishes.take(
            COMMANDS_BESIDE if is_busy else COMMANDS_AT_ONCE, with_many=not (is_busy and self._had_many)
        )
        asked = await self._prepared(wishes, now_ms)
        self._iterations.step("prepare")
        self._had_many = asked.many is not None
        is_behind = len(plan.decision.sids) >= portion
        forgotten = await self._forgetting.changes(now_ms, is_behind=is_behind) if may_decide else []
        self._iterations.step("retention")
        # Some of them are younger than this turn, if it was held up.
        outcomes = changes_of(reports, self._launcher.targets, reported_ms)
        told = self._elsewhere.take_resolved()
        changes = [
            *_attempts(again),
            *plan.changes(),
            *forgotten,
            *outcomes,
            *([c.Checkpoint()] if self._vigil.is_checkpoint_due() else []),
            *([] if may_decide else self._clock_watch.while_undecided(self._store.meta)),
            *resolutions(told, self._launcher.targets, reported_ms),
        ]
        asked = self._fitting(asked, changes)
        changes += asked.changes
        if changes:
            try:
                results = await self._proposer.commit(changes, self.term, now_ms)
            except (JournalError, Deposed, Stopping) as refused:
                self._launcher.give_back(reports)
                self._elsewhere.give_back(again, told)
                return await self._not_written(refused, asked)
            except BaseException:
                asked.fail(_uncertain(), _not_leading())
                raise
            self._iterations.appended(self._proposer.append_s)
            self._iterations.step("commit")
            self._launcher.written(reports)
            self._launcher.in_office(self.term)
            await self._free_places(reports)
            await self._call_again(again)
            try:
                await self._act(plan, changes, results, now_ms)
            finally:  # whatever becomes of the launches, what was asked for is done
                asked.settle(results[len(changes) - len(asked.changes) :])
            tally.count(self._metrics, plan, reports, self._launcher.targets, self._clock.wall_ms())
            if any(isinstance(change, _END_WAITING) for change in changes):
                self._doubt_tally.reported(outcomes, now_ms)
                await self._count_unreported(now_ms, tally.resolved(changes, results))
                async for rows in self._open_portions(list(tally.cancelled(changes, results))):
                    tally.count_cancelled(self._metrics, rows)
            self._iterations.step("act")
        elif self._around.office.holds():
            asked.settle([])
        else:  # another replica may lead by now, and know better
            asked.fail(_not_leading(), _not_leading())
        return await self._summary(plan, reports, asked.wishes, may_decide, is_changed=bool(changes))

    async def _plan(self, now_ms: int, portion: int, room: Room) -> Agenda:
        """What is due, decided."""
        limited = self._limits.room(room)
        plan: Agenda = await self._on_state(agenda, self._store, now_ms, portion, limited, self._outlook)
        return plan

    async def _prepared(self, wishes: list[Wish], now_ms: int) -> Prepared:
        if not wishes:
            return Prepared([], [], None, [])
        found: Prepared = await self._on_state(prepared, self._store.db, wishes, now_ms)
        return found

    def _fitting(self, asked: Prepared, others: list[c.Change]) -> Prepared:
        """An entry has a greatest size. What is decided is bounded; what callers want fills the rest of it."""
        asked, left = asked.within(CHANGES_BYTES_MAX - size_of(others))
        # Nobody waits for ever because there is always more to decide.
        self._is_short = bool(left) and not asked.wishes
        if self._is_short and not others:
            too_large = Refused("it is too large to be written down", hint="send less at once")
            asked.answered.append((left[0], too_large))
            left = left[1:]
        self._wishes.give_back(left)
        return asked

    async def _take_office(self) -> None:
        around = self._around
        since_ms = around.lost_since_ms()
        if since_ms is not None and not around.is_sole and await around.is_clock_off_to_all():
            # Until when launches are in doubt is told by the clock of whoever says that the record was lost.
            raise Deposed("the clock here is off, and the record was lost: another one is to say until when")
        while True:
            now_ms, former = self._clock.wall_ms(), self._store.meta.leader
            heard_ms = min(around.office.heard_ms(former), now_ms)
            is_counted, is_timed = self._clock.is_counted, self._clock.is_believed
            changes: list[c.Change] = [c.TookOffice(self.term, around.name, heard_ms, is_counted, is_timed)]
            if since_ms is not None:
                changes.append(c.Restored(since_ms, self._clock.is_believed))
            try:
                id = self._proposer.new_id()
                await self._on_state(settle, around.own_terms, self._store)
                await asyncio.to_thread(around.own_terms.claim, self.term, id)
                around.liveness.iterated()
                election = around.office.election(self.term, former)
                await self._proposer.commit(changes, self.term, now_ms, election, id)
                break
            except JournalError as refused:
                if not refused.retryable or not around.is_sole:
                    raise  # of several replicas another one may be able to
                log.warning("cannot take office yet", reason=str(refused))
                await self._clock.wait(asyncio.Event(), HEARTBEAT_S)
        self._clock.noted()
        around.own_terms.won(self.term)
        around.own_terms.in_office()
        self._on_won()
        log.info("took office", term=self.term, replica=around.name)
        if since_ms is not None:
            await self._count_unreported(now_ms)
            around.losses.noted()
            log.warning(
                "the record since that moment is lost: what fell due since may have been launched",
                since=datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="seconds"),
                remedy="under on_doubt 'skip' it is not repeated; 'tocsin why' tells for each schedule",
            )
        if self.term > 1:
            self._metrics.absences.inc()

    async def _conclude_open_launches(self) -> None:
        """In portions, whatever their number and the size of their payloads. What is to be called again is called by
        the first turns, as far as there is room."""
        around, db = self._around, self._store.db
        self._limits.begin_term()
        concluder = Concluder(
            around.name, self._launcher, self._elsewhere, self._metrics, around.own_terms, around.answers
        )
        async for rows in self._open_portions(await self._on_state(queries.handed_over, db)):
            self._limits.count_open((row.lid, row.spec) for row in rows)
            for again in await concluder.conclude(rows, self.term, self._former_terms):
                self._elsewhere.add_again(again)
            for row in rows:
                if row.cancel is not None:
                    self._cancel(row.lid, row.cancel)
        if concluder.counts:
            log.info("concluded what was left open", **concluder.counts)
        await self._hold_places()
        if not around.is_sole:
            since_ms = self._clock.wall_ms() - DOUBTED_FOR_MS
            lids = await self._on_state(queries.doubted_since, db, since_ms, DOUBTED_MAX)
            async for rows in self._open_portions(lids):
                for row in rows:
                    self._elsewhere.add(flight_of_row(row, self.term), row.replica, row.term, is_doubted=True)

    async def _hold_places(self, ended_from_ms: int | None = None) -> None:
        """Launches of which a call may still run, as was found here or by a former leader, keep their places in
        limits."""
        if not self._limits:
            return
        now_ms = self._clock.wall_ms()
        held = dict(await self._on_state(queries.held, self._store.db, now_ms, ended_from_ms))
        async for rows in self._open_portions(list(held)):
            self._limits.count_open((row.lid, row.spec) for row in rows)
        self._limits.hold(held.items())

    async def _hold_as_recorded(self) -> None:
        """The clock was set: what keeps its place keeps it until another moment."""
        if self._limits:
            self._limits.hold(await self._on_state(queries.held, self._store.db, self._clock.wall_ms()))

    async def _open_portions(self, lids: Sequence[int]) -> AsyncIterator[list[queries.OrderRow]]:
        """These launches, each with its schedule. To read many takes its time: each portion counts as a turn."""
        while lids:
            rows, lids = await self._on_state(queries.orders_of_some, self._store.db, lids)
            yield rows
            self._around.liveness.iterated()

    async def _noticed_absence(self, now_ms: int) -> bool:
        """Was there a time in which nobody acted (suspend, stall, a clock's step, a full disk)? Then the journal
        hears of it before anything is decided."""
        since_ms = self._vigil.absent_since_ms(now_ms, self._store.meta)
        if since_ms is None:
            return False
        try:
            await self._proposer.commit([c.Returned(since_ms, self._clock.is_counted)], self.term, now_ms)
        except JournalError as refused:
            await self._not_written(refused, None)
            return True
        self._clock.noted()
        if since_ms < now_ms:
            log.warning("nobody was able to act", seconds=round((now_ms - since_ms) / 1000, 1))
            self._metrics.absences.inc()
        else:
            log.warning("the clock was put back")
        self._vigil.absence_noted(now_ms)
        return True

    async def _noticed_wrong_clock(self) -> bool:
        """Was this machine's clock put forward or back while the others' were not? Then it is not the one to decide
        what is due."""
        moved_ms = self._vigil.clock_moved_ms()
        if not await self._clock_watch.is_wrong(moved_ms):
            return False
        log.error("the wall clock here is wrong by those of the other replicas: leaving office")
        self._clock_off_ms = moved_ms
        self.stop()
        return True

    async def _noticed_clock_again(self, now_ms: int) -> bool:
        """Is the clock believed again, after it was not or at another time? Then the journal hears of it first."""
        changes = self._clock_watch.before_deciding(now_ms, self._store.meta)
        if not changes:
            return False
        try:
            await self._proposer.commit(changes, self.term, now_ms)
            self._clock_watch.heard()
            self._around.office.absence_noted(now_ms)
            await self._hold_as_recorded()
        except JournalError as refused:
            await self._not_written(refused, None)
        return True

    async def _act(self, plan: Agenda, changes: list[c.Change], results: list[Any], now_ms: int) -> None:
        """The entry is durable: only now do targets hear of it."""
        lids: list[int] = list(plan.attempts.lids)
        requested: list[int] = []
        cancelled: list[int] = []
        for change, result in zip(changes, results, strict=True):
            if isinstance(change, c.LaunchesStarted):
                rows, result = _that_started(plan.decision.started_rows, result)
                self._limits.started(zip(result, (row.spec for row in rows), strict=True))
                self._launcher.hand_over(flights_of_starts(rows, result, self.term, now_ms))
            elif isinstance(change, c.CancelsOrdered):
                for lid, reason in zip(change.lids, change.reasons, strict=True):
                    self._cancel(lid, reason)
            elif isinstance(change, c.ClockSet):
                self._clock_watch.confirmed(change, self._store.meta)
                self._around.office.absence_noted(change.now_ms)
                await self._hold_as_recorded()
            elif isinstance(change, c.CancelRequested) and isinstance(result, int):
                self._cancel(result, change.reason)
                cancelled.append(result)
            elif isinstance(change, c.LaunchRequested | c.LaunchResolved) and isinstance(result, int):
                self._elsewhere.forget(result)
                self._limits.ended([result])
                requested.append(result)
        await self._ask_after_doubted(cancelled)
        if lids or requested:
            await self._hand_over(lids + requested)
        if requested:
            # A run-now may replace what is open: which, was found out when it was applied.
            for lid, reason in await self._on_state(queries.to_be_cancelled, self._store.db):
                self._cancel(lid, reason)
        if any(isinstance(change, _END_WAITING) for change in changes):
            await self._hold_places(ended_from_ms=now_ms)

    async def _hand_over(self, lids: Sequence[int]) -> None:
        """Launches that were read back from the state. Where the memory for payloads is used up, they wait for room."""
        while lids:
            rows, lids = await self._on_state(queries.orders_of_some, self._store.db, lids)
            orders = [row for row in rows if row.state == LaunchState.STARTED]
            self._limits.started((row.lid, row.spec) for row in orders)
            flights = [flight_of_row(row, self.term) for row in orders]
            if self._launcher.payload_bytes < PAYLOAD_BYTES_OUTSTANDING_MAX:
                self._launcher.hand_over(flights)
            else:
                for flight in flights:
                    self._elsewhere.add_again(Again(flight, doubtful=False))

    async def _free_places(self, reports: Reports) -> None:
        """What has ended frees its places in limits. A launch of which a call may still run keeps them for a while,
        also if it is to be called again."""
        self._outlook.ended(reports.over())
        doubtful = list(reports.doubtful()) if self._limits else []
        held: dict[int, int] = {}
        if doubtful:
            now_ms = self._clock.wall_ms()
            held = dict(await self._on_state(queries.held_of, self._store.db, doubtful, now_ms))
        self._limits.ended(lid for lid in reports.over() if lid not in held)
        self._limits.hold(held.items())

    async def _call_again(self, again: Sequence[Again]) -> None:
        if large := {flight.lid: flight for flight, _ in again if flight.is_without_payload}:
            for row in await self._on_state(queries.orders, self._store.db, list(large)):
                large[row.lid].restore_payload(row.spec)
        for doubtful in (False, True):
            flights = [flight for flight, is_doubtful in again if is_doubtful is doubtful]
            if flights:
                self._launcher.hand_over(flights, doubtful=doubtful)

    async def _count_unreported(self, at_ms: int, resolved: Iterable[int] = ()) -> None:
        """Launches that were put in doubt when the entry of that moment was applied, and those whose doubt it ended."""
        doubted = await self._on_state(queries.doubted_at, self._store.db, at_ms)
        async for rows in self._open_portions([*resolved, *self._doubt_tally.uncounted(doubted, at_ms)]):
            tally.count_unreported(self._metrics, rows)

    def _cancel(self, lid: int, reason: str) -> None:
        """Wherever it runs."""
        self._elsewhere.cancelled(lid, reason)
        self._launcher.cancel(lid, reason)
        if self._elsewhere.host_of(lid) is not None:
            telling = asyncio.create_task(self._tell_to_cancel(lid, reason), name="cancel")
            self._told[telling] = None
            telling.add_done_callback(lambda done: self._told.pop(done, None))

    async def _ask_after_doubted(self, lids: Sequence[int]) -> None:
        """Launches of which somebody wants the end. The replica that was to call one in doubt is asked whether it runs,
        also if nobody has asked for a long time: if so, it is stopped."""
        if self._around.is_sole:
            return
        async for rows in self._open_portions([lid for lid in lids if not self._elsewhere.asks_after(lid)]):
            for row in rows:
                if row.state == LaunchState.IN_DOUBT and row.attempt:
                    self._elsewhere.add(flight_of_row(row, self.term), row.replica, row.term, is_doubted=True)

    async def _tell_to_cancel(self, lid: int, reason: str) -> None:
        """The replica where it runs, until it has heard or the launch is over."""
        while (found := self._elsewhere.host_of(lid)) is not None:
            try:
                await self._around.cancel_elsewhere(*found, reason)
                return
            except TocsinError as wrong:
                if self._uncancelled.is_due(str(wrong)):
                    log.warning("launches that run elsewhere cannot be cancelled yet", reason=str(wrong))
            await self._clock.wait(asyncio.Event(), ASK_EVERY_S)

    async def _not_written(self, refused: TocsinError, asked: Prepared | None) -> Tick:
        """Nothing landed: callers are told, outcomes are kept, decisions are made anew when it works again."""
        self._outlook.forget()
        self._around.office.refused()
        is_certain = not isinstance(refused, (Stopping, ChainBroken, DeposedInDoubt))
        if not isinstance(refused, JournalError) or not refused.retryable:
            if asked is not None:
                asked.fail(_not_leading() if is_certain else _uncertain(), _not_leading())
            raise refused
        if asked is not None:
            asked.fail(refused, refused)
        self._proposer.complain(refused)
        self._iterations.step("commit")
        await self._clock.wait(asyncio.Event(), HEARTBEAT_S)
        self._iterations.paused()
        return Tick(more=not self._stopping)

    async def _resign(self) -> None:
        """Write down what is known, and let somebody else take over at once. Where somebody else can, nothing is waited
        for: the next leader asks after the calls that are under way."""
        if self._around.is_sole:
            await self._launcher.drain(grace_s=GRACE_S)
        else:
            self._launcher.close()
            self._launcher.revoke_unsent()
            await self._launcher.settled()
        self._launcher.withdraw(self._elsewhere.take_uncalled())
        now_ms = self._clock.wall_ms() - self._clock_off_ms
        try:
            changes: list[c.Change] = []
            reports = Reports()
            while self._launcher.pending:
                if changes:
                    await self._proposer.commit(changes, self.term, now_ms)
                    self._written_last(reports, now_ms)
                reports = self._launcher.take()
                changes = changes_of(reports, self._launcher.targets, now_ms)
            await self._proposer.commit([*changes, c.Resigned()], self.term, now_ms)
            self._written_last(reports, now_ms)
            log.info("resigned", term=self.term)
        except (JournalError, Deposed) as refused:
            log.warning("left office; it could not be written down", reason=str(refused))

    def _written_last(self, reports: Reports, now_ms: int) -> None:
        self._launcher.written(reports)
        tally.count_ends(self._metrics, reports, self._launcher.targets, now_ms)

    # Small steps

    def _portion(self) -> int:
        """How much of a herd is taken up in this turn."""
        now_s = self._clock.elapsed_s()
        if self._is_short:
            return 1
        if self._wishes:
            self._asked_s = now_s
        return self._iterations.portion(DUE_WHEN_ASKED if now_s - self._asked_s < ASKED_S else DUE_AT_ONCE)

    async def _summary(
        self, plan: Agenda, reports: Reports, wishes: list[Wish], may_decide: bool, *, is_changed: bool
    ) -> Tick:
        # What ended may have let something that waited for it go.
        more = bool(self._wishes or reports.ended) or self._launcher.pending
        more = more or self._elsewhere.is_pending(may_call=may_decide)
        next_ms: int | None = None
        if not more and may_decide:
            next_ms = plan.next_ms
            if is_changed:
                next_ms = await self._on_state(self._outlook.next_wake_ms, self._store.db)
            more = next_ms is not None and next_ms <= self._clock.wall_ms()
        return Tick(
            started=len(plan.decision.sids) + len(plan.attempts.lids),
            skipped=len(plan.decision.skipped.sids),
            ended=len(reports.ended),
            commands=len(wishes),
            next_ms=next_ms,
            more=more,
        )

    async def _hear(self) -> None:
        """Whoever was answered has its turn."""
        for _ in range(HEARD_ROUNDS):
            await asyncio.sleep(0)

    async def _sleep(self, next_ms: int | None) -> None:
        """Until something is due, something comes back, somebody asks, or a heartbeat has passed."""
        rest_s = self._vigil.rest_s(next_ms, is_lease_told=self._launcher.tells_lease)
        if self._clock_watch.may_decide():
            rest_s = min(rest_s, self._forgetting.rest_s())
        await self._clock.wait(self._wake, rest_s)
        self._wake.clear()


def _uncertain() -> Uncertain:
    return Uncertain(
        "it was not confirmed that it was written down: it may be carried out",
        hint="look before you try again",
    )


def _not_leading() -> NoLeader:
    return NoLeader("it is not certain any more that this replica leads", hint="try again in a moment")


def _that_started(rows: list[DueRow], lids: Sequence[int | None]) -> tuple[list[DueRow], Sequence[int]]:
    """Without those that could not be applied."""
    if isinstance(lids, range):
        return rows, lids
    started = [(row, lid) for row, lid in zip(rows, lids, strict=True) if lid is not None]
    return [row for row, _ in started], [lid for _, lid in started]


def _attempts(again: Sequence[Again]) -> list[c.Change]:
    """The journal hears who calls, before the call."""
    if not again:
        return []
    flights = [flight for flight, _ in again]
    doubtful = [is_doubtful for _, is_doubtful in again]
    return [
        c.AttemptsStarted(
            [flight.lid for flight in flights],
            [flight.order.attempt for flight in flights],
            doubtful if any(doubtful) else None,
        )
    ]
