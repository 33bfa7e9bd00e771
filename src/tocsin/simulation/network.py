"""What lies between machines: messages take a while, overtake each other, arrive late, or never.

Every way has a direction, so that one can be cut while the other is not. A message that was sent belongs to nobody: it
arrives whatever becomes of its sender.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tocsin.simulation.virtual import Process, VirtualLoop

_T = TypeVar("_T")
JOURNAL = "journal"


class Silence(Exception):
    """No answer came in time: it may have been done, or be done yet."""


class Refusal(Exception):
    """Certain: whoever was called is not there."""


class Weather:
    """How messages on one way fare."""

    def __init__(self) -> None:
        self.is_cut = False
        self.lost = 0.0
        """The part of messages that never arrive."""
        self.late = 0.0
        """The part of messages that take ``late_s``."""
        self.late_s = 0.0
        self.slow_s = 0.0
        """At most this much is added to each."""

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]  # why: a clear sky is a new one


class Network:
    """All the ways."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._ways: dict[tuple[str, str], Weather] = {}
        self._changed = asyncio.Event()
        self.under_way = 0
        """Messages that will still arrive."""

    def way(self, source: str, to: str) -> Weather:
        found = self._ways.get((source, to))
        if found is None:
            found = self._ways[source, to] = Weather()
        return found

    def cut(self, source: str, to: str) -> None:
        self.way(source, to).is_cut = True

    def clear(self) -> None:
        """All ways are free again."""
        for weather in self._ways.values():
            weather.clear()
        self.changed()

    def changed(self) -> None:
        """Whoever waits at a closed way looks again."""
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    def delay_s(self, source: str, to: str) -> float | None:
        """How long a message takes that is sent now; None: for ever."""
        weather = self.way(source, to)
        chance = self._chance
        if weather.is_cut or (weather.lost and chance.random() < weather.lost):
            return None
        delay_s = 0.0002 + 0.0018 * chance.random()
        if weather.slow_s:
            delay_s += weather.slow_s * chance.random()
        if weather.late and chance.random() < weather.late:
            delay_s += weather.late_s * chance.random()
        return delay_s

    def send(self, source: str, to: str, deliver: Callable[[], object]) -> None:
        """Deliver it at the other end, if it arrives at all."""
        delay_s = self.delay_s(source, to)
        if delay_s is not None:
            self.under_way += 1
            self._loop.outside(delay_s, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], object]) -> None:
        self.under_way -= 1
        deliver()

    async def ask(
        self,
        source: str,
        to: str,
        host: Callable[[], Process | None],
        work: Callable[[], Awaitable[_T]],
        patience_s: float,
    ) -> _T:
        """Have something done at the other end, by whichever process is there when the question arrives. Raises what it
        raises, ``Refusal`` or ``Silence``."""
        answer: asyncio.Future[_T] = self._loop.create_future()

        def arrived() -> None:
            process = host()
            if process is None or process.is_dead:
                self.send(to, source, lambda: _set(answer, Refusal(f"nobody is there at {to}")))
            else:
                self._loop.spawn(process, carry_out(), "answer")

        async def carry_out() -> None:
            result: Any
            try:
                result = await work()
            except Exception as wrong:  # noqa: BLE001  # why: whatever it is, whoever asked is told
                result = wrong
            self.send(to, source, lambda: _set(answer, result))

        self.send(source, to, arrived)
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise Silence(f"{to} did not answer within {patience_s:g} s") from None


def _set(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
        answer.exception()  # it is told even if nobody waits any more
    else:
        answer.set_result(result)
