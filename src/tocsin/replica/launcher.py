"""Orders go to their targets, outcomes come back. Only while in office, and only what the journal has heard of.

What is held here is what is going on right now. When the process dies nothing of it is needed: the journal knows
which launches are open, and the next leader concludes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.model.launch import LATE_REPEAT
from tocsin.replica.flight import CALLED_AT_ONCE_MS, Flight
from tocsin.replica.lanes import (
    BATCHED_OUTSTANDING_MAX,
    CALLS_OUTSTANDING_MAX,
    PAYLOAD_BYTES_OUTSTANDING_MAX,
    SHARED,
    Answers,
    Room,
    lane_of_target,
)
from tocsin.replica.office import Office
from tocsin.replica.reports import ENDS_AT_ONCE, EXPIRED_AT_ONCE, Reports, fitting
from tocsin.targets.contract import (
    SUCCEEDED,
    TOO_LATE,
    BatchTarget,
    ForgetfulTarget,
    Order,
    Outcome,
    PatientTarget,
    RevocableTarget,
    Target,
    Verdict,
    recognises,
)
from tocsin.targets.slots import Shares, Slots

log = structlog.get_logger()

CALLS_AT_ONCE = 256
"""Calls of one kind of target that are being made at the same time. What runs after it was accepted is not counted."""
_CALL, _WATCH = "call", "watch"
_Key = tuple[str, int]
"""A launch's name and the attempt."""


class Launcher:
    """Hands flights over and gathers how they ended."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        office: Office,
        clock: Clock,
        wake: Callable[[], None],
        counted_since_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """``counted_since_ms``: how long ago something was is known of what was after that moment."""
        self.targets = self._targets = dict(targets)
        self._office = office
        self._clock = clock
        self._wake = wake
        self._counted_since_ms = counted_since_ms
        self._in_batches = frozenset(k for k, target in targets.items() if isinstance(target, BatchTarget))
        self._patient = [target for target in targets.values() if isinstance(target, PatientTarget)]
        self._reports = Reports()
        self._unconfirmed: list[tuple[Flight, Outcome]] = []
        """Ends that were taken to be written down, and of which it is not certain yet that they were."""
        self._unconfirmed_uncalled: list[Flight] = []
        """The same of flights that were never called."""
        self._flying: dict[int, Flight] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began."""
        self._slots = {kind: Slots(CALLS_AT_ONCE, shared=kind in SHARED) for kind in targets}
        self._answers = Answers()
        self._tickets: dict[int, asyncio.Future[bool]] = {}
        """Flights that wait for a slot."""
        self._outstanding = {
            kind: Shares(
                BATCHED_OUTSTANDING_MAX if kind in self._in_batches else CALLS_OUTSTANDING_MAX,
                shared=kind in SHARED,
            )
            for kind in targets
        }
        """Flights by lane that no target has answered yet, those that wait for a slot among them."""
        self._payloads = Shares(PAYLOAD_BYTES_OUTSTANDING_MAX)
        """The same in bytes."""
        self._batches: dict[int, Sequence[Flight]] = {}
        """Batches that are under way."""
        self._batch_number = 0
        self._closed = False

    def target(self, kind: str) -> Target:
        return self._targets[kind]

    def may_repeat(self, flight: Flight) -> bool:
        """Is to call it again harmless, as of now?"""
        self._note_uncounted(flight)
        return recognises(self._targets[flight.kind], flight.order, self._clock.wall_ms())

    def _note_uncounted(self, flight: Flight) -> None:
        """Is it known how long ago its first call may have gone out? What was not counted once never will be."""
        if not flight.order.is_uncounted and flight.order.generated_at_ms <= self._counted_since_ms():
            flight.order = msgspec.structs.replace(flight.order, is_uncounted=True)

    async def recall(self, flights: Sequence[Flight]) -> None:
        """Before ``may_repeat`` is asked for these: find out for how long their receivers remember."""
        for kind, target in self._targets.items():
            if isinstance(target, ForgetfulTarget):
                specs = [flight.order.target for flight in flights if flight.kind == kind]
                if specs:
                    await target.recall(specs)

    @property
    def calls(self) -> int:
        """Flights handed over one by one that no target has answered yet."""
        return sum(shares.total for k, shares in self._outstanding.items() if k not in self._in_batches)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the schedules whose flights no target has answered yet."""
        return self._payloads.total

    def room(self) -> Room:
        """How much more may be started, as of now."""
        outstanding = {kind: shares.copy() for kind, shares in self._outstanding.items()}
        slots = {kind: slots.shares() for kind, slots in self._slots.items()}
        now_s = self._clock.elapsed_s()
        return Room(
            outstanding,
            self._in_batches,
            slots,
            lambda lane: self._answers.recent(lane, now_s),
            self._payloads.copy(),
        )

    def hand_over(self, flights: Sequence[Flight], *, doubtful: bool = False) -> None:
        """Make the calls. Returns at once. ``doubtful``: they may have been made before, by a former leader."""
        for flight in flights if doubtful else ():
            flight.doubted, flight.is_relaunch = True, False
        for flight in flights:
            if flight.doubted:
                self._note_uncounted(flight)
        for kind, some in _by_kind(flights).items():
            if kind in self._in_batches:
                self._outstanding[kind].take(kind, len(some))
                self._payloads.take(kind, sum([flight.size for flight in some]))
                self._spawn(self._launch_batch(kind, some), _CALL)
            else:
                for flight in some:
                    self._hand_over_one(flight)

    def _hand_over_one(self, flight: Flight) -> None:
        kind = flight.kind
        lane = lane_of_target(kind, flight.order.target)
        self._outstanding[kind].take(lane)
        self._payloads.take(lane, flight.size)
        self._flying[flight.lid] = flight
        self._spawn(self._launch(flight, lane), _CALL)

    def adopt(self, flight: Flight) -> None:
        """It runs already: wait for its end."""
        self._flying[flight.lid] = flight
        self._spawn(self._follow(flight), _WATCH)

    def note_running(self, flight: Flight, called_ms: int) -> None:
        """It runs on another replica: say so."""
        self.note_call(flight, called_ms)
        self._reports.accepted[flight.lid] = flight
        self._wake()

    def cancel(self, lid: int, reason: str) -> None:
        """Stop it, wherever it is on its way. It then ends as cancelled, unless it was faster."""
        flight = self._flying.get(lid)
        if flight is None:
            return
        flight.cancel = reason
        if not self._send_away(self._tickets.get(lid)):
            self._spawn(self._targets[flight.kind].cancel(flight.order), _CALL)

    def cancel_named(self, name: str, attempt: int, reason: str) -> bool:
        """The same, by name. False: it is not on its way here."""
        for lid, flight in self._flying.items():
            if (flight.order.name, flight.order.attempt) == (name, attempt):
                self.cancel(lid, reason)
                return True
        return False

    def report(self, flight: Flight, outcome: Outcome) -> None:
        """An attempt ended."""
        if not outcome.is_too_late and _was_not_made(flight, outcome):
            self._withdraw([flight])
            return
        self._note_uncounted(flight)
        if outcome.called_ms is not None:
            self.note_call(flight, outcome.called_ms)
        self._reports.accepted.pop(flight.lid, None)
        self._reports.ended.append((flight, outcome))
        self._wake()

    def note_call(self, flight: Flight, called_ms: int) -> None:
        """As its target tells it."""
        if self._targets[flight.kind].looks_up:
            flight.note_recorded_call(called_ms)
        else:
            flight.note_call(called_ms)

    def withdraw(self, flights: Sequence[Flight]) -> None:
        """They were to be called and will not be, by us."""
        self._withdraw(flights)

    def take(self, most: int = ENDS_AT_ONCE) -> Reports:
        """What came back since the last time, as much as fits into one entry."""
        reports, self._reports = self._reports, Reports()
        some = reports.ended[:most]
        reports.is_plain = [outcome.verdict for _, outcome in some].count(Verdict.SUCCEEDED) == len(some)
        count = len(some) if reports.is_plain else fitting(some)
        self._reports.ended = reports.ended[count:]
        del reports.ended[count:]
        if len(reports.accepted) > most:
            accepted = list(reports.accepted.items())
            reports.accepted, self._reports.accepted = dict(accepted[:most]), dict(accepted[most:])
        for kept, rest, some_most in (
            (reports.withdrawn, self._reports.withdrawn, most),
            (reports.expired, self._reports.expired, min(most, EXPIRED_AT_ONCE)),
        ):
            rest += kept[some_most:]
            del kept[some_most:]
        self._unconfirmed += reports.ended
        self._unconfirmed_uncalled += (*reports.withdrawn, *reports.expired)
        return reports

    @property
    def tells_lease(self) -> bool:
        """Does a target wait with calls for which it has to know how long the lease lasts?"""
        return bool(self._patient) and self.is_calling

    def in_office(self, term: int) -> None:
        """The lease may last longer than it did."""
        until_s = self._office.until_s()
        if until_s is not None:
            for target in self._patient:
                target.in_office(term, until_s)

    def written(self, reports: Reports) -> None:
        """What was taken stands in the journal."""
        self._unconfirmed, self._unconfirmed_uncalled = [], []
        for flight in reports.accepted.values():
            flight.called_ms = None

    def give_back(self, reports: Reports) -> None:
        """They could not be written down: keep them for the next time."""
        self._unconfirmed, self._unconfirmed_uncalled = [], []
        newer = self._reports
        self._reports = Reports(
            {**reports.accepted, **newer.accepted},
            [*reports.ended, *newer.ended],
            [*reports.withdrawn, *newer.withdrawn],
            [*reports.expired, *newer.expired],
        )
        for flight, _ in newer.ended:
            self._reports.accepted.pop(flight.lid, None)

    @property
    def pending(self) -> bool:
        return bool(self._reports)

    def close(self) -> None:
        """Make no more calls, from this moment on. Whatever waits for its turn is withdrawn."""
        self._closed = True
        for ticket in self._tickets.values():
            self._send_away(ticket)

    def revoke_unsent(self) -> None:
        """Calls that have not gone out yet are not made by this replica: they are withdrawn."""
        for target in self._targets.values():
            if isinstance(target, RevocableTarget):
                target.revoke_unsent()

    async def settled(self) -> None:
        """Flights that were sent away or revoked have been noted, and calls that end in this very moment."""
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def is_calling(self) -> bool:
        """Are calls under way whose answer is still to come? What runs after it was accepted is not counted."""
        return any(task.get_name() == _CALL for task in self._tasks)

    def unwritten(self) -> dict[_Key, Outcome | None]:
        """Everything that was handed over and is not written down yet, by name and attempt: how it ended, or None while
        it is under way. What was withdrawn is not in it: no call was made. Nor is what stands in the journal: doubt is
        kept in the launch's row."""
        found: dict[_Key, Outcome | None] = {
            _key(flight): None
            for flights in (self._flying.values(), *self._batches.values())
            for flight in flights
        }
        for flight, outcome in (*self._unconfirmed, *self._reports.ended):
            found[_key(flight)] = _with_call(flight, outcome)
        return found

    def calls_under_way(self) -> dict[_Key, int]:
        """When the calls were made that are under way, as far as that is known and not written down yet."""
        return {
            _key(flight): flight.called_ms for flight in self._flying.values() if flight.called_ms is not None
        }

    def uncalled(self) -> set[_Key]:
        """What was withdrawn, and is not written down yet: no call of it was made in this term, and none will be."""
        withdrawn = (*self._reports.withdrawn, *self._reports.expired, *self._unconfirmed_uncalled)
        return {_key(flight) for flight in withdrawn}

    async def drain(self, grace_s: float) -> None:
        """Make no more calls, take back those that have not gone out, give the others a moment to end, then let go.
        What runs elsewhere runs on."""
        self.close()
        self.revoke_unsent()
        calls = [task for task in self._tasks if task.get_name() == _CALL]
        if calls:
            await asyncio.wait(calls, timeout=grace_s)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            # A target never raises for what can go wrong with a call, so this is a defect: say so, loudly.
            log.error("a target broke its contract", exc_info=task.exception())

    async def _launch(self, flight: Flight, lane: str) -> None:
        try:
            outcome = await self._call_in_turn(flight, lane)
        except Exception as broken:  # noqa: BLE001  # why: a launch whose target is broken must not stay open for ever
            outcome = _broken(flight.kind, broken)
        finally:
            self._outstanding[flight.kind].give_back(lane)
            self._payloads.give_back(lane, flight.size)
            self._answers.note(lane, self._clock.elapsed_s())
        if outcome is None:
            self._withdraw([flight])
        elif outcome.verdict is Verdict.ACCEPTED:
            self._spawn(self._follow(flight), _WATCH)
        else:
            self._land(flight, outcome)

    async def _call_in_turn(self, flight: Flight, lane: str) -> Outcome | None:
        """None: the call was not made."""
        slots = self._slots[flight.kind]
        if not await self._slot(flight, slots, lane):
            return None
        try:
            return await self._call(flight)
        finally:
            slots.give_back(lane)

    async def _slot(self, flight: Flight, slots: Slots, lane: str) -> bool:
        """Wait for its turn, as long as its deadline allows. False: it shall not be called any more."""
        if slots.is_free(lane):
            return await slots.take(lane)
        if flight.cancel is not None or self._closed:
            return False
        ticket = self._tickets[flight.lid] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._left_s(flight)):
                return await slots.take(lane, ticket)
        except TimeoutError:
            return False
        finally:
            del self._tickets[flight.lid]

    def _send_away(self, ticket: asyncio.Future[bool] | None) -> bool:
        """Whoever waits for a slot does so no longer. False: nobody waited."""
        if ticket is None or ticket.done():
            return False
        ticket.set_result(False)
        return True

    def _left_s(self, flight: Flight) -> float | None:
        """Until its deadline has passed. None: it has none."""
        if flight.deadline_ms is None:
            return None
        return max(0.0, (flight.deadline_ms + 1 - self._clock.wall_ms()) / 1000)

    async def _call(self, flight: Flight) -> Outcome | None:
        """None: the call was not made."""
        now_ms = self._clock.wall_ms()
        if flight.cancel is not None or not self._may_call() or flight.is_late(now_ms):
            return None
        target = self._targets[flight.kind]
        outcome = await target.launch(self._empowered(flight, isinstance(target, PatientTarget)))
        if _was_not_made(flight, outcome):
            return None
        is_open = outcome.verdict in (Verdict.UNKNOWN, Verdict.ACCEPTED)
        if outcome.called_ms is None and target.looks_up and is_open:
            return outcome  # its record does not tell whether it was called
        self.note_call(flight, outcome.called_ms or now_ms)
        return outcome

    def _empowered(self, flight: Flight, is_patient: bool) -> Order:
        """With the end of our authority as it is known now, and the deadline: the target looks at them in the last
        moment."""
        order, until_s, left_s = _order_of(flight), self._office.until_s(), self._left_s(flight)
        deadline_s = None if left_s is None else self._clock.elapsed_s() + left_s
        if deadline_s is not None and not is_patient:
            until_s = deadline_s if until_s is None else min(until_s, deadline_s)
        if until_s is None and deadline_s is None:
            return order
        return msgspec.structs.replace(order, until_s=until_s, deadline_s=deadline_s)

    def _may_call(self) -> bool:
        return self._office.holds() and not self._closed

    def _withdraw(self, flights: Sequence[Flight]) -> None:
        """No call was made by this hand-over. Whoever comes next makes it, unless it is too late for that by then."""
        now_ms = self._clock.wall_ms()
        for flight in flights:
            self._flying.pop(flight.lid, None)
            self._reports.accepted.pop(flight.lid, None)
            flight.called_ms = None
            if flight.cancel is not None or not flight.is_late(now_ms):
                self._reports.withdrawn.append(flight)
            elif flight.doubted:
                self.report(flight, Outcome(Verdict.UNKNOWN, LATE_REPEAT, permanent=True))
            else:
                self._reports.expired.append(flight)
        self._wake()

    async def _follow(self, flight: Flight) -> None:
        """It runs: say so, and wait for its end. A record may tell that somebody is about to start it: then there is
        nothing to say until its start or its end is known."""
        target = self._targets[flight.kind]
        flight.drop_payload()
        if flight.called_ms is not None or not target.looks_up:
            self._reports.accepted[flight.lid] = flight
            self._wake()
        try:
            if flight.cancel is not None:
                await target.cancel(flight.order)
            outcome = await target.watch(flight.order)
        except Exception as broken:  # noqa: BLE001  # why: the same
            outcome = _broken(flight.kind, broken)
        if _was_not_made(flight, outcome):
            self._withdraw([flight])
        else:
            self._land(flight, outcome)

    def _land(self, flight: Flight, outcome: Outcome) -> None:
        self._flying.pop(flight.lid, None)
        self.report(flight, outcome)

    async def _launch_batch(self, kind: str, flights: Sequence[Flight]) -> None:
        target = self._targets[kind]
        assert isinstance(target, BatchTarget)
        outcomes: Sequence[Outcome]
        self._batch_number = number = self._batch_number + 1
        count, size = len(flights), sum([flight.size for flight in flights])
        flights = self._in_time(flights)
        now_ms = self._clock.wall_ms()
        try:
            if self._may_call():
                self._batches[number] = flights
                outcomes = await target.launch_batch(self._orders(flights, isinstance(target, PatientTarget)))
            else:
                outcomes = [TOO_LATE] * len(flights)
        except Exception as broken:  # noqa: BLE001  # why: the same
            outcomes = [_broken(kind, broken)] * len(flights)
        finally:
            self._outstanding[kind].give_back(kind, count)
            self._payloads.give_back(kind, size)
        self._batches.pop(number, None)  # not where the process lets go of it: then nobody knows its end
        is_plain = outcomes.count(SUCCEEDED) == len(flights)
        is_late = flights and now_ms - min(f.order.generated_at_ms for f in flights) > CALLED_AT_ONCE_MS
        if is_late or not is_plain:
            for flight, outcome in zip(flights, outcomes, strict=True):
                flight.note_call(outcome.called_ms or now_ms)
        if is_plain:
            self._reports.ended += zip(flights, outcomes, strict=True)
        else:
            self._land_batch(flights, outcomes)
        self._wake()

    def _in_time(self, flights: Sequence[Flight]) -> Sequence[Flight]:
        """Those whose deadline has not passed, and that nobody has cancelled. The others are reported."""
        now_ms = self._clock.wall_ms()
        over = [
            f
            for f in flights
            if f.cancel is not None or (f.deadline_ms is not None and now_ms > f.deadline_ms)
        ]
        if not over:
            return flights
        self._withdraw(over)
        return [flight for flight in flights if flight.cancel is None and not flight.is_late(now_ms)]

    def _orders(self, flights: Sequence[Flight], is_patient: bool) -> list[Order]:
        if self._office.until_s() is None and not any(f.doubted or f.deadline_ms for f in flights):
            return [flight.order for flight in flights]
        return [self._empowered(flight, is_patient) for flight in flights]

    def _land_batch(self, flights: Sequence[Flight], outcomes: Sequence[Outcome]) -> None:
        late = [flight for flight, outcome in zip(flights, outcomes, strict=True) if outcome.is_too_late]
        if late:
            self._withdraw(late)
        for flight, outcome in zip(flights, outcomes, strict=True):
            if not outcome.is_too_late:
                self._reports.ended.append((flight, outcome))


def _by_kind(flights: Sequence[Flight]) -> dict[str, Sequence[Flight]]:
    types = [type(flight.order.target) for flight in flights]
    if types and types.count(types[0]) == len(types):
        return {flights[0].kind: flights}
    found: dict[str, list[Flight]] = {}
    for flight in flights:
        found.setdefault(flight.kind, []).append(flight)
    return dict(found)


def _key(flight: Flight) -> _Key:
    return flight.order.name, flight.order.attempt


def _order_of(flight: Flight) -> Order:
    if not flight.doubted or flight.is_relaunch or flight.spec.on_doubt == "relaunch":
        return flight.order
    return msgspec.structs.replace(flight.order, is_repeat=True)


def _was_not_made(flight: Flight, outcome: Outcome) -> bool:
    """Is the attempt to be taken back? Only what is to be cancelled: anything else would begin again at once, and as
    long as a record tells the same again, without an end."""
    is_certain = outcome.is_uncalled or outcome.verdict is Verdict.NOT_STARTED
    return outcome.is_too_late or (is_certain and flight.cancel is not None)


def _with_call(flight: Flight, outcome: Outcome) -> Outcome:
    """As another replica is told of it."""
    if flight.called_ms is None or outcome.called_ms is not None:
        return outcome
    return msgspec.structs.replace(outcome, called_ms=flight.called_ms)


def _broken(kind: str, wrong: Exception) -> Outcome:
    """A target never raises for what can go wrong with a call, so this is a defect: say so, loudly."""
    log.error("a target broke its contract", kind=kind, exc_info=wrong)
    return Outcome(Verdict.UNKNOWN, f"the target {kind} failed: {type(wrong).__name__}")
