"""The port ``Target``, from a process to the receivers of its world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from tocsin.clock import Clock
from tocsin.cron import parse_duration
from tocsin.model.target import ExecTarget, HttpTarget, TargetSpec
from tocsin.simulation.clocks import MachineClock
from tocsin.simulation.network import Network
from tocsin.simulation.receivers import SLOWLY_CONNECTED_S, Receivers
from tocsin.simulation.virtual import Process
from tocsin.simulation.workshop import Workshop
from tocsin.targets.authority import has_ended
from tocsin.targets.contract import ACCEPTED, SUCCEEDED, TOO_LATE, Order, Outcome, Output, Verdict

WorstMoment = Callable[[Process], None]
"""Called between the last look at one's authority and the call: here a pause hurts most."""


class _Base:
    """What all have in common."""

    looks_up: ClassVar[bool] = False

    def __init__(
        self,
        process: Process,
        clock: MachineClock,
        guard: Clock,
        network: Network,
        receivers: Receivers,
        worst_moment: WorstMoment,
    ) -> None:
        self._process = process
        self._clock = clock
        self._guard = guard
        """The same, as far as it is believed: what goes into the record is by this one."""
        self._network = network
        self._receivers = receivers
        self._worst_moment = worst_moment
        self._connecting = 0
        self._renewed: dict[int, float] = {}
        """By terms: how long authority lasts, as it was told since the order was made."""

    async def _may_call(self, order: Order) -> bool:
        if has_ended(order.until_s, self._clock.elapsed_s()):
            return False
        self._worst_moment(self._process)
        if self._process.is_paused:
            await asyncio.sleep(0)
        return True

    async def start(self, last_entry_ms: int = 0) -> None:
        return

    async def stop(self) -> None:
        return

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0


class _Connecting(_Base):
    """A target whose calls take their time until they go out."""

    def in_office(self, term: int, until_s: float) -> None:
        self._renewed[term] = max(until_s, self._renewed.get(term, until_s))

    @property
    def is_calling(self) -> bool:
        return self._connecting > 0

    def _end_s(self, order: Order) -> float | None:
        """When authority ends, or the deadline passes."""
        until_s = order.until_s
        if until_s is not None:
            until_s = max(until_s, self._renewed.get(order.term, until_s))
        return min([end_s for end_s in (until_s, order.deadline_s) if end_s is not None], default=None)

    async def _connect(self, order: Order, for_s: float) -> bool:
        """False: authority ended meanwhile."""
        connected_s = self._clock.elapsed_s() + for_s
        self._connecting += 1
        try:
            while (left_s := connected_s - self._clock.elapsed_s()) > 0:
                if has_ended(self._end_s(order), self._clock.elapsed_s()):
                    return False
                await asyncio.sleep(min(left_s, 0.1))
        finally:
            self._connecting -= 1
        return True


class Http(_Connecting):
    """Calls over the network, which cannot be looked up."""

    kind: ClassVar[str] = "http"

    def __init__(
        self,
        process: Process,
        clock: MachineClock,
        guard: Clock,
        network: Network,
        receivers: Receivers,
        worst_moment: WorstMoment,
    ) -> None:
        super().__init__(process, clock, guard, network, receivers, worst_moment)
        self._calls: dict[tuple[str, int], asyncio.Future[Outcome]] = {}

    @property
    def is_calling(self) -> bool:
        return bool(self._calls) or super().is_calling

    def idempotent(self, spec: TargetSpec) -> bool:
        return isinstance(spec, HttpTarget) and spec.idempotent

    async def launch(self, order: Order) -> Outcome:
        assert isinstance(order.target, HttpTarget)
        loop = self._receivers.loop
        own_s = float(parse_duration(order.target.timeout, field="target.timeout"))
        patience_s = min(own_s, order.timeout_s or own_s)
        connect_s = self._receivers.place(order.target).connect_s
        if not await self._connect(order, min(patience_s, connect_s)):
            return TOO_LATE
        if connect_s >= patience_s:
            return Outcome(Verdict.NOT_STARTED, "no connection in time")
        order = msgspec.structs.replace(order, until_s=self._end_s(order))
        if not await self._may_call(order):
            return TOO_LATE
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._send(order, answer)
        called_ms = self._guard.wall_ms()
        key = order.name, order.attempt
        self._calls[key] = answer
        try:
            async with asyncio.timeout(patience_s - connect_s):
                outcome = await answer
        except TimeoutError:
            outcome = Outcome(Verdict.UNKNOWN, "no answer in time")
        finally:
            self._calls.pop(key, None)
        return outcome if outcome is _REFUSED else msgspec.structs.replace(outcome, called_ms=called_ms)

    def _send(self, order: Order, answer: asyncio.Future[Outcome]) -> None:
        assert isinstance(order.target, HttpTarget)
        process, receivers, network = self._process, self._receivers, self._network
        place = receivers.place(order.target)
        sent_ms, clock_ms = receivers.now_ms(), self._clock.wall_ms()

        def tell(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        def answered(told: asyncio.Future[str]) -> None:
            if told.result():
                network.send(place.host, process.name, lambda: tell(_OUTCOMES[told.result()]))

        def arrived() -> None:
            if place.is_down:
                network.send(place.host, process.name, lambda: tell(_REFUSED))
            else:
                place.receive(order, process, sent_ms, clock_ms).add_done_callback(answered)

        network.send(process.name, place.host, arrived)

    async def watch(self, order: Order) -> Outcome:
        return Outcome(Verdict.UNKNOWN, "a call cannot be watched")

    async def lookup(self, order: Order) -> Outcome | None:
        return Outcome(Verdict.UNKNOWN)

    async def cancel(self, order: Order) -> None:
        answer = self._calls.get((order.name, order.attempt))
        if answer is not None and not answer.done():
            answer.set_result(Outcome(Verdict.CANCELLED, "cancelled while the answer was awaited"))


_REFUSED = Outcome(Verdict.NOT_STARTED, "connection refused")
_OUTCOMES = {
    "succeeded": SUCCEEDED,
    "failed": Outcome(Verdict.FAILED, "status 500"),
    "refused": Outcome(Verdict.FAILED, "status 409: a later term is known", permanent=True),
}


class Exec(_Connecting):
    """Commands on the machine itself, which its disk remembers."""

    kind: ClassVar[str] = "exec"
    looks_up: ClassVar[bool] = True

    def __init__(
        self,
        process: Process,
        clock: MachineClock,
        guard: Clock,
        network: Network,
        receivers: Receivers,
        worst_moment: WorstMoment,
        workshop: Workshop,
    ) -> None:
        super().__init__(process, clock, guard, network, receivers, worst_moment)
        self._workshop = workshop

    def idempotent(self, spec: TargetSpec) -> bool:
        return False

    async def launch(self, order: Order) -> Outcome:
        assert isinstance(order.target, ExecTarget)
        if order.target.shell == "slow" and not await self._connect(order, SLOWLY_CONNECTED_S):
            return TOO_LATE
        order = msgspec.structs.replace(order, until_s=self._end_s(order))
        if not await self._may_call(order):
            return TOO_LATE
        # The helper that starts commands looks once more, in the last moment.
        if has_ended(order.until_s, self._clock.elapsed_s()):
            return TOO_LATE
        called_ms = self._guard.wall_ms()
        self._workshop.begin(order, self._process, self._clock.wall_ms(), called_ms)
        return msgspec.structs.replace(ACCEPTED, called_ms=called_ms)

    async def watch(self, order: Order) -> Outcome:
        return await self._workshop.watch(order.name, order.attempt)

    async def lookup(self, order: Order) -> Outcome | None:
        await asyncio.sleep(0.001)
        return self._workshop.find(order.name, order.attempt)

    async def cancel(self, order: Order) -> None:
        self._workshop.cancel(order.name, order.attempt)


class Herd(_Base):
    """Many at once, and launching twice is launching once."""

    kind: ClassVar[str] = "null"

    def idempotent(self, spec: TargetSpec) -> bool:
        return True

    async def launch(self, order: Order) -> Outcome:
        return (await self.launch_batch([order]))[0]

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        now_s = self._clock.elapsed_s()
        late = [has_ended(order.until_s, now_s) for order in orders]
        await asyncio.sleep(0.001)
        clock_ms, now_ms = self._clock.wall_ms(), self._receivers.now_ms()
        sent = msgspec.structs.replace(SUCCEEDED, called_ms=self._guard.wall_ms())
        for order, is_late in zip(orders, late, strict=True):
            if not is_late:
                self._receivers.herd(order, self._process, now_ms, clock_ms)
        return [TOO_LATE if is_late else sent for is_late in late]

    async def watch(self, order: Order) -> Outcome:
        return SUCCEEDED

    async def lookup(self, order: Order) -> Outcome | None:
        return None

    async def cancel(self, order: Order) -> None:
        return
