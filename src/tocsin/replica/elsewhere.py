"""Launches that are open and were handed over by another replica, or by this one in an earlier term.

The replica that was to make the call is asked until it is certain what became of it. One that does not answer for
a while is taken for dead, and the launch is in doubt; should the answer come after all, the doubt is resolved. If the
answer is that a launch in doubt still runs, and the launch is to be cancelled, that replica is told to stop it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.errors import TocsinError
from tocsin.model.cluster import Asked
from tocsin.replica.flight import Again, Flight
from tocsin.replica.lanes import Room, lane_of_target
from tocsin.replica.launcher import Launcher
from tocsin.replica.peers import Fate
from tocsin.state.queries import LOOK_BYTES
from tocsin.targets.contract import Outcome, Verdict

log = structlog.get_logger()

ASK_EVERY_S = 0.25
ASK_LATER_EVERY_S = 5.0
PATIENCE_S = 5.0
"""How long a silent replica is waited for: it may only be starting again."""
LOOK_UP_PATIENCE_S = 15.0
"""The same where it will still know after that, because its target keeps records."""
DOUBTED_MAX = 1_000
ASKED_AT_ONCE = 500
AGAIN_AT_ONCE = 2_000
_FORGOTTEN = "the replica that was to make the call no longer knows whether it did"
_NO_CALL = Outcome(Verdict.NOT_STARTED, "no call was made", permanent=True)
"""A call that was not even tried has not failed, and is not tried again."""
RESOLVED_AT_ONCE = 20
"""So many are written in one entry."""

Told = tuple[Flight, Outcome, str]
"""A launch that was in doubt, how it ended, and who says so."""
AskFates = Callable[[str, Sequence[Asked]], Awaitable[list[Fate]]]
Stop = Callable[[str, Asked, str], Awaitable[None]]
"""Tells a replica to stop an attempt that runs there, and why."""


class _Case(msgspec.Struct):
    flight: Flight
    host: str
    term: int
    since_s: float
    is_doubted: bool = False
    """Recorded as in doubt already: only a certain answer changes anything."""
    is_noted: bool = False
    """Recorded as running."""
    is_stopping: bool = False
    """In doubt, and its replica has heard that it is to be stopped: its end is expected soon."""

    @property
    def is_urgent(self) -> bool:
        return not self.is_doubted or self.is_stopping

    def asked(self) -> Asked:
        order = self.flight.order
        return Asked(
            order.name, order.attempt, self.flight.kind, order.generated_at_ms, self.term, order.asked_lid
        )


class Elsewhere:
    """Asks after them, beside the leader's loop."""

    def __init__(
        self, ask: AskFates, stop: Stop, launcher: Launcher, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._ask = ask
        self._stop = stop
        self._launcher = launcher
        self._clock = clock
        self._wake = wake
        self._cases: dict[int, _Case] = {}
        self._again: dict[str, deque[Again]] = {}
        """By lane: what has no room yet must not keep others waiting."""
        self._resolved: list[Told] = []
        self._is_short_of_room = False
        self._news = asyncio.Event()
        self._ask_later_s = 0.0

    def add(self, flight: Flight, host: str, term: int, *, is_doubted: bool = False) -> None:
        """``term``: the one in which the call was to be made, by ``host``."""
        flight.drop_payload()
        self._cases[flight.lid] = _Case(flight, host, term, self._clock.elapsed_s(), is_doubted)
        if is_doubted:
            self._ask_later_s = 0.0
        self._news.set()

    def asks_after(self, lid: int) -> bool:
        return lid in self._cases

    def host_of(self, lid: int) -> tuple[str, Asked] | None:
        """Where a launch runs that is to be stopped. None for one in doubt: nobody has told that it runs."""
        case = self._cases.get(lid)
        return None if case is None or case.is_doubted else (case.host, case.asked())

    def cancelled(self, lid: int, reason: str) -> None:
        """It is to be stopped: it then ends as cancelled, and is not called again. After one that is in doubt its
        replica is asked at once."""
        if (case := self._cases.get(lid)) is not None:
            case.flight.cancel = reason
            case.is_stopping = False
            if case.is_doubted:
                self._ask_later_s = 0.0
                self._news.set()
        for flight, _, _ in self._resolved:
            if flight.lid == lid:
                flight.cancel = reason
        for waiting in self._again.values():
            for flight, _ in waiting:
                if flight.lid == lid:
                    flight.cancel = reason

    def forget(self, lid: int) -> None:
        """A person has ended the doubt: what others tell of it comes too late."""
        self._cases.pop(lid, None)
        self._resolved = [told for told in self._resolved if told[0].lid != lid]

    def add_again(self, again: Again) -> None:
        """It is to be called, as soon as there is room for it."""
        again.flight.drop_payload()
        self._waiting_in_lane_of(again).append(again)
        self._is_short_of_room = False

    def take_again(self, room: Room, *, may_call: bool) -> list[Again]:
        """Those for which there is room, in bounded portions of rows and of bytes. None without a clock that is
        believed: the deadline of each, and whether its receiver still recognises a repeat, are judged when it is
        called."""
        if not may_call:
            return []
        found: list[Again] = []
        size = 0
        is_full = False
        for lane in list(self._again):
            waiting = self._again[lane]
            while waiting and room.has_in_lane(lane) and not is_full:
                again = waiting.popleft()
                room.count_in_lane(lane, again.flight.size)
                found.append(again)
                size += again.flight.size
                is_full = len(found) >= AGAIN_AT_ONCE or size >= LOOK_BYTES
            if not waiting:
                del self._again[lane]
        self._is_short_of_room = bool(self._again) and not is_full
        return found

    def take_uncalled(self) -> list[Flight]:
        """What has waited for room in vain, and was certainly never called."""
        found = [flight for waiting in self._again.values() for flight, doubtful in waiting if not doubtful]
        self._again.clear()
        return found

    def _waiting_in_lane_of(self, again: Again) -> deque[Again]:
        flight = again.flight
        return self._again.setdefault(lane_of_target(flight.kind, flight.order.target), deque())

    def take_resolved(self) -> list[Told]:
        """Launches in doubt whose outcome is known now."""
        found, self._resolved = self._resolved[:RESOLVED_AT_ONCE], self._resolved[RESOLVED_AT_ONCE:]
        return found

    def is_pending(self, *, may_call: bool) -> bool:
        """Is there more to take? For what is short of room, whoever makes room wakes the loop."""
        return bool((may_call and self._again and not self._is_short_of_room) or self._resolved)

    def give_back(self, again: Sequence[Again], resolved: Sequence[Told]) -> None:
        """They could not be written down."""
        for each in reversed(again):
            self._waiting_in_lane_of(each).appendleft(each)
        self._is_short_of_room = False
        self._resolved[:0] = resolved

    async def run(self) -> None:
        """For ever: it is cancelled when the term ends."""
        while True:
            self._news.clear()
            now_s = self._clock.elapsed_s()
            with_doubted = now_s >= self._ask_later_s
            if with_doubted:
                self._ask_later_s = now_s + ASK_LATER_EVERY_S
            await self._round(with_doubted)
            is_urgent = any(case.is_urgent for case in self._cases.values())
            pause_s = ASK_EVERY_S if is_urgent else ASK_LATER_EVERY_S
            await self._clock.wait(self._news, pause_s)

    async def _round(self, with_doubted: bool) -> None:
        by_host: dict[str, list[_Case]] = {}
        for case in self._cases.values():
            if not case.is_urgent and not with_doubted:
                continue
            by_host.setdefault(case.host, []).append(case)
        await asyncio.gather(*(self._ask_host(host, cases) for host, cases in by_host.items()))

    async def _ask_host(self, host: str, cases: list[_Case]) -> None:
        cases.sort(key=lambda case: case.is_doubted)
        for start in range(0, len(cases), ASKED_AT_ONCE):
            chunk = cases[start : start + ASKED_AT_ONCE]
            try:
                fates = await self._ask(host, [case.asked() for case in chunk])
            except Exception as wrong:  # why: an unanswered question must not end all asking
                if not isinstance(wrong, TocsinError):
                    log.error("a replica could not be asked", replica=host, exc_info=wrong)
                for case in filter(self._is_current, cases[start:]):
                    self._silent(case)
                return
            for case, fate in zip(chunk, fates, strict=True):
                if self._is_current(case):
                    self._told(case, fate)
            await self._stop_doubted(
                host, [case for case, fate in zip(chunk, fates, strict=True) if fate.how == "flying"]
            )

    async def _stop_doubted(self, host: str, running: list[_Case]) -> None:
        """Its replica answers again and tells that these run. The leader's loop tells it of what is not in doubt."""
        for case in running:
            reason = case.flight.cancel
            is_wanted = case.is_doubted and reason is not None and not case.is_stopping
            if not is_wanted or not self._is_current(case):
                continue
            try:
                await self._stop(host, case.asked(), reason or "")
            except Exception as wrong:  # why: the same
                if not isinstance(wrong, TocsinError):
                    log.error("a replica could not be told to stop a launch", replica=host, exc_info=wrong)
                return  # the next answer that it runs brings the next try
            case.is_stopping = case.flight.cancel == reason
            log.info(
                "a launch in doubt runs and is being stopped", launch=case.flight.order.name, replica=host
            )

    def _is_current(self, case: _Case) -> bool:
        """False: somebody ended it while the answer was under way."""
        return self._cases.get(case.flight.lid) is case

    def _told(self, case: _Case, fate: Fate) -> None:
        if case.is_doubted:
            self._told_late(case, fate)
            return
        flight = case.flight
        match fate.how:
            case "flying":
                case.since_s = self._clock.elapsed_s()
                is_command = self._launcher.target(flight.kind).looks_up
                if is_command and fate.called_ms is not None and not case.is_noted:
                    case.is_noted = True
                    self._launcher.note_running(flight, fate.called_ms)
            case "ended" if fate.outcome is not None:
                self._close(case)
                self._launcher.report(flight, fate.outcome)
            case "never" if not flight.is_before_loss:  # it may have been called in the lost time
                self._close(case)
                self._call_again(flight, doubtful=False)
            case _:
                self._doubt(case, fate.reason or _FORGOTTEN)

    def _silent(self, case: _Case) -> None:
        case.is_stopping = False
        target = self._launcher.target(case.flight.kind)
        patience_s = LOOK_UP_PATIENCE_S if target.looks_up else PATIENCE_S
        if self._launcher.may_repeat(case.flight):
            patience_s = 0.0
        if not case.is_doubted and self._clock.elapsed_s() - case.since_s > patience_s:
            self._doubt(case, f"replica {case.host}, which was to make the call, does not answer")

    def _doubt(self, case: _Case, reason: str) -> None:
        flight = case.flight
        self._close(case)
        if flight.cancel is None and self._launcher.may_repeat(flight):
            self._call_again(flight, doubtful=True)
            return
        self._launcher.report(flight, Outcome(Verdict.UNKNOWN, reason))
        is_asked_after = len(self._cases) < DOUBTED_MAX and flight.spec.on_doubt == "skip"
        if is_asked_after or flight.cancel is not None:  # a cancel was acknowledged
            self._cases[flight.lid] = _Case(flight, case.host, case.term, case.since_s, is_doubted=True)

    def _told_late(self, case: _Case, fate: Fate) -> None:
        outcome = _NO_CALL if fate.how == "never" else fate.outcome
        is_one_of_several = case.flight.doubted or case.flight.is_before_loss
        if outcome is not None and outcome.verdict is not Verdict.SUCCEEDED and is_one_of_several:
            self._close(case)  # that this call was not made, or failed, says nothing of the others
            return
        if outcome is not None and outcome.verdict is not Verdict.UNKNOWN:
            self._close(case)
            self._resolved.append((case.flight, outcome, case.host))
            self._wake()
        elif fate.how in ("unknown", "ended"):
            self._close(case)  # there is nothing more to be learnt

    def _call_again(self, flight: Flight, *, doubtful: bool) -> None:
        if flight.cancel is not None:
            self._launcher.withdraw([flight])
            return
        self.add_again(Again(flight, doubtful))
        self._wake()

    def _close(self, case: _Case) -> None:
        self._cases.pop(case.flight.lid, None)
