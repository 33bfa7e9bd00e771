"""Changes become one durable entry: executed, then appended, then committed. What cannot be applied never becomes
durable. One append is in flight at a time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from tocsin.clock import Clock
from tocsin.errors import (
    Conflict,
    Deposed,
    DeposedInDoubt,
    JournalFull,
    JournalUnavailable,
    PlaceTrimmed,
    PresenceMoved,
    Stopping,
    TocsinError,
    Unknown,
)
from tocsin.journal.contract import Election, Journal, settle
from tocsin.model.change import Change
from tocsin.model.entry import Entry, Position
from tocsin.observe.metrics import Metrics
from tocsin.replica.applying import Applier
from tocsin.replica.nagging import Nag
from tocsin.replica.office import Office
from tocsin.state.apply.tentative import TentativeEntry
from tocsin.state.store import is_damage

log = structlog.get_logger()

SILENCE_S = 3.0
"""An append whose fate is still unknown then is not merely late: authority has ended long before."""
_NOTHING = "nothing can be written down, so nothing is launched"


class Proposer:
    """The only one that appends."""

    def __init__(
        self,
        journal: Journal,
        applier: Applier,
        office: Office,
        clock: Clock,
        metrics: Metrics,
        on_state: Callable[..., Awaitable[Any]],
        new_id: Callable[[], bytes],
        offer: Callable[[Position], None],
    ) -> None:
        """``offer`` is told of every entry before it is offered to the journal."""
        self._journal = journal
        self._applier = applier
        self._office = office
        self._clock = clock
        self._metrics = metrics
        self._on_state = on_state
        self.new_id = new_id
        self._offer = offer
        self._nag = Nag(clock)
        self.sent_s = 0.0
        """When the last entry was sent."""
        self.append_s = 0.0
        """How long it took until it was acknowledged."""
        self.stopping = False
        """Nobody waits any more for an entry that cannot be applied: the next start will apply it."""
        self.problem = ""
        """What keeps entries from being written or applied, in words. Empty: nothing."""

    async def commit(
        self,
        changes: Sequence[Change],
        term: int,
        now_ms: int,
        election: Election | None = None,
        id: bytes | None = None,
    ) -> list[object]:
        """Execute, append, commit. Returns one result for each change. ``id``: of the entry, if somebody has noted it.

        Raises JournalFull or JournalUnavailable when it is certain that nothing landed, Deposed when somebody else has
        written in its place, and Stopping where nobody waits any more to find out.
        """
        self._office.offered()
        try:
            return await self._write(changes, term, now_ms, election, id)
        finally:
            self._office.answered()

    async def _write(
        self,
        changes: Sequence[Change],
        term: int,
        now_ms: int,
        election: Election | None,
        id: bytes | None,
    ) -> list[object]:
        after = self._applier.position
        entry = Entry(id or self.new_id(), after.id, term, now_ms, list(changes))
        executed = await self._execute(entry)
        try:
            self.sent_s = sent_s = self._clock.elapsed_s()
            await self._append(entry.id, executed.raw, after, election)
        except (Exception, asyncio.CancelledError):
            await self._on_state(executed.roll_back)
            raise
        self._office.renewed(sent_s)
        self.append_s = self._clock.elapsed_s() - sent_s
        self._metrics.append_seconds.observe(self.append_s)
        self._metrics.entries.inc()
        if (silent_s := self._nag.over()) is not None:
            log.info("written again", after_s=silent_s)
        await self._commit(executed)
        return executed.results

    async def _execute(self, entry: Entry) -> TentativeEntry:
        """Nothing is in the journal yet, so a disk without room is a reason to refuse."""
        try:
            executed: TentativeEntry = await self._on_state(self._begin, entry)
        except asyncio.CancelledError:  # the thread goes on: no transaction may stay open behind it
            await self._on_state(self._applier.roll_back)
            raise
        except JournalFull as wrong:  # what comes before each entry on the disk
            self.problem = str(wrong)
            raise
        except sqlite3.OperationalError as wrong:
            if is_damage(wrong):
                raise
            self.problem = f"entries cannot be applied: {wrong}"
            raise JournalFull(
                self.problem, hint="free some room on the disk: it goes on by itself"
            ) from wrong
        for change, error in executed.dropped:
            self._metrics.dropped_changes.inc()
            log.error(
                "change dropped: it cannot be applied",
                change=type(change).__name__,
                exc_info=error,
                of=change,
            )
        return executed

    def _begin(self, entry: Entry) -> TentativeEntry:
        self._offer(Position(self._applier.position.seq + 1, entry.id))
        return self._applier.begin(entry)

    def complain(self, refused: TocsinError) -> None:
        """Certain that nothing was written: tell whoever runs this."""
        if self._nag.is_due(str(refused)):
            log.error(_NOTHING, reason=str(refused), for_s=self._nag.lasted_s)

    def _complain_of_silence(self) -> None:
        if self._nag.is_due("silence", after_s=SILENCE_S):
            is_sole = self._office.renew_s is None
            log.error(
                _NOTHING if is_sole else "no majority: nothing can be written or launched from here",
                reason=self.problem,
                for_s=self._nag.lasted_s,
            )

    async def _append(self, id: bytes, raw: bytes, after: Position, election: Election | None) -> None:
        """Certain when it returns, and certain when it raises: an unknown answer is asked after until it is known."""
        try:
            await self._journal.append(id, raw, after, election)
            self.problem = ""
            return
        except Unknown as unknown:
            self.problem = str(unknown)
            log.warning("the answer to an append was lost, asking", seq=after.seq + 1, reason=str(unknown))
            self._nag.began(self.sent_s)
        except Conflict as conflict:
            raise _deposed(after, conflict) from conflict
        except Exception as refused:  # why: noted for the status page, then raised as it is
            self.problem = str(refused)
            raise
        while True:
            try:
                await settle(self._journal, id, raw, after, election)
                self.problem = ""
                return
            except Conflict as conflict:
                self.problem = ""
                raise _deposed(after, conflict) from conflict
            except (Unknown, JournalFull, JournalUnavailable) as unknown:
                # Also a refusal proves nothing here: the first offer may still land.
                self.problem = str(unknown)
                if self.stopping:
                    raise Stopping(self.problem) from unknown
                self._complain_of_silence()
                await asyncio.sleep(0.2)

    async def _commit(self, executed: TentativeEntry) -> None:
        """The entry is the truth already. Where there is no room to commit it, there is no way but to wait."""
        while True:
            try:
                await self._on_state(self._applier.commit, executed)
                self.problem = ""
                self._applier.applied.notice(executed.seq)
                return
            except sqlite3.OperationalError as wrong:
                if is_damage(wrong):
                    raise
                self.problem = f"entry {executed.seq} is in the journal but cannot be applied yet: {wrong}"
                log.error("cannot apply", seq=executed.seq, reason=str(wrong))
                if self.stopping:
                    await self._on_state(executed.roll_back)
                    raise Stopping(self.problem) from wrong
                await asyncio.sleep(1.0)


def _deposed(after: Position, conflict: Conflict) -> Deposed:
    if isinstance(conflict, PresenceMoved):
        return Deposed(conflict.message)
    if isinstance(conflict, PlaceTrimmed):
        return DeposedInDoubt(conflict.message)
    return Deposed(f"somebody else has written entry {after.seq + 1} of the journal")
