"""Who the other replicas are and where. Nobody waits for it: what was known last is known at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import structlog

from tocsin.errors import NotEnlisted, TocsinError
from tocsin.journal.contract import Roster
from tocsin.model.cluster import Member

log = structlog.get_logger()
REFRESHED_EVERY_S = 12.0
_PATIENCE_S = 2.0


class Directory:
    """The roster, as it was last seen; before that, what the settings say."""

    def __init__(self, name: str, given: Iterable[Member] = (), roster: Roster | None = None) -> None:
        self._name = name
        self._roster = roster
        self._members = {member.name: member for member in given}
        self._is_read = self._is_enlisted = False
        self._removed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def consult(self, roster: Roster) -> None:
        """From now on this is where to look."""
        self._roster = roster

    def members(self) -> list[Member]:
        """All of them, this one too, by name."""
        return sorted(self._members.values(), key=lambda member: member.name)

    def others(self) -> list[Member]:
        """Those that can be reached from here."""
        return [member for member in self.members() if member.name != self._name and member.peer]

    def started(self) -> list[str]:
        """The names of those that were ever ready: until then the roster has no API of theirs. Before the roster was
        read nobody can tell, and all are named."""
        return [member.name for member in self.members() if member.api or not self._is_read]

    def find(self, name: str) -> Member | None:
        """Where nobody is known by that name, the roster is read again, for the next one who asks."""
        found = self._members.get(name)
        if found is None or not found.peer:
            self._wanted.set()
            return None
        return found

    def look_again(self) -> None:
        """Something has changed, or may have."""
        self._wanted.set()

    async def removed(self) -> NotEnlisted:
        """Returns when the roster has this replica no more. One that it never had may be starting."""
        await self._removed.wait()
        log.error("this replica was removed from the cluster; it stops")
        return NotEnlisted.of(self._name)

    async def start(self) -> None:
        if self._roster is not None and self._running is None:
            self._running = asyncio.create_task(self._keep_fresh(), name="roster")

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def refresh(self) -> bool:
        """Read the roster now. False: it did not answer, and what was known stays."""
        if self._roster is None:
            return False
        try:
            async with asyncio.timeout(_PATIENCE_S):
                found = await self._roster.members()
        except (TocsinError, TimeoutError, OSError) as wrong:
            log.debug("the roster cannot be read", reason=str(wrong) or "no answer")
            return False
        if found:
            before, self._members = self.members(), {member.name: member for member in found}
            self._is_read = True
            self._note_removal()
            _tell_change(before, self.members())
        return True

    def _note_removal(self) -> None:
        if self._is_enlisted and self._name not in self._members:
            self._removed.set()
        self._is_enlisted = self._name in self._members

    async def _keep_fresh(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self.refresh()
            except Exception as mistake:  # why: others are reached by what was known before
                log.error("the roster cannot be read", exc_info=mistake)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESHED_EVERY_S):
                    await self._wanted.wait()
            # Whoever asks for an unknown name again and again does not have it read all day.
            await asyncio.sleep(0.1)


def _tell_change(before: Iterable[Member], now: Iterable[Member]) -> None:
    """Who was added, removed or has moved."""
    spelt = [",".join(f"{member.name}={member.peer}" for member in members) for members in (before, now)]
    if spelt[0] != spelt[1]:
        log.info("the replicas are others now", replicas=spelt[1], before=spelt[0])
