"""The target: keeps connected, sends events in portions, and waits for what the streams say to them.

Nothing is kept for later. While there is no connection every order is ``not_started`` at once, and its owner's retry
policy makes the next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from typing import ClassVar

import structlog

from tocsin.clock import Clock, SystemClock
from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.model.target import TargetSpec
from tocsin.targets.authority import has_ended
from tocsin.targets.batch_times import with_calls
from tocsin.targets.contract import TOO_LATE, Order, Outcome, Output, Verdict, recognises
from tocsin.targets.nats.handshake import NotConnected, connect
from tocsin.targets.nats.message import frame_of, judge
from tocsin.targets.nats.settings import Access
from tocsin.targets.nats.windows import Windows
from tocsin.targets.nats.wire import Answers, Connection
from tocsin.targets.permissions import Names, against_name

log = structlog.get_logger()

ACKNOWLEDGED_WITHIN_S = 5.0
PORTION = 200
"""So many are written at once; then the clock is looked at again."""
PING_EVERY_S = 10.0
CONNECTED_WITHIN_S = 2.0
RECALLED_AT_ONCE = 100
REASONS_SAID_MAX = 100
_PAUSE_S, _PAUSE_S_MAX = 0.05, 1.0


class NatsTarget:
    """Sends events to subjects that a stream takes."""

    kind: ClassVar[str] = "nats"
    looks_up: ClassVar[bool] = False

    def __init__(self, access: Access, *, clock: Clock | None = None, subjects: Names | None = None) -> None:
        self._access = access
        self._clock = clock or SystemClock()
        self._subjects = Names() if subjects is None else subjects
        self._windows = Windows(self._clock)
        self._connection: Connection | None = None
        self._why = "not connected to nats yet"
        self._said: set[str] = set()
        self._keeping: asyncio.Task[None] | None = None
        self._is_connected = asyncio.Event()
        self._patient_until_s = 0.0

    def idempotent(self, spec: TargetSpec) -> bool:
        return self.remembers_s(spec) > 0

    def remembers_s(self, spec: TargetSpec) -> float:
        """Half of the stream's window: the clocks of two leaders may differ, and a repeat takes its time."""
        return self._windows.window_s(spec.subject) / 2 if isinstance(spec, NatsSpec) else 0.0

    async def recall(self, specs: Iterable[TargetSpec]) -> None:
        """A process that has just started is given a moment to connect: what its predecessor left open is asked for
        at once."""
        await self._clock.wait(self._is_connected, max(0.0, self._patient_until_s - self._clock.elapsed_s()))
        if (connection := self._connection) is not None:
            subjects = {spec.subject for spec in specs if isinstance(spec, NatsSpec)}
            await self._windows.learn(connection, subjects, RECALLED_AT_ONCE)

    async def start(self, last_entry_ms: int = 0) -> None:
        """A server that is down is no reason not to start."""
        self._patient_until_s = self._clock.elapsed_s() + CONNECTED_WITHIN_S
        self._keeping = asyncio.create_task(self._keep_connected(), name="nats")

    async def stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        self._why = "the target is stopped"

    async def launch(self, order: Order) -> Outcome:
        return (await self.launch_batch([order]))[0]

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        connection = self._connection
        if connection is None:
            return self._not_connected(orders)
        specs = [_spec_of(order) for order in orders]
        subjects = {spec.subject for spec in specs}
        await self._windows.learn(connection, subjects)
        refusals = {s: against_name(self._subjects, "nats", "subject", s) for s in subjects}
        batch = _Batch(connection, orders, specs, self._clock)
        try:
            for places in batch.portions():
                refused = {p: refusals[specs[p].subject] for p in places if refusals[specs[p].subject]}
                now_ms = self._clock.wall_ms()
                stale = [p for p in places if orders[p].is_repeat and not recognises(self, orders[p], now_ms)]
                if not await batch.send(places, refused, stale):
                    break
            return await batch.outcomes()
        finally:
            connection.give_up(batch.answers)

    async def watch(self, order: Order) -> Outcome:
        return Outcome(
            Verdict.UNKNOWN, "an event has no end to wait for: the acknowledgement was the outcome"
        )

    async def lookup(self, order: Order) -> Outcome | None:
        return Outcome(Verdict.UNKNOWN, "a stream cannot be asked for a message id")

    async def cancel(self, order: Order) -> None:
        """What was sent cannot be taken back."""

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0

    def _not_connected(self, orders: Sequence[Order]) -> list[Outcome]:
        now_s = self._clock.elapsed_s()
        absent = Outcome(Verdict.NOT_STARTED, self._why)
        return [TOO_LATE if has_ended(order.until_s, now_s) else absent for order in orders]

    async def _keep_connected(self) -> None:
        """For ever, one server after the other."""
        pause_s = _PAUSE_S
        for server in cycle(self._access.servers):
            try:
                connection = await connect(server, self._access)
                log.info("connected to nats", server=str(server))
                self._said.clear()
                began_s = self._clock.elapsed_s()
                await self._hold(connection)
                self._say(f"not connected to nats: {server}: {connection.why}")
                pause_s = _PAUSE_S if self._clock.elapsed_s() - began_s > _PAUSE_S_MAX else pause_s * 2
            except NotConnected as refused:
                self._say(f"not connected to nats: {refused}")
                pause_s *= 2
            except Exception as broken:  # why: a defect here must not be the end of all sending
                log.error("the connection to nats broke", exc_info=broken)
                pause_s = _PAUSE_S_MAX
            pause_s = min(pause_s, _PAUSE_S_MAX)
            await self._clock.wait(asyncio.Event(), pause_s)

    async def _hold(self, connection: Connection) -> None:
        """Until it ends. A server that answers no ping is taken for gone."""
        reading = asyncio.create_task(connection.read(), name="nats")
        self._connection = connection
        self._is_connected.set()
        try:
            while connection.is_open:
                await self._clock.wait(connection.ended, PING_EVERY_S)
                if connection.awaits_pong:
                    connection.end("the server does not answer")
                elif connection.is_open:
                    connection.ping()
        finally:
            self._connection = None
            self._is_connected.clear()
            connection.end()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _say(self, why: str) -> None:
        """Each reason once until it is connected again, and not at every try."""
        if why not in self._said:
            log.warning(why)
        if len(self._said) < REASONS_SAID_MAX:
            self._said.add(why)
        self._why = why


class _Batch:
    """Some orders on their way over one connection."""

    def __init__(
        self, connection: Connection, orders: Sequence[Order], specs: Sequence[NatsSpec], clock: Clock
    ) -> None:
        self.answers = Answers([spec.subject for spec in specs])
        self._connection = connection
        self._orders = orders
        self._specs = specs
        self._clock = clock
        self._outcomes: list[Outcome | None] = [None] * len(orders)
        """Of those that were not sent, and of those that were waited for in vain."""
        self._sent: dict[int, float] = {}
        """When each of the others was."""
        connection.reserve(self.answers)

    def portions(self) -> Iterable[range]:
        count = len(self._orders)
        return (range(start, min(start + PORTION, count)) for start in range(0, count, PORTION))

    async def send(self, places: range, refused: Mapping[int, str], stale: Sequence[int]) -> bool:
        """Send what may be sent of these. False: nothing more can be."""
        frames = self._frames(places, refused, stale)
        async with self._connection.turn:
            # From here to the write nothing is waited for: this is the last moment.
            now_s = self._clock.elapsed_s()
            for place in list(frames):
                if has_ended(self._orders[place].until_s, now_s):
                    self._outcomes[place] = TOO_LATE
                    del frames[place]
            if not self._connection.is_open:
                return False
            if not frames:
                return True
            self._connection.write(list(frames.values()), self.answers, list(frames))
            self._sent.update(dict.fromkeys(frames, now_s))
            return await self._connection.taken(self._time_left_s(frames, now_s))

    def _frames(self, places: range, refused: Mapping[int, str], stale: Sequence[int]) -> dict[int, bytes]:
        frames: dict[int, bytes] = {}
        inbox, first, most = self._connection.inbox, self.answers.first, self._connection.max_payload
        for place in places:
            order, spec = self._orders[place], self._specs[place]
            if place in refused:
                self._outcomes[place] = Outcome(Verdict.NOT_STARTED, refused[place], permanent=True)
            elif place in stale:
                reason = "it may have gone out before, and the stream would not recognise a repeat any more"
                self._outcomes[place] = Outcome(Verdict.UNKNOWN, reason)
            else:
                try:
                    frame = frame_of(order, spec, b"%b%d" % (inbox, first + place))
                except ValueError:
                    self._outcomes[place] = Outcome(
                        Verdict.NOT_STARTED, "the event cannot be sent", permanent=True
                    )
                    continue
                if frame.size > most:
                    reason = f"the event has {frame.size} bytes, and the server takes {most}"
                    self._outcomes[place] = Outcome(Verdict.NOT_STARTED, reason, permanent=True)
                else:
                    frames[place] = frame.content
        return frames

    def _time_left_s(self, places: Iterable[int], now_s: float) -> float:
        """How long the network may take to take them."""
        ends_s = [until for place in places if (until := self._orders[place].until_s) is not None]
        return min(
            ACKNOWLEDGED_WITHIN_S, max(0.0, min(ends_s, default=now_s + ACKNOWLEDGED_WITHIN_S) - now_s)
        )

    async def outcomes(self) -> list[Outcome]:
        """When all that was sent is answered, or waited for in vain."""
        await self._wait()
        answers, lost = self.answers, Outcome(Verdict.UNKNOWN, f"no acknowledgement: {self._connection.why}")
        ended = Outcome(Verdict.NOT_STARTED, f"not connected to nats: {self._connection.why}")
        sent = self._sent
        found: list[Outcome] = []
        for place, outcome in enumerate(self._outcomes):
            answer = answers.found[place]
            if answer is not None:
                found.append(judge(answer, answers.subjects[place]))
            elif outcome is not None:
                found.append(outcome)
            else:
                found.append(lost if place in sent else ended)
        return with_calls(found, [sent.get(place) for place in range(len(found))], self._clock)

    async def _wait(self) -> None:
        """Each as long as its own time-out says."""
        waited_s = 0.0
        for patience_s in sorted({_patience_s(self._orders[place]) for place in self._sent}):
            if self.answers.left:
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience_s - waited_s):
                        await self.answers.settled.wait()
            if not self.answers.left or not self._connection.is_open:
                return
            waited_s = patience_s
            late = Outcome(Verdict.UNKNOWN, f"no acknowledgement within {patience_s:g}s")
            for place in self._sent:
                if self._outcomes[place] is None and _patience_s(self._orders[place]) <= patience_s:
                    self._outcomes[place] = late


def _patience_s(order: Order) -> float:
    return ACKNOWLEDGED_WITHIN_S if order.timeout_s is None else min(order.timeout_s, ACKNOWLEDGED_WITHIN_S)


def _spec_of(order: Order) -> NatsSpec:
    assert isinstance(order.target, NatsSpec)
    return order.target
