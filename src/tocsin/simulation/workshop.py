"""Commands on a machine's own disk: they go on when the replica dies, and what became of them can be looked up, as long
as the disk is there."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import msgspec

from tocsin.simulation.history import Call
from tocsin.simulation.receivers import MANNERS, Manner, Receivers
from tocsin.simulation.virtual import Process
from tocsin.targets.contract import ACCEPTED, Order, Outcome, Verdict


class Work(msgspec.Struct):
    """One command."""

    call: Call
    called_ms: int
    """By the time that was believed there."""
    ended: asyncio.Future[Outcome]


class Workshop:
    """What one disk knows of the commands that ran on its machine."""

    def __init__(self, place: str, receivers: Receivers, chance: random.Random) -> None:
        self.place = place
        self.lies = 0.0
        """The part of look-ups that are answered with an untruth."""
        self._receivers = receivers
        self._chance = chance
        self._works: dict[tuple[str, int], Work] = {}

    def copy(self) -> Workshop:
        """What the disk knows at this moment; of what begins later only the original will know."""
        found = Workshop(self.place, self._receivers, self._chance)
        found._works = dict(self._works)
        return found

    def begin(self, order: Order, process: Process, clock_ms: int, called_ms: int) -> None:
        """Only once a name and attempt: a second order of the same is that of the first. ``called_ms``: by the time
        that is believed there."""
        key = order.name, order.attempt
        now_ms = self._receivers.now_ms()
        call = self._receivers.note(order, process, now_ms, clock_ms, "workshop", self.place)
        if key in self._works:
            call.answer = "known"
            return
        call.had_effect = True
        loop = self._receivers.loop
        work = self._works[key] = Work(call, called_ms, loop.create_future())
        deed = self._receivers.deed(self._manner(order), order)
        lasts_s, verdict = deed.lasts_s, Verdict.SUCCEEDED if deed.answer == "succeeded" else Verdict.FAILED
        if order.timeout_s is not None and lasts_s > order.timeout_s:
            lasts_s, verdict = order.timeout_s, Verdict.FAILED
        loop.outside(lasts_s, self._end, work, verdict)

    def _manner(self, order: Order) -> Manner:
        """A plan's command says in its own words how it fares. A real service's is not carried out, and steady."""
        words = getattr(order.target, "shell", None)
        return cast(Manner, words) if words in MANNERS else "steady"

    def _end(self, work: Work, verdict: Verdict) -> None:
        if work.ended.done():
            return
        work.call.answer = verdict.name.lower()
        work.call.ended_ms = self._receivers.now_ms()
        self._receivers.tell(f"{self.place} {work.call.answer} {work.call.name} attempt {work.call.attempt}")
        reason = "" if verdict is Verdict.SUCCEEDED else f"the command {verdict.name.lower()}"
        code = {Verdict.SUCCEEDED: 0, Verdict.FAILED: 1}.get(verdict)
        called_ms = work.called_ms
        ended_ms = called_ms + round(work.call.ended_ms - work.call.at_ms)
        work.ended.set_result(Outcome(verdict, reason, code, ended_ms=ended_ms, called_ms=called_ms))

    def cancel(self, name: str, attempt: int) -> None:
        if (work := self._works.get((name, attempt))) is not None:
            self._receivers.loop.outside(0.1, self._end, work, Verdict.CANCELLED)

    async def watch(self, name: str, attempt: int) -> Outcome:
        work = self._works.get((name, attempt))
        if work is None:
            return Outcome(Verdict.UNKNOWN, "there is no record of that command")
        return await asyncio.shield(work.ended)

    def find(self, name: str, attempt: int) -> Outcome | None:
        """None: there is no record of it."""
        if self.lies and self._chance.random() < self.lies:
            return self._lie(name, attempt)
        work = self._works.get((name, attempt))
        if work is None:
            return None
        return (
            work.ended.result()
            if work.ended.done()
            else msgspec.structs.replace(ACCEPTED, called_ms=work.called_ms)
        )

    def _lie(self, name: str, attempt: int) -> Outcome | None:
        self._receivers.lied(name)
        self._receivers.tell(f"{self.place} lies about {name} attempt {attempt}")
        return self._chance.choice(
            [None, Outcome(Verdict.UNKNOWN, "cannot tell"), Outcome(Verdict.FAILED, "it failed, they say", 1)]
        )

    def lose_power(self) -> None:
        """Whatever runs is gone, and nobody knows how far it came."""
        for work in self._works.values():
            if not work.ended.done():
                work.call.answer = "lost"
                work.call.ended_ms = self._receivers.now_ms()
                work.ended.set_result(Outcome(Verdict.UNKNOWN, "the machine went down while it ran"))
