"""Following, standing for office, leading, and following again.

On one machine there is nothing to follow: the only replica takes office at once and keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import structlog

from tocsin.clock import Clock
from tocsin.errors import Deposed, Gap, JournalError, NoLeader, TocsinError
from tocsin.model.command import Command
from tocsin.replica.follower import Follower
from tocsin.replica.leader import Leader
from tocsin.replica.nagging import Nag
from tocsin.replica.office import Office

log = structlog.get_logger()
LEAP_AGAIN_S = 1.0

Role = Literal["starting", "follower", "leader", "former"]


class Career:
    """What this replica is at the moment."""

    def __init__(
        self,
        office: Office,
        follower: Follower,
        make_leader: Callable[[], Leader],
        may_stand: Callable[[], Awaitable[bool]],
        leap: Callable[[Gap], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._office = office
        self._follower = follower
        self._make_leader = make_leader
        self._may_stand = may_stand
        self._leap = leap
        self._leader: Leader | None = None
        self._stopping = False
        self._nag = Nag(clock)
        self.role: Role = "follower"
        self.ready = asyncio.Event()
        """It has led or followed: whoever started it need not wait any longer."""

    @property
    def leader(self) -> Leader | None:
        """The present term, if it is ours and has begun to work."""
        return self._leader if self._leader is not None and self._leader.ready.is_set() else None

    @property
    def any_leader(self) -> Leader | None:
        """The present term, even if it is still taking office."""
        return self._leader

    async def propose(self, command: Command) -> Any:
        leader = self.leader
        if leader is None:
            raise NoLeader("this replica does not lead", hint="try again in a moment")
        return await leader.propose(command)

    def step_down(self) -> None:
        if self._leader is not None:
            self._leader.stop()

    def stop(self) -> None:
        self._stopping = True
        self._follower.stop()
        if self._leader is not None:
            self._leader.stop_for_good()

    async def run(self) -> None:
        is_sole = self._office.renew_s is None
        while not self._stopping:
            if not is_sole:
                self.ready.set()
                try:
                    await self._follower.follow(self._may_stand)
                except Gap as gap:
                    await self._leap_over(gap)
                    continue
                if self._stopping:
                    break
            await self._lead(is_sole)
        self.role = "former"

    async def _leap_over(self, gap: Gap) -> None:
        """Nobody may be there at this moment to leap with: that is no reason to give up."""
        try:
            await self._leap(gap)
        except TocsinError as wrong:
            if not wrong.retryable:
                raise
            log.warning("cannot leap over the gap yet", reason=str(wrong))
            await asyncio.sleep(LEAP_AGAIN_S)

    async def _lead(self, is_sole: bool) -> None:
        leader = self._leader = self._make_leader()
        working = asyncio.create_task(self._note_ready(leader), name="ready")
        try:
            await leader.run()
        except Deposed as deposed:
            if is_sole:
                raise
            has_led = leader.ready.is_set()
            log.info("in office no more" if has_led else "another replica was faster", reason=str(deposed))
        except JournalError as refused:
            if is_sole or not refused.retryable:
                raise
            if self._nag.is_due(str(refused)):
                log.warning("could not take office", reason=str(refused))
        finally:
            working.cancel()
            self._leader = None
            self.role = "follower"

    async def _note_ready(self, leader: Leader) -> None:
        await leader.ready.wait()
        self.role = "leader"
        self._nag.over()
        self.ready.set()
