"""What a leader makes of its wall clock.

While the clock is not believed, nothing that depends on time is decided: no launch, no retry, nothing is forgotten.
Outcomes are recorded and commands carried out, stamped with the time that is believed. A leader that the others say is
wrong leaves office, if they can tell; otherwise it waits for the clock to be set right, or for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import structlog

from tocsin.decide.clock import AGREE_MS, Verdict
from tocsin.errors import ClockNotBelieved, Refused
from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    Command,
    ConfirmClock,
    LaunchNow,
    PutSchedule,
    PutSchedules,
    RepairDue,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.replica.absence import ABSENCE_MS
from tocsin.replica.clock_guard import ClockGuard
from tocsin.state.store import DOUBT_OPEN_MS, Meta

log = structlog.get_logger()

ASKED_EVERY_S = 1.0
BACK_MS = 30_000
"""A clock that is believed and is further behind the last entry was put back, and the journal hears of it: however far
it may step, next instants and retries were computed from there."""
_BY_TIME = (PutSchedule, PutSchedules, LaunchNow, Backfill)
"""They name or compute instants, or launch something at once. After a cold start with a clock that is not believed
nobody knows from when, or when that is."""


class ClockWatch:
    """Kept by one leader during its term."""

    def __init__(
        self,
        clock: ClockGuard,
        ask: Callable[[], Awaitable[Verdict]],
        seen: Callable[[], Verdict],
        *,
        is_sole: bool,
    ) -> None:
        """``ask`` the others now; ``seen``: what they said when they were last asked."""
        self._clock = clock
        self._ask = ask
        self._seen = seen
        self._is_sole = is_sole
        self._asked_s = 0.0
        self._stopped_ms: int | None = None
        """When deciding stopped, by the time that is believed; None: it has not."""

    def check(self, command: Command) -> Command:
        """Raise if the command cannot be carried out by the clock as it is. Returns it, with what is known here."""
        if isinstance(command, ConfirmClock):
            self._check_confirmed(command)
            return msgspec.structs.replace(command, stopped_ms=self._stopped_ms)
        if isinstance(command, RepairDue) and not self._clock.is_believed:
            raise ClockNotBelieved("the wall clock is not believed", hint="'tocsin clock' tells more")
        if _goes_by_time(command) and self._clock.state == "unknown":
            raise ClockNotBelieved(
                "the wall clock is far from the last entry and is not believed: nothing is planned or launched by it",
                hint="'tocsin clock' tells more; 'tocsin clock confirm' if it is right",
            )
        return command

    def _check_confirmed(self, command: ConfirmClock) -> None:
        if self._clock.is_believed:
            raise Refused("the wall clock is believed: there is nothing to confirm")
        shown_ms = self._clock.system_ms()
        if abs(shown_ms - command.now_ms) > AGREE_MS:
            raise Refused(
                f"the leader's wall clock shows {_moment(shown_ms)}, not {_moment(command.now_ms)}",
                hint="look at 'tocsin clock' again, and confirm what it shows if that is right",
            )

    async def is_wrong(self, moved_ms: int) -> bool:
        """Do the others say that the clock here is wrong? They are asked when it moved or is not believed, and every
        few seconds in any case."""
        if self._is_sole:
            return False
        if not moved_ms and self._clock.is_believed:
            return self._seen() is Verdict.WRONG
        now_s = self._clock.elapsed_s()
        if not moved_ms and now_s - self._asked_s < ASKED_EVERY_S:
            return False
        self._asked_s = now_s
        return await self._ask() is Verdict.WRONG

    def may_decide(self) -> bool:
        """By the clock as it is now."""
        is_believed = self._clock.is_believed
        if not is_believed and self._stopped_ms is None:
            self._stopped_ms = self._clock.wall_ms()
        return is_believed

    def while_undecided(self, meta: Meta) -> list[c.Change]:
        """The journal has to hear it when the clock is not believed for long: otherwise the next leader takes whatever
        falls due meanwhile for late."""
        if self._stopped_ms is None or meta.undecided_since_ms:
            return []
        return (
            [c.ClockDoubted(self._stopped_ms)]
            if self._clock.wall_ms() - self._stopped_ms >= ABSENCE_MS
            else []
        )

    def before_deciding(self, now_ms: int, meta: Meta) -> list[c.Change]:
        """What the journal has to hear first: the clock is believed, and was put back; or nothing was decided for a
        while."""
        found: list[c.Change] = []
        if now_ms < meta.time_ms - BACK_MS:
            note = "the clock went back" if self._is_sole else "the clocks of the replicas agree"
            found.append(c.ClockSet(now_ms, note=note, is_confirmed=False))
        stopped_ms = self._stopped_ms
        is_away = stopped_ms is not None and not 0 <= now_ms - stopped_ms < ABSENCE_MS
        if is_away or meta.undecided_since_ms or meta.doubtful_until_ms == DOUBT_OPEN_MS:
            own_ms = meta.time_ms if stopped_ms is None else stopped_ms
            since_ms = min(meta.undecided_since_ms or own_ms, now_ms)
            found.append(c.Returned(since_ms, self._clock.is_counted))
        if not found:
            self._stopped_ms = None
        return found

    def heard(self) -> None:
        """The journal has heard of it."""
        self._stopped_ms = None
        self._clock.noted()
        log.warning("the wall clock is believed again, and launching goes on")

    def confirmed(self, change: c.ClockSet, meta: Meta) -> None:
        """It stands in the journal that a person believes the clock, and, if it was put forward, since when nothing was
        decided."""
        self._clock.believe()
        self._clock.noted()
        if meta.present_since_ms == change.now_ms:
            self.heard()


def _goes_by_time(command: Command) -> bool:
    if isinstance(command, SwitchSchedule):
        return command.enabled
    if isinstance(command, ResolveLaunch):
        return command.outcome == "relaunch"
    return isinstance(command, _BY_TIME)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
