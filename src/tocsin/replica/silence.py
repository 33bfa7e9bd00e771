"""Is something due, and nobody decides anything?

A service that has stopped silently answers every question and renews its office; only nothing is launched. So this
looks from outside at what is due, on the leader and, of a leader that is heard but launches nothing, on the others.

What waits for a known reason is none of it: a receiver that does not answer keeps its own lane full, what cannot be
written is told as that, and who catches up decides something all the time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import structlog

from tocsin.clock import Clock
from tocsin.cron import format_duration
from tocsin.replica.lanes import Room, lane_of_spec
from tocsin.replica.nagging import Nag
from tocsin.state import queries, traces
from tocsin.state.store import Meta

log = structlog.get_logger()

EVERY_S = 5.0
OVERDUE_MS = 30_000
"""What is overdue by less may be about to start."""
STILL_S = 15.0
"""For so long the same occurrence must have been the one to decide."""
HEARD_MS = 15_000
"""A leader of whom nothing was heard for so long is gone, or this replica is behind: that is told elsewhere."""
LOOKED_AT = 500
UNANSWERED_MIN = 100
"""With so many calls unanswered, a follower takes it that the leader waits for them."""


class Due(NamedTuple):
    """The occurrence that should have been decided."""

    at_ms: int
    sid: int
    id: str


class Reading(Protocol):
    """How the state is asked, on a thread that holds nobody up."""

    async def read(self, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...


class Around(NamedTuple):
    """What is known here of whoever decides."""

    meta: Callable[[], Meta]
    told_ms: Callable[[], int]
    """When the leader was last heard and nothing of it was left to apply."""
    room: Callable[[], Room | None]
    """How much may be started, on a replica that leads; None: another one does."""
    problem: Callable[[], str]
    limits_of: Callable[[bytes], Sequence[object]] = lambda spec: ()
    """What a schedule is held to. Only whoever leads knows how much room there is."""


class Silence:
    """Looks every few seconds, as long as the replica lives."""

    def __init__(self, reading: Reading, clock: Clock, around: Around) -> None:
        self._reading = reading
        self._clock = clock
        self._around = around
        self._stop = asyncio.Event()
        self._nag = Nag(clock)
        self._key: tuple[object, ...] = ()
        self._key_s = self._looked_s = 0.0
        self.due: Due | None = None
        """What nobody decides, if the service has stopped silently."""
        self.waits_for = ""
        """The lane that is full, if what is overdue waits for room in it."""
        self.limit = ""
        """The limit that is reached, if it waits for that."""

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, EVERY_S):
            await self.look()

    async def look(self) -> None:
        """Once."""
        try:
            await self._look()
        except sqlite3.Error as wrong:
            log.warning("what is due could not be looked at", reason=str(wrong))

    async def _look(self) -> None:
        now_ms = self._clock.wall_ms()
        room = self._around.room()
        meta = self._around.meta()
        told_ms = self._around.told_ms()
        is_heard = room is not None or (meta.leader != "" and now_ms - told_ms <= HEARD_MS)
        self.waits_for = self.limit = ""
        candidate: Due | None = None
        if is_heard and not self._around.problem():
            # What is due is due by the clock of whoever leads, who is heard several times a second.
            by_ms = now_ms if room is not None else told_ms
            rows = (await self._reading.read(queries.due, by_ms - OVERDUE_MS, LOOKED_AT)).rows
            candidate = self._with_room(rows, room) if room is not None else await self._of_another(rows)
        # Others see only that nothing was decided at all: what is overdue may wait for its own receiver.
        decided = () if room is not None else (meta.next_lid, meta.term)
        self._judge(candidate, decided)

    def _with_room(self, rows: list[tuple[Any, ...]], room: Room) -> Due | None:
        for at_ms, sid, _, id, *_, spec in rows:
            if room.takes(spec):
                return Due(at_ms, sid, id)
        if rows:
            self.waits_for = lane_of_spec(rows[0][-1])
            self.limit = room.limit_of(rows[0][-1])
        return None

    async def _of_another(self, rows: list[tuple[Any, ...]]) -> Due | None:
        if not rows:
            return None
        unanswered: int = await self._reading.read(traces.unanswered, UNANSWERED_MIN)
        if unanswered >= UNANSWERED_MIN:
            self.waits_for = lane_of_spec(rows[0][-1])
            return None
        for at_ms, sid, _, id, *_, spec in rows:
            if not self._around.limits_of(spec):
                return Due(at_ms, sid, id)
        return None

    def _judge(self, candidate: Due | None, decided: tuple[object, ...]) -> None:
        now_s = self._clock.elapsed_s()
        key = () if candidate is None else (candidate.at_ms, candidate.sid, *decided)
        # Who has not looked for a while was asleep, and so was whoever decides.
        if key != self._key or now_s - self._looked_s > 2 * EVERY_S:
            self._key, self._key_s = key, now_s
        self._looked_s = now_s
        is_silent = candidate is not None and now_s - self._key_s >= STILL_S
        self.due = candidate if is_silent else None
        if self.due is not None and self._nag.is_due(str(self.due.sid)):
            log.error("nothing is decided, though something is due", schedule=self.due.id, since=self.since)
        elif self.due is None and self._nag.over() is not None:
            log.info("what is due is decided again")

    @property
    def since(self) -> str:
        """Since when it has been due."""
        if self.due is None:
            return ""
        return datetime.fromtimestamp(self.due.at_ms / 1000, UTC).isoformat(timespec="seconds")

    def problem(self) -> str:
        """In words that name no schedule: whoever asks may not be allowed to know of it. Empty: there is none."""
        if self.due is None:
            return ""
        length = format_duration(max(0, self._clock.wall_ms() - self.due.at_ms) // 1000)
        return (
            f"nothing is decided, though an occurrence has been due since {self.since} ({length}): "
            "the scheduling has stopped"
        )
