"""Who gets the orders: what they do, how long it takes them, and what they answer. They outlive every replica.

An address tells what it is: ``http://plain-slow/`` does what it is told, each time, and takes its time. One that tells
nothing, because it is a real service's, is steady, and as idempotent as its schedule says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, NamedTuple, cast
from urllib.parse import urlsplit

from tocsin.model.target import HttpTarget
from tocsin.simulation.chance import Chance
from tocsin.simulation.history import Call, History, Receiver
from tocsin.simulation.virtual import Process, VirtualLoop
from tocsin.targets.contract import Order

Manner = Literal["steady", "slow", "failing", "hanging", "silent"]
MANNERS: tuple[Manner, ...] = ("steady", "slow", "failing", "hanging", "silent")
KINDS = ("plain", "idempotent", "fenced")
SLOWLY_CONNECTED_S = 1.7
"""A little longer than a leader's authority lasts at a time."""


class Deed(NamedTuple):
    """What a receiver does with an order, and whether anybody hears of it."""

    lasts_s: float
    answer: Literal["succeeded", "failed"]
    is_told: bool = True


class Place:
    """One receiver."""

    def __init__(self, host: str, kind: Receiver, manner: Manner, world: Receivers) -> None:
        self.host = host
        self.kind = kind
        self.manner = manner
        self._world = world
        self._done: dict[str, Call] = {}
        self._waiting: dict[str, list[asyncio.Future[str]]] = {}
        self._highest: dict[str, int] = {}

    @property
    def is_down(self) -> bool:
        return self.kind in self._world.down

    @property
    def connect_s(self) -> float:
        """How long it takes until there is a connection to it."""
        return SLOWLY_CONNECTED_S if self.manner == "slow" else 0.0

    def receive(self, order: Order, process: Process, sent_ms: float, clock_ms: int) -> asyncio.Future[str]:
        """An order has arrived. Returns its answer to be: succeeded, failed, refused, or '' for none."""
        answer: asyncio.Future[str] = self._world.loop.create_future()
        call = self._world.note(order, process, sent_ms, clock_ms, self.kind, self.host)
        if self.kind == "fenced" and order.term < self._highest.get(order.schedule, 0):
            call.answer = "refused"
            answer.set_result("refused")
            return answer
        self._highest[order.schedule] = max(order.term, self._highest.get(order.schedule, 0))
        former = self._done.get(order.name)
        if self.kind != "plain" and former is not None and former.answer != "failed":
            call.answer = "known"
            if former.ended_ms is None:
                self._waiting.setdefault(order.name, []).append(answer)
            else:
                answer.set_result(former.answer)
            return answer
        call.had_effect = True
        self._done[order.name] = call
        deed = self._world.deed(self.manner, order)
        call.is_told = deed.is_told
        self._world.loop.outside(deed.lasts_s, self._end, call, answer, deed)
        return answer

    def _end(self, call: Call, answer: asyncio.Future[str], deed: Deed) -> None:
        call.answer = deed.answer
        call.ended_ms = self._world.now_ms()
        self._world.tell(f"{self.host} {deed.answer} {call.name} attempt {call.attempt}")
        for waiting in [answer, *self._waiting.pop(call.name, [])]:
            if not waiting.done():
                waiting.set_result(deed.answer if deed.is_told else "")


class Receivers:
    """All of them."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: Chance,
        history: History,
        now_ms: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self.loop = loop
        self.now_ms = now_ms
        self.tell = tell
        self._chance = chance
        self._history = history
        self._places: dict[str, Place] = {}
        self._herded: set[str] = set()
        self.down: set[str] = set()
        """Kinds of which nobody is there for the time being."""
        self.trouble: dict[str, Manner] = {}
        """How places behave for the time being, by the first word of their name."""

    def place(self, target: HttpTarget) -> Place:
        host = urlsplit(target.url).hostname or ""
        kind, _, manner = host.partition("-")
        if kind not in KINDS or manner not in MANNERS:
            # Named so that no machine of this world is called like it.
            kind, manner = "idempotent" if target.idempotent else "plain", "steady"
            host = f"{kind} {host}"
        found = self._places.get(host)
        if found is None:
            found = self._places[host] = Place(host, cast(Receiver, kind), cast(Manner, manner), self)
        return found

    def set_down(self, kind: str, is_down: bool) -> None:
        kinds = KINDS if kind == "all" else (kind,)
        self.down = self.down.union(kinds) if is_down else self.down.difference(kinds)

    def note(
        self, order: Order, process: Process, sent_ms: float, clock_ms: int, kind: Receiver, place: str
    ) -> Call:
        call = Call(
            at_ms=self.now_ms(),
            sent_ms=sent_ms,
            clock_ms=clock_ms,
            replica=process.name,
            process=process.number,
            term=order.term,
            name=order.name,
            schedule=order.schedule,
            instant_s=order.scheduled_at_s,
            attempt=order.attempt,
            receiver=kind,
            place=place,
            had_effect=False,
            is_timed=(process.name, process.number, order.term) in self._history.timed,
        )
        self._history.calls.append(call)
        self.tell(
            f"{place} is called by {process} in term {order.term}: {order.name} attempt {order.attempt}"
        )
        return call

    def herd(self, order: Order, process: Process, sent_ms: float, clock_ms: int) -> None:
        """One of many that come at once."""
        call = self.note(order, process, sent_ms, clock_ms, "herd", "herd")
        call.had_effect = order.name not in self._herded
        self._herded.add(order.name)
        call.answer, call.ended_ms = "succeeded", call.at_ms

    def lied(self, name: str) -> None:
        self._history.lies.add(name)

    def deed(self, manner: Manner, order: Order) -> Deed:
        """The same for the same attempt, whatever else happens."""
        chance = self._chance.of(f"deed {order.name} {order.attempt}")
        luck, pace = chance.random(), chance.random()
        manner = self.trouble.get(manner, manner)
        match manner:
            case "slow":
                return Deed(0.5 + 25 * pace, "succeeded" if luck < 0.9 else "failed")
            case "failing":
                return Deed(0.005 + pace, "failed" if luck < 0.6 else "succeeded")
            case "hanging":
                return Deed(0.01 if luck < 0.6 else 60 + 120 * pace, "succeeded")
            case "silent":
                return Deed(0.01 + 0.2 * pace, "failed" if luck < 0.3 else "succeeded", is_told=luck < 0.7)
            case _:
                return Deed(0.002 + 0.05 * pace, "succeeded")
