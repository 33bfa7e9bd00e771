"""Calls that outlive the term in which they were made.

Whoever leaves office makes no more calls, but cannot take back those that are under way: their answers still come
in here. A new leader that finds such a launch open asks the replica that was to make the call. The answer is
better than doubt: it is under way, it ended so, or no call was ever made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tocsin.clock import Clock
from tocsin.model.cluster import Asked
from tocsin.model.target import NullTarget
from tocsin.replica.kept_answers import KeptAnswer, KeptAnswers
from tocsin.replica.launcher import Launcher
from tocsin.replica.peers import Fate
from tocsin.replica.terms import OwnTerms
from tocsin.targets.contract import TOO_LATE, Order, Outcome, Target, Verdict

TERMS_KEPT = 16
ASKED_WITHIN_S = 4.0
"""A replica that stops waits this long for a new leader to ask for the last answers. It keeps them on its disk too."""
UNKNOWN = Fate("unknown")
_Key = tuple[str, int]
"""Name and attempt."""


class Afterlife:
    """What this process knows of the terms in which it led."""

    def __init__(
        self, targets: Mapping[str, Target], clock: Clock, own: OwnTerms, answers: KeptAnswers
    ) -> None:
        self._targets = targets
        self._own = own
        self._answers = answers
        self._clock = clock
        self._launchers: dict[int, Launcher] = {}
        self._asked_for: set[tuple[str, int]] = set()

    def add(self, term: int, launcher: Launcher) -> None:
        """A term begins. What is called in it will be asked after when it is over."""
        self._launchers[term] = launcher
        for old in sorted(self._launchers)[:-TERMS_KEPT]:
            if not self._launchers[old].is_calling:
                del self._launchers[old]

    def terms(self) -> set[int]:
        """Those in which this very process led."""
        return set(self._launchers)

    async def cancel(self, asked: Asked, reason: str) -> None:
        """Stop an attempt of a former term, as far as it is still under way here."""
        launcher = self._launchers.get(asked.term)
        if launcher is None or not launcher.cancel_named(asked.name, asked.attempt, reason):
            target = self._targets.get(asked.kind)
            if target is not None:
                await target.cancel(order_of(asked))

    def end_before(self, term: int) -> None:
        """Somebody leads in that term: no call of an earlier one is made any more."""
        for earlier, launcher in self._launchers.items():
            if earlier < term:
                launcher.close()

    async def fates(self, asked: Sequence[Asked]) -> list[Fate]:
        """As far as it can be known here, whoever made the calls."""
        led = {each.term for each in asked} & self._launchers.keys()
        known = {term: self._launchers[term].unwritten() for term in led}
        calls = {term: self._launchers[term].calls_under_way() for term in led}
        return [await self._fate(each, known.get(each.term), calls.get(each.term, {})) for each in asked]

    async def _fate(
        self, asked: Asked, known: dict[_Key, Outcome | None] | None, calls: dict[_Key, int]
    ) -> Fate:
        key = asked.name, asked.attempt
        if known is None:
            return await self._from_records(asked)
        if key not in known:
            # This very process led in that term, and it has not handed it over.
            self._asked_for.add(key)
            return Fate("never")
        outcome = known[key]
        if outcome is None:
            return Fate("flying", called_ms=calls.get(key))
        self._asked_for.add(key)
        return Fate("ended", outcome)

    async def _from_records(self, asked: Asked) -> Fate:
        """Another process led here then: only what it has kept, or the target itself, can tell."""
        answer = self._answers.of(asked.name, asked.attempt, asked.term)
        if answer is not None:
            return Fate("never") if answer.is_too_late else Fate("ended", answer)
        target = self._targets.get(asked.kind)
        if target is None or not target.looks_up:
            return UNKNOWN
        outcome = await target.lookup(order_of(asked))
        if outcome is None:
            return Fate("never") if self._own.proves(asked.term) else UNKNOWN
        if outcome.verdict is Verdict.ACCEPTED:
            return Fate("flying", called_ms=outcome.called_ms)
        return UNKNOWN if outcome.verdict is Verdict.UNKNOWN else Fate("ended", outcome)

    async def finish(self, grace_s: float) -> None:
        """Give calls that are under way a moment to end and to be asked after, then let go."""
        until_s = self._clock.elapsed_s() + grace_s
        called_s = self._clock.elapsed_s()
        while self._clock.elapsed_s() < min(until_s, called_s + ASKED_WITHIN_S) and self._is_needed():
            await self._clock.wait(asyncio.Event(), 0.05)
            if self._is_calling():
                called_s = self._clock.elapsed_s()
        await asyncio.to_thread(self._answers.save, self._known_answers(), self._clock.wall_ms())
        for launcher in self._launchers.values():
            await launcher.drain(grace_s=0.0)

    def _known_answers(self) -> list[KeptAnswer]:
        """Also those that somebody has asked for: whoever did may have ended before it wrote them down."""
        now_ms = self._clock.wall_ms()
        found: list[KeptAnswer] = []
        for term, launcher in self._launchers.items():
            ended = {key: outcome for key, outcome in launcher.unwritten().items() if outcome is not None}
            known = {**dict.fromkeys(launcher.uncalled(), TOO_LATE), **ended}
            found += [KeptAnswer(*key, term, outcome, now_ms) for key, outcome in known.items()]
        return found

    def _is_calling(self) -> bool:
        return any(launcher.is_calling for launcher in self._launchers.values())

    def _is_needed(self) -> bool:
        return any(
            launcher.is_calling or any(key not in self._asked_for for key in _ended(launcher))
            for launcher in self._launchers.values()
        )


def order_of(asked: Asked) -> Order:
    """As much of the order as a look-up needs."""
    return Order(
        name=asked.name,
        schedule="",
        scheduled_at_s=0,
        attempt=asked.attempt,
        term=asked.term,
        generated_at_ms=asked.generated_at_ms,
        target=NullTarget(),
        asked_lid=asked.asked_lid,
    )


def _ended(launcher: Launcher) -> list[tuple[str, int]]:
    """Attempts that nobody has written down, and of which it is known what became of them."""
    ended = [key for key, outcome in launcher.unwritten().items() if outcome is not None]
    return [*ended, *launcher.uncalled()]
